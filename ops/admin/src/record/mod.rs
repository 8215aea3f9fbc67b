//! Launch orders: a record of a leader's inputs, read from the cluster's stream or from a file, and
//! the rows of its replay. `docs/internals/record.md` describes the files.

mod archive;
mod beginning;
mod check;
mod difference;
mod file;
mod follow;
mod listing;
mod messages;
mod model;
mod news;
mod row;
mod stream;

use std::path::Path;

use anyhow::{Context, Result};

pub use archive::{Added, add, is_archive, read_archive};
pub use beginning::AnchorLine;
pub use check::{First, GpuCheck, OrderCheck, With};
pub use difference::{Difference, GpuDifference, difference};
pub use file::{is_record, read, write};
pub(crate) use follow::scan_within;
pub use follow::{Followed, Scanned, follow, follow_explained, follow_in_parts, scan_explained};
pub use listing::{Format, read_listing, write_listing};
pub use model::{Block, Record, whole};
pub use row::{PositionRow, rows};
pub use stream::{of_cluster, stream_blocks};

use crate::administrator::Administrator;
use crate::errors::{ErrorCode, named};
use crate::settings::Settings;

/// The source of an order.
#[derive(Debug)]
pub enum Source {
    /// A record, of the cluster or of a file.
    Record(Record),
    /// Rows that were exported.
    Listing(Vec<PositionRow>),
}

impl Source {
    /// Opens a file; without one, the cluster's record.
    ///
    /// # Errors
    /// If it cannot be read, or is none of these; [`crate::errors::Unreachable`] without a cluster.
    pub async fn open(path: Option<&Path>, settings: &Settings) -> Result<Self> {
        match path {
            Some(path) => Self::read(path),
            None => {
                let administrator = Administrator::of(settings).await?;
                of_cluster(&administrator).await.map(Self::Record)
            }
        }
    }

    /// Reads a file, or an archive's folder.
    ///
    /// # Errors
    /// If it cannot be read, or is neither a record, an archive nor exported rows.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return read_archive(path).map(Self::Record);
        }
        let shown = path.display();
        let bytes = named(
            std::fs::read(path),
            ErrorCode::RecordFile,
            format_args!("cannot read {shown}"),
        )?;
        let source = if file::is_record(&bytes) {
            read(&bytes).map(Self::Record)
        } else {
            read_listing(&bytes).map(Self::Listing)
        };
        source.with_context(|| ErrorCode::RecordFile.failed(path.display()))
    }

    /// The rows of the order, in order.
    ///
    /// # Errors
    /// If the record does not replay.
    pub fn rows(&self) -> Result<Vec<PositionRow>> {
        match self {
            Self::Record(record) => Ok(rows(&record.replay()?)),
            Self::Listing(rows) => Ok(rows.clone()),
        }
    }
}
