//! `warploom order`: looks at launch orders, exports, verifies and compares them, draws them, and
//! holds grants back.

mod diff;
mod export;
mod hold;
mod show;
mod timeline;
mod verify;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use verify::verify;

use crate::record::{Format, Row};
use crate::settings::Settings;

/// `warploom order`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
SOURCE is a record, rows or an archive that `order export` wrote; without one, it is the cluster's own record.

Examples:
  warploom order show --tenant chat --limit 20
  warploom order show --live
  warploom order export --out run.record
  warploom order export --archive /var/lib/warploom/order
  warploom order verify run.record
  warploom order diff yesterday.record run.record
  warploom order timeline run.record --out run.svg --from 1000 --to 1400
  warploom order hold && ./queue-everything && warploom order release")]
pub enum OrderCommand {
    /// Lists positions of the order
    Show(ShowArgs),
    /// Writes the order to a file: CSV, JSON lines, or a record that needs no cluster
    Export(ExportArgs),
    /// Recomputes an order and compares its chains; for a directory, checks a demo's evidence
    Verify(VerifyArgs),
    /// Compares two orders: the first difference, then each device
    Diff(DiffArgs),
    /// Draws an interval of the order as SVG
    Timeline(TimelineArgs),
    /// Holds all grants back until `release`
    Hold,
    /// Lets grants go again
    Release,
}

/// Which positions.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only this tenant's
    #[arg(long)]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Only this device's
    #[arg(long)]
    pub gpu: Option<u32>,
    /// From this global position on
    #[arg(long, value_name = "POSITION")]
    pub from: Option<u64>,
    /// Through this global position
    #[arg(long, value_name = "POSITION")]
    pub to: Option<u64>,
}

impl Filter {
    /// Whether a row is one of them.
    #[must_use]
    pub fn has(&self, row: &Row) -> bool {
        let tenant = self.tenant.as_ref();
        tenant.is_none_or(|tenant| tenant.as_str() == row.tenant)
            && self.gpu.is_none_or(|gpu| gpu == row.gpu)
            && self.from.is_none_or(|from| row.global >= from)
            && self.to.is_none_or(|to| row.global <= to)
    }
}

/// `warploom order show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A file that `order export` wrote (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// Which positions
    #[command(flatten)]
    pub filter: Filter,
    /// The last so many; 0 is all
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Goes on with every position that ends, until Ctrl-C
    #[arg(long, conflicts_with = "source")]
    pub live: bool,
}

/// `warploom order export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A record that was exported (default: the cluster's)
    pub source: Option<PathBuf>,
    /// The file
    #[arg(long, value_name = "FILE", required_unless_present = "archive")]
    pub out: Option<PathBuf>,
    /// Adds to this folder what the record has and the folder lacks, so that nothing is lost to the
    /// cutting of the record
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "format", "tenant", "gpu", "from", "to"])]
    pub archive: Option<PathBuf>,
    /// What it is (default: as its name ends: .csv, .jsonl, else a record)
    #[arg(long)]
    pub format: Option<Format>,
    /// Which positions
    #[command(flatten)]
    pub filter: Filter,
}

/// `warploom order verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// What `order export` wrote, or a directory of evidence (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// Fails unless the order has this digest
    #[arg(long, value_name = "HEX")]
    pub expect: Option<String>,
    /// Fails unless the evidence is signed with this key, which `warploom status` shows
    #[arg(long, value_name = "HEX")]
    pub key: Option<String>,
}

/// `warploom order diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A record or exported rows
    pub left: PathBuf,
    /// Another
    pub right: PathBuf,
}

/// `warploom order timeline`.
#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// A file that `order export` wrote (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// The picture
    #[arg(long, value_name = "FILE.svg")]
    pub out: PathBuf,
    /// Which positions
    #[command(flatten)]
    pub filter: Filter,
}

/// Runs an order command.
///
/// # Errors
/// When it fails, or what it checks does not hold.
pub async fn order(command: &OrderCommand, settings: &Settings, json: bool) -> Result<()> {
    match command {
        OrderCommand::Show(args) => show::show(args, settings, json).await,
        OrderCommand::Export(args) => export::export(args, settings, json).await,
        OrderCommand::Verify(args) => verify(args, settings, json).await,
        OrderCommand::Diff(args) => diff::diff(args, json),
        OrderCommand::Timeline(args) => timeline::timeline(args, settings, json).await,
        OrderCommand::Hold => hold::hold(true, settings, json).await,
        OrderCommand::Release => hold::hold(false, settings, json).await,
    }
}
