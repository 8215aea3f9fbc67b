//! An archive: a folder that keeps the parts that are cut off a cluster's record. Each export adds
//! a segment, a record file with the blocks that no other segment has.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bus_schemas::Epoch;
use scheduler_leader_core::replay::{Anchor, Replay};

use super::{Block, Record, read, write};
use crate::errors::ErrorCode;

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".record";
const LOCK: &str = "archive.lock";

/// The result of an export to an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Blocks that no segment had.
    pub blocks: u64,
    /// Bytes of the new segment; 0 if there was nothing to add.
    pub bytes: u64,
    /// Number of segments after the export.
    pub segments: u64,
}

/// A file of an archive, by its name: `segment-<number>-<first epoch>-<last epoch>.record`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    number: u64,
    first: Epoch,
    last: Epoch,
    path: PathBuf,
}

impl Segment {
    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let mut parts = name.split('-').map(|part| part.parse().ok());
        let (number, first, last) = (parts.next()??, parts.next()??, parts.next()??);
        Some(Self {
            number,
            first,
            last,
            path,
        })
    }

    fn read(&self) -> Result<Record> {
        let shown = self.path.display();
        let bytes = fs::read(&self.path);
        let bytes =
            bytes.with_context(|| ErrorCode::RecordFile.failed(format!("cannot read {shown}")))?;
        read(&bytes).with_context(|| ErrorCode::RecordFile.failed(&shown))
    }

    /// True if the record has the ends of the workers' chains and the segment has none. The export
    /// that wrote the segment may not have heard them.
    fn lacks_ends(&self, record: &Record) -> Result<bool> {
        Ok(!record.ends.is_empty() && self.read()?.ends.is_empty())
    }
}

/// The segments of a folder, in the order in which they were written.
fn segments(dir: &Path) -> Result<Vec<Segment>> {
    let shown = dir.display();
    let entries = fs::read_dir(dir)
        .with_context(|| ErrorCode::RecordFile.failed(format!("reading {shown}")))?;
    let mut found = Vec::new();
    for entry in entries {
        found.extend(Segment::of(entry?.path()));
    }
    found.sort();
    for (number, segment) in (1..).zip(&found) {
        if segment.number != number {
            bail!(ErrorCode::RecordFile.failed(format!(
                "segment {number} of the archive in {shown} is missing"
            )));
        }
    }
    Ok(found)
}

/// True if a folder is an archive.
#[must_use]
pub fn is_archive(dir: &Path) -> bool {
    segments(dir).is_ok_and(|found| !found.is_empty()) || dir.join(LOCK).is_file()
}

/// The whole record of an archive: all blocks of all segments, and the workers' chains as of the
/// last segment.
///
/// # Errors
/// If a segment is missing, cannot be read, or is of another cluster.
pub fn read_archive(dir: &Path) -> Result<Record> {
    let mut whole = Record::default();
    for segment in segments(dir)? {
        let record = segment.read()?;
        if !whole.cluster.is_empty() && whole.cluster != record.cluster {
            let (shown, cluster) = (segment.path.display(), &whole.cluster);
            bail!(
                ErrorCode::RecordFile
                    .failed(format!("{shown} is of another cluster than {cluster}"))
            );
        }
        whole.cluster = record.cluster;
        whole.blocks.extend(record.blocks);
        whole.ends = record.ends;
    }
    Ok(whole)
}

/// Adds the blocks of a record that no segment has. An empty or missing folder becomes an archive.
///
/// # Errors
/// E-ARCHIVE-GAP if blocks between the archive and the record are lost. Also fails if another
/// export is running, or if a file cannot be read or written.
pub fn add(dir: &Path, record: &Record) -> Result<Added> {
    let _lock = lock(dir)?;
    let found = segments(dir)?;
    // Blocks of earlier epochs were appended again, and connect to nothing.
    let least = record.anchor()?.map_or(0, |anchor| anchor.epoch);
    let first = record.blocks.iter().map(|block| block.0.max(least)).min();
    let first = first.context(ErrorCode::Replay.failed("the record is empty"))?;
    let mut known = BTreeSet::new();
    for segment in &found {
        // An earlier segment has no block in common with the record, unless it is another record.
        if segment.last >= first || segment.number == 1 {
            let there = segment.read()?;
            if there.cluster != record.cluster {
                let (shown, of) = (dir.display(), &there.cluster);
                bail!(
                    ErrorCode::ArchiveOther
                        .failed(format!("{shown} is an archive of cluster {of}"))
                );
            }
            known.extend(there.blocks.iter().map(fingerprint));
        }
    }
    let is_new = |block: &&Block| !known.contains(&fingerprint(block));
    let new: Vec<Block> = record.blocks.iter().filter(is_new).cloned().collect();
    let numbered = |blocks: &[Block], least| {
        let blocks = blocks.iter().filter(|it| it.0 >= least);
        blocks.filter(|it| it.1 != Anchor::NUMBER).count()
    };
    let overlap = numbered(&record.blocks, least) > numbered(&new, least);
    if !found.is_empty() && !overlap && !leads_to(dir, record)? {
        bail!(ErrorCode::ArchiveGap.failed(format!(
            "the record begins with epoch {first}, and what lies between it and the \
             archive in {} was cut off before it was exported; begin another archive in an empty \
             folder, and export more often than record.max_bytes and record.max_age cut",
            dir.display()
        )));
    }
    let segments = found.len() as u64;
    if numbered(&new, 0) == 0 {
        let (mut segments, mut bytes) = (segments, 0);
        if let Some(last) = found.last()
            && last.lacks_ends(record)?
        {
            // A segment without blocks: those that are there are never changed.
            segments += 1;
            bytes = store(dir, segments, record, &[])?;
        }
        return Ok(Added {
            blocks: 0,
            bytes,
            segments,
        });
    }
    let bytes = store(dir, segments + 1, record, &new)?;
    Ok(Added {
        blocks: new.len() as u64,
        bytes,
        segments: segments + 1,
    })
}

/// True if the archive, replayed, arrives at exactly the anchor that the record begins with.
fn leads_to(dir: &Path, record: &Record) -> Result<bool> {
    let Some(anchor) = record.anchor()? else {
        return Ok(false);
    };
    let mut replay = Replay::forgetful();
    let archive = read_archive(dir)?;
    let behind = record.blocks.iter();
    let behind =
        behind.filter(|(epoch, number, _)| *epoch == anchor.epoch && *number != Anchor::NUMBER);
    let arrived = archive.blocks.iter().chain(behind).try_for_each(|block| {
        let (epoch, number, bytes) = block;
        replay.add(*epoch, *number, bytes)
    });
    let arrived = arrived.and_then(|()| replay.advance(|_| {}));
    Ok(arrived.is_ok() && replay.anchor() == Some(&anchor))
}

/// Writes a segment, whole or not at all; returns its size in bytes.
fn store(dir: &Path, number: u64, record: &Record, blocks: &[Block]) -> Result<u64> {
    let epochs = || blocks.iter().map(|block| block.0);
    let (first, last) = (epochs().min(), epochs().max());
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    let path = dir.join(format!("{PREFIX}{number:08}-{first}-{last}{SUFFIX}"));
    let bytes = write(&Record {
        cluster: record.cluster.clone(),
        blocks: blocks.to_vec(),
        ends: record.ends.clone(),
        marks: Vec::new(),
    })?;
    let half = dir.join("segment.tmp");
    let written = || {
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(&half)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&half, &path)?;
        File::open(dir)?.sync_all()
    };
    written().with_context(|| {
        ErrorCode::RecordFile.failed(format!("cannot write {}", path.display()))
    })?;
    Ok(bytes.len() as u64)
}

/// Creates the folder if needed, accessible only to its owner, and holds its lock during an export.
fn lock(dir: &Path) -> Result<File> {
    let shown = dir.display();
    if !dir.exists() {
        broker::private_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600);
    let file = file.open(dir.join(LOCK));
    let file =
        file.with_context(|| ErrorCode::RecordFile.failed(format!("cannot write to {shown}")))?;
    let taken = file.try_lock();
    taken.with_context(|| {
        ErrorCode::ArchiveBusy.failed(format!("another export to {shown} is under way"))
    })?;
    Ok(file)
}

fn fingerprint(block: &Block) -> [u8; 32] {
    let (epoch, number, bytes) = block;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Chain, GpuTail, Incarnation};
    use test_cluster::TempDir;

    use super::*;

    fn record(blocks: &[(Epoch, u64)]) -> Record {
        let blocks = blocks.iter();
        Record {
            cluster: "lab".into(),
            blocks: blocks
                .map(|(epoch, number)| (*epoch, *number, vec![7]))
                .collect(),
            ..Record::default()
        }
    }

    #[test]
    fn each_export_adds_what_is_new() {
        let dir = TempDir::new().expect("a folder");
        let dir = dir.path().join("archive");
        let added = add(&dir, &record(&[(1, 1), (1, 2)])).expect("added");
        assert_eq!((added.blocks, added.segments), (2, 1));
        assert!(is_archive(&dir));
        let again = add(&dir, &record(&[(1, 1), (1, 2)])).expect("nothing to add");
        assert_eq!((again.blocks, again.segments, again.bytes), (0, 1, 0));
        // The first block is cut off, and one came late.
        let added = add(&dir, &record(&[(1, 2), (2, 2), (2, 1)])).expect("added");
        assert_eq!((added.blocks, added.segments), (2, 2));
        let whole = read_archive(&dir).expect("whole");
        assert_eq!(whole.cluster, "lab");
        let mut blocks: Vec<_> = whole.blocks.iter().map(|it| (it.0, it.1)).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [(1, 1), (1, 2), (2, 1), (2, 2)]);
    }

    #[test]
    fn an_export_without_blocks_adds_ends_that_the_last_one_did_not_hear() {
        let dir = TempDir::new().expect("a folder");
        let mut heard = record(&[(1, 1)]);
        add(dir.path(), &heard).expect("added");
        let tail = GpuTail {
            gpu: 0,
            position: 5,
            chain: Chain::default(),
        };
        heard.ends = vec![(Incarnation(7), tail)];
        let added = add(dir.path(), &heard).expect("ends only");
        assert_eq!((added.blocks, added.segments), (0, 2));
        let ends = || read_archive(dir.path()).expect("whole").ends;
        assert_eq!(ends(), heard.ends);
        // An export that does not hear them takes none away.
        for again in [&record(&[(1, 1)]), &heard] {
            let added = add(dir.path(), again).expect("nothing to add");
            assert_eq!((added.bytes, added.segments), (0, 2));
        }
        assert_eq!(ends(), heard.ends);
        let more = add(dir.path(), &record(&[(1, 1), (2, 1)])).expect("added");
        assert_eq!((more.blocks, more.segments), (1, 3));
    }

    #[test]
    fn what_was_cut_before_it_was_exported_is_said() {
        let dir = TempDir::new().expect("a folder");
        add(dir.path(), &record(&[(1, 1)])).expect("added");
        let error = add(dir.path(), &record(&[(3, 1)])).expect_err("a gap");
        assert!(error.to_string().contains("E-ARCHIVE-GAP"), "{error}");
        let mut other = record(&[(1, 1)]);
        other.cluster = "other".into();
        let error = add(dir.path(), &other).expect_err("another cluster");
        assert!(error.to_string().contains("E-ARCHIVE-OTHER"), "{error}");
        assert_eq!(segments(dir.path()).expect("there").len(), 1);
    }

    #[test]
    fn a_missing_segment_and_another_export_are_noticed() {
        let dir = TempDir::new().expect("a folder");
        add(dir.path(), &record(&[(1, 1)])).expect("added");
        add(dir.path(), &record(&[(1, 1), (1, 2)])).expect("added");
        let first = segments(dir.path()).expect("there")[0].path.clone();
        fs::remove_file(first).expect("removed");
        let error = read_archive(dir.path()).expect_err("one is missing");
        assert!(error.to_string().contains("segment 1"), "{error}");
        let held = lock(dir.path()).expect("free");
        let error = add(dir.path(), &record(&[(1, 1)])).expect_err("held");
        assert!(error.to_string().contains("E-ARCHIVE-BUSY"), "{error}");
        drop(held);
    }
}
