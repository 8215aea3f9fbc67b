//! `warploom order`: shows, exports, verifies, compares and draws launch orders, and holds back
//! grants.

mod diff;
mod export;
mod filter;
mod hold;
mod show;
mod timeline;
mod verify;

use admin::settings::Settings;
use anyhow::Result;
use clap::Subcommand;

pub use diff::DiffArgs;
pub use export::ExportArgs;
pub use filter::Filter;
pub use show::ShowArgs;
pub use timeline::TimelineArgs;
pub use verify::{VerifyArgs, verify};

/// `warploom order`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
SOURCE is a record, rows or an archive that `order export` wrote; without one, it is the
cluster's own record.

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
    /// Holds back all grants until `release`
    #[command(after_help = "\
Examples:
  warploom order hold
  warploom order hold && ./queue-everything && warploom order release")]
    Hold,
    /// Ends `hold`: grants are given again
    #[command(after_help = "\
Examples:
  warploom order release")]
    Release,
}

/// Runs an order command.
///
/// # Errors
/// If the command fails, or if what it checks does not hold.
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
