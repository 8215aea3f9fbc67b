//! A record as a file: an opening line, then entries. Each entry is its length (32 bit,
//! little-endian) and its MessagePack; the last one has the BLAKE3 hash of everything before it.

use anyhow::{Context, Result, bail};
use bus_schemas::{Epoch, GpuTail, Incarnation};
use serde::{Deserialize, Serialize};

use super::Record;

const MAGIC: &[u8] = b"warploom record 1\n";
/// Maximum size of a block: a size from a file is checked before memory is allocated for it.
const BLOCK: usize = 1 << 20;

/// An entry of a record file. Names are the file's format: they never change their meaning.
#[derive(Debug, Serialize, Deserialize)]
enum Entry {
    /// The origin of the record.
    Head { cluster: String },
    /// A block.
    Block {
        epoch: Epoch,
        number: u64,
        /// Bytes of the block.
        size: u32,
        /// The block as LZ4.
        #[serde(with = "serde_bytes")]
        lz4: Vec<u8>,
    },
    /// The end of a worker's chain, as the worker reported it.
    Worker {
        incarnation: Incarnation,
        tail: GpuTail,
    },
    /// The first 8 bytes of a worker's chain after each position, concatenated.
    Marks {
        incarnation: Incarnation,
        #[serde(with = "serde_bytes")]
        prefixes: Vec<u8>,
    },
    /// The last entry.
    End {
        #[serde(with = "serde_bytes")]
        hash: Vec<u8>,
    },
}

/// True if these are the bytes of a record file.
#[must_use]
pub fn is_record(bytes: &[u8]) -> bool {
    bytes.starts_with(b"warploom record ")
}

/// Encodes a record as a file.
///
/// # Errors
/// If it is too large for the format.
pub fn write(record: &Record) -> Result<Vec<u8>> {
    let mut out = MAGIC.to_vec();
    let cluster = record.cluster.clone();
    push(&mut out, &Entry::Head { cluster })?;
    for (epoch, number, bytes) in &record.blocks {
        push(
            &mut out,
            &Entry::Block {
                epoch: *epoch,
                number: *number,
                size: u32::try_from(bytes.len())?,
                lz4: lz4_flex::block::compress(bytes),
            },
        )?;
    }
    for (incarnation, tail) in &record.ends {
        let (incarnation, tail) = (*incarnation, *tail);
        push(&mut out, &Entry::Worker { incarnation, tail })?;
    }
    for (incarnation, marks) in &record.marks {
        let entry = Entry::Marks {
            incarnation: *incarnation,
            prefixes: marks.iter().flat_map(|mark| mark.to_le_bytes()).collect(),
        };
        push(&mut out, &entry)?;
    }
    let hash = blake3::hash(&out).as_bytes().to_vec();
    push(&mut out, &Entry::End { hash })?;
    Ok(out)
}

fn push(out: &mut Vec<u8>, entry: &Entry) -> Result<()> {
    let entry = rmp_serde::to_vec_named(entry)?;
    out.extend_from_slice(&u32::try_from(entry.len())?.to_le_bytes());
    out.extend_from_slice(&entry);
    Ok(())
}

/// Decodes a record file.
///
/// # Errors
/// If it is no record file, is cut short, or was changed.
pub fn read(bytes: &[u8]) -> Result<Record> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        bail!("no record, or one of another version of this program");
    };
    let mut record = Record::default();
    loop {
        let before = &bytes[..bytes.len() - rest.len()];
        let entry = rest.split_first_chunk::<4>();
        let entry = entry.and_then(|(length, behind)| {
            behind.split_at_checked(u32::from_le_bytes(*length) as usize)
        });
        let (entry, behind) = entry.context("the file is cut short")?;
        rest = behind;
        match rmp_serde::from_slice(entry).context("an entry cannot be read")? {
            Entry::Head { cluster } => record.cluster = cluster,
            Entry::Block {
                epoch,
                number,
                size,
                lz4,
            } => {
                let size = usize::try_from(size)?;
                if size > BLOCK {
                    bail!("a block of {size} bytes");
                }
                let block = lz4_flex::block::decompress(&lz4, size);
                let block = block.with_context(|| format!("block {number} of epoch {epoch}"))?;
                record.blocks.push((epoch, number, block));
            }
            Entry::Worker { incarnation, tail } => record.ends.push((incarnation, tail)),
            Entry::Marks {
                incarnation,
                prefixes,
            } => {
                let (marks, _) = prefixes.as_chunks();
                let marks = marks.iter().map(|mark| u64::from_le_bytes(*mark)).collect();
                record.marks.push((incarnation, marks));
            }
            Entry::End { hash } => {
                if hash != blake3::hash(before).as_bytes() || !rest.is_empty() {
                    bail!("the file was changed or is damaged");
                }
                return Ok(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Chain;

    use super::*;

    fn record() -> Record {
        let worker = Incarnation(7);
        let tail = GpuTail {
            gpu: 1,
            position: 2,
            chain: Chain([9; 32]),
        };
        Record {
            cluster: "lab".into(),
            blocks: vec![(1, 1, vec![5; 1_000]), (1, 2, vec![])],
            ends: vec![(worker, tail)],
            marks: vec![(worker, vec![1, u64::MAX])],
        }
    }

    #[test]
    fn a_record_comes_back_from_its_file() {
        let bytes = write(&record()).unwrap();
        assert!(is_record(&bytes) && bytes.len() < 500, "{}", bytes.len());
        assert_eq!(read(&bytes).unwrap(), record());
    }

    #[test]
    fn whatever_is_done_to_the_file_is_noticed() {
        let bytes = write(&record()).unwrap();
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "changed at {at}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(read(&longer).is_err());
    }
}
