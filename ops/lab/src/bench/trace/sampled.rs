//! A tracer that keeps a share of the requests. Its environment says so, and roles inherit that of this program: so a
//! process with another environment becomes the tracer.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

/// Argument of `warploom bench` that starts the process.
pub(in crate::bench) const PROCESS: &str = ".sampled";

/// Number of arguments before the settings: this program, `bench`, and the process.
const BEFORE: usize = 3;

/// Becomes a tracer that keeps one request in `one_in`.
///
/// # Errors
/// If it cannot.
pub(in crate::bench) fn become_tracer(one_in: usize) -> Result<()> {
    let settings = std::env::args_os().skip(BEFORE);
    let settings = settings.filter(|it| !it.to_string_lossy().starts_with("--reps"));
    let share = 1.0 / one_in.max(1) as f64;
    let failed = Command::new(std::env::current_exe()?)
        .arg("tracer")
        .args(settings)
        .env("OTEL_TRACES_SAMPLER", "traceidratio")
        .env("OTEL_TRACES_SAMPLER_ARG", share.to_string())
        .exec();
    Err(failed).context("becoming a tracer")
}
