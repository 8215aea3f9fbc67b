//! Launch orders: a record of a leader's inputs, read from the cluster's stream or from a file,
//! and the rows that it is replayed to. `docs/internals/record.md` describes the files.

mod archive;
mod beginning;
mod difference;
mod file;
mod listing;
mod row;
mod stream;
mod verdict;

use std::path::Path;

use anyhow::{Context, Result, bail};
use bus_schemas::{Epoch, GpuTail, Incarnation};
use scheduler_leader_core::replay::{self, Anchor, Replay, Replayed};

pub use archive::{Added, add, is_archive, read_archive};
pub use beginning::AnchorLine;
pub use difference::{Difference, GpuDifference, difference};
pub use file::{read, write};
pub use listing::{Format, read_listing, write_listing};
pub use row::{Row, rows};
pub use stream::{follow, of_cluster, stream_blocks};
pub use verdict::{First, GpuVerdict, OrderVerdict, With};

use crate::admin::Administrator;
use crate::settings::Settings;

/// A block of the record: epoch, number, bytes.
pub type Block = (Epoch, u64, Vec<u8>);

/// A record, from which the order can be recomputed without a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The cluster's name.
    pub cluster: String,
    /// Its blocks, in any order.
    pub blocks: Vec<Block>,
    /// Where the workers said that their chains end, or were then.
    pub ends: Vec<(Incarnation, GpuTail)>,
    /// The first 8 bytes of each worker's chain behind each position from the first on, as they
    /// were recomputed when the record was written: where it is replayed to something else, they
    /// tell from where on.
    pub marks: Vec<(Incarnation, Vec<u64>)>,
}

impl Record {
    /// Recomputes the order.
    ///
    /// # Errors
    /// When it does not replay.
    pub fn replay(&self) -> Result<Replayed> {
        replay::replay(&self.blocks, &[]).context("E-REPLAY: the record does not replay")
    }

    /// Where it begins, if what lies before was cut off.
    ///
    /// # Errors
    /// When the anchor cannot be read.
    pub fn anchor(&self) -> Result<Option<Anchor>> {
        replay::beginning(&self.blocks).context("E-REPLAY: the record's anchor")
    }

    /// Recomputes the order, which must be whole.
    ///
    /// # Errors
    /// When it does not replay, or has a hole.
    pub fn replay_whole(&self) -> Result<Replayed> {
        let replayed = self.replay()?;
        whole(&replayed)?;
        Ok(replayed)
    }

    /// What is recomputed, and where it disagrees, if it does.
    #[must_use]
    pub fn verify(&self) -> OrderVerdict {
        let mut replay = Replay::default();
        let blocks = self.blocks.iter();
        let mut added = blocks.map(|(epoch, number, bytes)| replay.add(*epoch, *number, bytes));
        let failed = added.find_map(Result::err);
        drop(added);
        let failed = failed.or_else(|| replay.advance(|_| {}).err());
        OrderVerdict::new(self, replay, failed)
    }
}

/// Whether an order has every position that a worker accepted.
///
/// # Errors
/// The first position that it lacks.
pub fn whole(replayed: &Replayed) -> Result<()> {
    let before = replayed.anchor.as_ref().map_or(0, |anchor| anchor.skipped);
    match replayed.holes.first() {
        None if before > 0 => bail!(
            "E-REPLAY-HOLE: of {before} positions before the anchor neither the record nor a seal's \
             tail told anything"
        ),
        None => Ok(()),
        Some(hole) => bail!(
            "E-REPLAY-HOLE: {} positions were accepted that are neither in the record nor in a seal's \
             tail, the first of them: {hole}",
            replayed.skipped
        ),
    }
}

/// Where an order is read from.
#[derive(Debug)]
pub enum Source {
    /// A record, of the cluster or of a file.
    Record(Record),
    /// Rows that were exported.
    Listing(Vec<Row>),
}

impl Source {
    /// Opens a file, or without one the record of the cluster.
    ///
    /// # Errors
    /// When it cannot be read, or is none of these; [`crate::exit::Unreachable`] without a cluster.
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
    /// When it cannot be read, or is neither a record, an archive nor exported rows.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return read_archive(path).map(Self::Record);
        }
        let bytes = std::fs::read(path)
            .with_context(|| format!("E-RECORD-FILE: cannot read {}", path.display()))?;
        let source = if file::is_record(&bytes) {
            read(&bytes).map(Self::Record)
        } else {
            read_listing(&bytes).map(Self::Listing)
        };
        source.with_context(|| format!("E-RECORD-FILE: {}", path.display()))
    }

    /// The rows of the order, in its order.
    ///
    /// # Errors
    /// When the record does not replay.
    pub fn rows(&self) -> Result<Vec<Row>> {
        match self {
            Self::Record(record) => Ok(rows(&record.replay()?)),
            Self::Listing(rows) => Ok(rows.clone()),
        }
    }
}
