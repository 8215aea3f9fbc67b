//! `warploom order export`.

use std::path::{Path, PathBuf};

use admin::errors::{ErrorCode, UsageError};
use admin::output;
use admin::record::{self, Format, Source, write, write_listing};
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use clap::Args;

use super::filter::Filter;

/// `warploom order export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom order export --out run.record      can be replayed without a cluster
  warploom order export --out chat.csv --tenant chat
  warploom order export --archive order       adds what the folder lacks")]
pub struct ExportArgs {
    /// A record that was exported (default: the cluster's)
    pub source: Option<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE", required_unless_present = "archive")]
    pub out: Option<PathBuf>,
    /// Adds the blocks that this folder lacks to it, so that the cutting of the record loses
    /// nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format", "tenant", "gpu", "from", "to"])]
    pub archive: Option<PathBuf>,
    /// Its format (default: by the file name: .csv, .jsonl, else a record)
    #[arg(long)]
    pub format: Option<Format>,
    /// Filter of positions.
    #[command(flatten)]
    pub filter: Filter,
}

/// Writes the order to a file.
pub(super) async fn export(args: &ExportArgs, settings: &Settings, json: bool) -> Result<()> {
    if let Some(dir) = &args.archive {
        return archive(dir, args, settings, json).await;
    }
    let Some(out) = &args.out else {
        bail!(UsageError("--out FILE or --archive DIR: where to?".into()));
    };
    let format = args.format.unwrap_or_else(|| format_of(out));
    let Filter {
        tenant,
        gpu,
        from,
        to,
    } = &args.filter;
    let whole = tenant.is_none() && gpu.is_none() && from.is_none() && to.is_none();
    if format == Format::Record && !whole {
        bail!(UsageError(
            "a record is exported whole: an order cannot be recomputed from a part of it".into()
        ));
    }
    let source = Source::open(args.source.as_deref(), settings).await?;
    let (positions, bytes) = match (source, format) {
        (Source::Record(mut record), Format::Record) => {
            let replayed = record.replay_whole()?;
            // Marks are counted from a worker's first position.
            if replayed.anchor.is_none() {
                record.set_marks(&replayed.positions);
            }
            (replayed.positions.len(), write(&record)?)
        }
        (Source::Listing(_), Format::Record) => {
            bail!(UsageError(
                "rows are no record: they lack the inputs".into()
            ))
        }
        (source, format) => {
            if let Source::Record(record) = &source {
                record.replay_whole()?;
            }
            let mut rows = source.rows()?;
            rows.retain(|row| args.filter.has(row));
            let mut bytes = Vec::new();
            write_listing(&rows, format, &mut bytes)?;
            (rows.len(), bytes)
        }
    };
    let shown = out.display();
    std::fs::write(out, &bytes)
        .with_context(|| ErrorCode::RecordFile.failed(format!("cannot write {shown}")))?;
    let size = bytes.len();
    match json {
        true => output::line(serde_json::json!({ "positions": positions, "bytes": size })),
        false => output::line(format_args!("{positions} positions, {size} bytes: {shown}")),
    }
}

/// Adds the blocks that an archive lacks to it.
async fn archive(dir: &Path, args: &ExportArgs, settings: &Settings, json: bool) -> Result<()> {
    let Source::Record(record) = Source::open(args.source.as_deref(), settings).await? else {
        bail!(UsageError(
            "rows are no record: they lack the inputs".into()
        ));
    };
    let added = record::add(dir, &record)?;
    let (blocks, bytes, segments) = (added.blocks, added.bytes, added.segments);
    match json {
        true => output::line(serde_json::json!({
            "blocks": blocks, "bytes": bytes, "segments": segments,
        })),
        false => output::line(format_args!(
            "{blocks} blocks added, {bytes} bytes; {segments} segments: {}",
            dir.display()
        )),
    }
}

fn format_of(path: &Path) -> Format {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Format::Csv,
        Some("jsonl" | "json") => Format::Jsonl,
        _ => Format::Record,
    }
}
