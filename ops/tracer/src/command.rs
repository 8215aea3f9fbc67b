//! The command `warploom tracer`.

use admin::settings::Settings;
use anyhow::Result;
use clap::Args;

use crate::run::role;

/// `warploom tracer`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tracer --set telemetry.otlp=http://collector:4318

`warploom up` starts one where telemetry.otlp is set. A cluster has one: a second one takes the requests over.
docs/reference/telemetry.md has the spans.")]
pub struct TracerArgs {}

/// Runs a tracer.
///
/// # Errors
/// If it cannot start.
pub fn tracer(_: &TracerArgs, settings: &Settings) -> Result<()> {
    role(settings)
}
