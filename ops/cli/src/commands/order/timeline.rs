//! `warploom order timeline`.

use std::path::PathBuf;

use admin::errors::ErrorCode;
use admin::output;
use admin::record::Source;
use admin::settings::Settings;
use anyhow::{Context, Result};
use clap::Args;

use super::filter::Filter;
use crate::timeline::Timeline;

/// `warploom order timeline`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom order timeline run.record --out run.svg --from 1000 --to 1400")]
pub struct TimelineArgs {
    /// A file that `order export` wrote (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// The SVG file to write
    #[arg(long, value_name = "FILE.svg")]
    pub out: PathBuf,
    /// Filter of positions.
    #[command(flatten)]
    pub filter: Filter,
}

/// Draws an interval of the order.
pub(super) async fn timeline(args: &TimelineArgs, settings: &Settings, json: bool) -> Result<()> {
    let source = Source::open(args.source.as_deref(), settings).await?;
    let mut rows = source.rows()?;
    rows.retain(|row| args.filter.has(row));
    let timeline = Timeline::new(&rows);
    let shown = args.out.display();
    std::fs::write(&args.out, timeline.svg())
        .with_context(|| ErrorCode::RecordFile.failed(format!("cannot write {shown}")))?;
    let (positions, bars) = (timeline.positions(), timeline.bars());
    match json {
        true => output::line(serde_json::json!({ "positions": positions, "bars": bars })),
        false => output::line(format_args!(
            "{positions} positions as {bars} bars: {shown}"
        )),
    }
}
