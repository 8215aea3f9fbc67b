//! `warploom order diff`.

use std::path::PathBuf;

use admin::errors::ErrorCode;
use admin::output;
use admin::record::{Difference, PositionRow, Source, difference};
use anyhow::{Result, bail};
use clap::Args;

/// `warploom order diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom order diff yesterday.record run.record")]
pub struct DiffArgs {
    /// A record or exported rows
    pub left: PathBuf,
    /// Another
    pub right: PathBuf,
}

/// Compares two orders.
pub(super) fn diff(args: &DiffArgs, json: bool) -> Result<()> {
    let left = Source::read(&args.left)?.rows()?;
    let right = Source::read(&args.right)?.rows()?;
    let found = difference(&left, &right);
    if json {
        output::line(serde_json::to_string(&found)?)?;
    } else {
        tell(&found)?;
    }
    match &found.first {
        None => Ok(()),
        Some(first) => bail!(ErrorCode::OrderDiffers.failed(format!(
            "the orders part at gpu {} position {}",
            first.gpu, first.position
        ))),
    }
}

fn tell(found: &Difference) -> Result<()> {
    if let Some(first) = &found.first {
        output::line(format_args!(
            "gpu {} position {}:",
            first.gpu, first.position
        ))?;
        output::line(format_args!("  - {}", what(first.left.as_deref())))?;
        output::line(format_args!("  + {}", what(first.right.as_deref())))?;
    }
    for gpu in &found.gpus {
        let worker = match gpu.worker {
            1 => String::new(),
            number => format!(", worker {number}"),
        };
        let compared = match &gpu.apart {
            None => format!("the same {} positions", gpu.same),
            Some(apart) => format!(
                "{} and {} positions, the same before position {}",
                gpu.left, gpu.right, apart.position
            ),
        };
        output::line(format_args!("gpu {}{worker}: {compared}", gpu.gpu))?;
    }
    Ok(())
}

fn what(row: Option<&PositionRow>) -> String {
    row.map_or("nothing".to_owned(), |row| {
        let ops = match row.kind.as_str() {
            "run" => format!("ops {}..{}", row.first, row.last),
            other => other.to_owned(),
        };
        format!("{} session {}, {ops}", row.tenant, row.ordinal)
    })
}
