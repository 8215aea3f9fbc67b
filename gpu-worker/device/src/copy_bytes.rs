//! The bytes of a copy from the host: as they came, or as chunks that are kept by their content.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{Parcel, SampleHash};

use crate::sharing_domain::SharingDomain;

/// Immutable bytes: [`CONTENT_BYTES`] of them, or fewer at the end of a copy.
pub trait Chunk: Any + Debug + Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// The place in which a device wants chunks: a copy of one then moves fewer bytes, or none. Any thread may
/// keep some.
pub trait Keeper: Debug + Send + Sync {
    /// Keeps bytes, given in pieces, at most [`CONTENT_BYTES`] together. Sessions of this domain may share
    /// them.
    fn keep(
        &self,
        domain: Option<SharingDomain>,
        pieces: &mut dyn Iterator<Item = &[u8]>,
    ) -> Arc<dyn Chunk>;
}

/// A keeper of chunks in memory of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostKeeper;

impl Chunk for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Keeper for HostKeeper {
    fn keep(
        &self,
        _: Option<SharingDomain>,
        pieces: &mut dyn Iterator<Item = &[u8]>,
    ) -> Arc<dyn Chunk> {
        let bytes = pieces.fold(Vec::new(), |mut bytes, piece| {
            bytes.extend_from_slice(piece);
            bytes
        });
        Arc::new(bytes.into_boxed_slice())
    }
}

/// The staged bytes of a copy.
#[derive(Debug)]
pub enum CopyBytes {
    /// Bytes as its client sent them.
    Sent(Parcel),
    /// Chunks, all of [`CONTENT_BYTES`] except the last.
    Kept(Vec<Arc<dyn Chunk>>),
}

impl CopyBytes {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Sent(parcel) => parcel.len(),
            Self::Kept(chunks) => chunks.iter().map(|chunk| chunk.bytes().len()).sum(),
        }
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of a range, in pieces.
    ///
    /// # Panics
    /// When the range ends behind the bytes.
    pub fn slices(&self, offset: usize, len: usize) -> impl Iterator<Item = &[u8]> {
        let (sent, kept) = match self {
            Self::Sent(parcel) => (Some(parcel.slices(offset, len)), None),
            Self::Kept(chunks) => (None, Some(kept_slices(chunks, offset, len))),
        };
        sent.into_iter().flatten().chain(kept.into_iter().flatten())
    }

    /// Returns the chunk that begins at this offset, if the bytes are kept as chunks.
    #[must_use]
    pub fn chunk_at(&self, offset: usize) -> Option<&Arc<dyn Chunk>> {
        match self {
            Self::Kept(chunks) if offset.is_multiple_of(CONTENT_BYTES) => {
                chunks.get(offset / CONTENT_BYTES)
            }
            _ => None,
        }
    }

    /// The short fingerprint of the bytes, equal for equal bytes however they are held
    /// ([`Parcel::fingerprint`]).
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        SampleHash::of(self.slices(0, self.len())).short()
    }
}

impl From<Parcel> for CopyBytes {
    fn from(parcel: Parcel) -> Self {
        Self::Sent(parcel)
    }
}

impl From<&[u8]> for CopyBytes {
    fn from(bytes: &[u8]) -> Self {
        Self::Sent(Parcel::from(bytes))
    }
}

fn kept_slices(
    chunks: &[Arc<dyn Chunk>],
    offset: usize,
    len: usize,
) -> impl Iterator<Item = &[u8]> {
    let (mut at, end) = (offset, offset + len);
    std::iter::from_fn(move || {
        let chunk = chunks.get(at / CONTENT_BYTES).filter(|_| at < end)?;
        let start = at / CONTENT_BYTES * CONTENT_BYTES;
        let stop = end.min(start + CONTENT_BYTES);
        let slice = &chunk.bytes()[at - start..stop - start];
        at = stop;
        Some(slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_the_same_however_they_are_held() {
        let bytes: Vec<u8> = (0..2 * CONTENT_BYTES + 77)
            .map(|at| (at % 251) as u8)
            .collect();
        let keep = |chunk: &[u8]| HostKeeper.keep(None, &mut chunk.chunks(100_000));
        let kept = CopyBytes::Kept(bytes.chunks(CONTENT_BYTES).map(keep).collect());
        let sent = CopyBytes::from(Parcel::from(&bytes[..]));
        assert_eq!((kept.len(), sent.len()), (bytes.len(), bytes.len()));
        assert_eq!(kept.fingerprint(), sent.fingerprint());
        for (from, len) in [
            (0, bytes.len()),
            (5, 9),
            (CONTENT_BYTES - 3, CONTENT_BYTES + 9),
            (7, 0),
        ] {
            for staged in [&kept, &sent] {
                let there: Vec<u8> = staged.slices(from, len).flatten().copied().collect();
                assert!(there == bytes[from..from + len]);
            }
        }
        assert!(kept.chunk_at(CONTENT_BYTES).is_some() && kept.chunk_at(9).is_none());
        assert!(sent.chunk_at(0).is_none());
    }
}
