//! A copy that a program offers by the hashes of its chunks, with the real outbox of a client.

use bus_schemas::limits::{CONTENT_BYTES, PIECE_BYTES};
use bus_schemas::{ContentHash, Parcel};
use bytes::Bytes;
use client_agent_core::{Outbox, PushError};
use sim_cluster::mix;

/// A transfer of an offered copy that its worker has, or of which it has got the bytes.
pub(crate) struct Piece {
    /// Offset in the copy, bytes.
    pub(crate) offset: u64,
    /// The transfer's number.
    pub(crate) transfer: u64,
    /// Its bytes.
    pub(crate) bytes: Bytes,
}

/// An offered copy on its way.
pub(crate) struct Offering {
    content: Bytes,
    first: u64,
    /// Number of its transfers that are done.
    done: usize,
}

impl Offering {
    /// Asks the worker which chunks of a content it has.
    pub(crate) fn begin(outbox: &mut Outbox, content: Bytes) -> Result<Self, PushError> {
        let hashes = content.chunks(CONTENT_BYTES);
        let hashes: Vec<_> = hashes.map(|chunk| ContentHash::of([chunk])).collect();
        let first = outbox.offer(content.len() as u64, &hashes)?;
        Ok(Self {
            content,
            first,
            done: 0,
        })
    }

    /// True if an op was pushed for each transfer.
    pub(crate) fn is_done(&self) -> bool {
        self.done * PIECE_BYTES >= self.content.len()
    }

    /// Supplies the bytes of the next transfer if the worker wants them. Returns the transfer, unless the worker
    /// has not answered.
    pub(crate) fn next(&self, outbox: &mut Outbox) -> Result<Option<Piece>, PushError> {
        let start = self.done * PIECE_BYTES;
        let end = self.content.len().min(start + PIECE_BYTES);
        let piece = Piece {
            offset: start as u64,
            transfer: self.first + self.done as u64,
            bytes: self.content.slice(start..end),
        };
        let Some(wants_bytes) = outbox.wants_bytes(piece.transfer) else {
            return Ok(None);
        };
        if wants_bytes {
            let mut parcel: Parcel = outbox.parcel_of(piece.bytes.len())?;
            parcel.write(0, &piece.bytes);
            outbox.supply(piece.transfer, parcel)?;
        }
        Ok(Some(piece))
    }

    /// Notes that the op of the next transfer was pushed.
    pub(crate) fn pushed(&mut self) {
        self.done += 1;
    }
}

/// Returns the first bytes of a content that programs of all tenants know by its number.
pub(crate) fn content(number: u32, bytes: u32) -> Bytes {
    let mut content = vec![number as u8 | 0x80; bytes as usize];
    for (index, chunk) in (0..).zip(content.chunks_mut(CONTENT_BYTES)) {
        let mark = mix(u64::from(number) << 32 | index).to_le_bytes();
        let end = mark.len().min(chunk.len());
        chunk[..end].copy_from_slice(&mark[..end]);
    }
    content.into()
}
