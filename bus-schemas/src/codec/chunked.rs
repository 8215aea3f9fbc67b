//! A buffer in chunks. Each has room for the head of its message, so that the bytes are copied
//! once.

use bytes::{Bytes, BytesMut};

use crate::codec::framing::{Carrier, HEAD_BYTES, write_head};
use crate::codec::sample_hash::SampleHash;
use crate::limits::CHUNK_BYTES;

/// Size of a buffer that is kept.
const BUFFER: usize = HEAD_BYTES + CHUNK_BYTES;

/// Bytes in pieces of [`CHUNK_BYTES`], except for the last. Each piece has room for a message's
/// head in front.
#[derive(Debug, Clone, Default)]
pub struct Parcel {
    chunks: Vec<BytesMut>,
    total: usize,
}

impl Parcel {
    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.total
    }

    /// True if the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Writes bytes at an offset. Unwritten bytes before them are 0 until they are written.
    ///
    /// # Panics
    /// Panics if the bytes do not fit.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.total, "a parcel has its size");
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let Some(chunk) = self.chunks.get_mut(offset / CHUNK_BYTES) else {
                return;
            };
            let at = offset % CHUNK_BYTES;
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - at));
            let at = HEAD_BYTES + at;
            if chunk.len() < at {
                chunk.resize(at, 0);
            }
            let (over, behind) = now.split_at(now.len().min(chunk.len() - at));
            if let Some(place) = chunk.get_mut(at..at + over.len()) {
                place.copy_from_slice(over);
            }
            chunk.extend_from_slice(behind);
            offset += now.len();
            rest = later;
        }
    }

    /// Returns the bytes of a written range, in pieces.
    ///
    /// # Panics
    /// Panics if the range is not within the parcel.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers ask for what they have written; to leave out what was not would shift the bytes behind it"
    )]
    pub fn slices(&self, offset: usize, len: usize) -> impl Iterator<Item = &[u8]> {
        assert!(offset + len <= self.total, "a parcel has its size");
        let (mut at, end) = (offset, offset + len);
        std::iter::from_fn(move || {
            let chunk = self.chunks.get(at / CHUNK_BYTES).filter(|_| at < end)?;
            let stop = end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
            let from = HEAD_BYTES + at % CHUNK_BYTES;
            let slice = &chunk[from..from + stop - at];
            at = stop;
            Some(slice)
        })
    }

    /// Copies all bytes into one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total);
        self.slices(0, self.total)
            .for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// Returns the short fingerprint of the bytes: equal parcels have equal ones.
    ///
    /// # Panics
    /// Panics if the parcel is not completely written.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        SampleHash::of(self.slices(0, self.total)).short()
    }

    /// Returns the messages that carry the parcel, at least one. `head` makes the message for the
    /// bytes at an offset, without those bytes.
    pub fn seal<M: Carrier>(mut self, head: impl Fn(u64) -> M) -> Vec<Bytes> {
        if self.chunks.is_empty() {
            self.chunks.push(BytesMut::with_capacity(HEAD_BYTES));
        }
        let seal = |(index, mut chunk): (usize, BytesMut)| {
            let offset = index * CHUNK_BYTES;
            let len = (self.total - offset).min(CHUNK_BYTES);
            chunk.resize(HEAD_BYTES + len, 0);
            let message = head(offset as u64);
            let start = write_head(&message, len as u32, chunk.split_at_mut(HEAD_BYTES).0);
            chunk.freeze().slice(start..)
        };
        self.chunks.into_iter().enumerate().map(seal).collect()
    }
}

impl From<&[u8]> for Parcel {
    fn from(bytes: &[u8]) -> Self {
        let mut parcel = Spares::default().parcel(bytes.len());
        parcel.write(0, bytes);
        parcel
    }
}

impl PartialEq for Parcel {
    fn eq(&self, other: &Self) -> bool {
        self.total == other.total && self.to_vec() == other.to_vec()
    }
}

impl Eq for Parcel {}

/// Buffers of parcels that are no longer needed. Reused memory causes no page faults.
#[derive(Debug, Default)]
pub struct Spares {
    buffers: Vec<BytesMut>,
    kept: usize,
}

impl Spares {
    /// Keeps at most `kept` buffers, each of [`CHUNK_BYTES`].
    #[must_use]
    pub fn new(kept: usize) -> Self {
        Self {
            buffers: Vec::new(),
            kept,
        }
    }

    /// Returns an empty parcel of `total` bytes.
    pub fn parcel(&mut self, total: usize) -> Parcel {
        let room = |at: usize| {
            let len = (total - at).min(CHUNK_BYTES);
            let spare = (len == CHUNK_BYTES).then(|| self.buffers.pop()).flatten();
            spare.unwrap_or_else(|| BytesMut::with_capacity(HEAD_BYTES + len))
        };
        Parcel {
            chunks: (0..total).step_by(CHUNK_BYTES).map(room).collect(),
            total,
        }
    }

    /// Takes back the memory of a message if it has no other holder.
    pub fn take_back(&mut self, message: Bytes) {
        if message.len() > CHUNK_BYTES
            && self.buffers.len() < self.kept
            && let Ok(buffer) = message.try_into_mut()
        {
            self.keep(buffer);
        }
    }

    /// Takes back the memory of a parcel.
    pub fn take_apart(&mut self, parcel: Parcel) {
        parcel.chunks.into_iter().for_each(|chunk| self.keep(chunk));
    }

    fn keep(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        // Includes the part that was split off in front of a message.
        if self.buffers.len() < self.kept && buffer.try_reclaim(BUFFER) {
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataChunk, WIRE_VERSION, decode};

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at % 251) as u8).collect()
    }

    fn chunk(message: &[u8]) -> DataChunk<'_> {
        decode(message).unwrap()
    }

    fn sealed(spares: &mut Spares, bytes: &[u8]) -> Vec<Bytes> {
        let mut parcel = spares.parcel(bytes.len());
        parcel.write(0, bytes);
        parcel.seal(|offset| DataChunk {
            v: WIRE_VERSION,
            transfer: 3,
            total: bytes.len() as u64,
            offset,
            hash: &[],
            bytes: &[],
        })
    }

    #[test]
    fn a_fingerprint_is_of_the_bytes_however_they_came() {
        let mut bytes = bytes(CHUNK_BYTES + 4_096 + 7);
        let whole = Parcel::from(&bytes[..]);
        let mut pieces = Spares::default().parcel(bytes.len());
        let (front, behind) = bytes.split_at(5_000);
        pieces.write(0, front);
        pieces.write(front.len(), behind);
        assert_eq!(whole.fingerprint(), pieces.fingerprint());
        bytes[0] ^= 1;
        assert_ne!(Parcel::from(&bytes[..]).fingerprint(), whole.fingerprint());
    }

    #[test]
    fn memory_comes_back_once_the_bus_has_let_go_of_it() {
        let mut spares = Spares::new(8);
        let bytes = bytes(2 * CHUNK_BYTES + 9);
        let messages = sealed(&mut spares, &bytes);
        assert_eq!(messages.len(), 3);
        let carried: Vec<&[u8]> = messages.iter().map(|it| chunk(it).bytes).collect();
        assert!(carried.concat() == bytes);
        let on_its_way = messages[1].clone();
        let place = messages[0].as_ptr();
        for message in messages {
            spares.take_back(message);
        }
        assert_eq!(spares.buffers.len(), 1, "one is on its way, one is small");
        let again = sealed(&mut spares, &bytes);
        assert_eq!(again[0].as_ptr(), place);
        assert_eq!(chunk(&again[2]).bytes, &bytes[2 * CHUNK_BYTES..]);
        assert_eq!(chunk(&on_its_way).offset, CHUNK_BYTES as u64);
        let parcel = spares.parcel(CHUNK_BYTES);
        spares.take_apart(parcel);
        assert_eq!(spares.buffers.len(), 1);
        assert_eq!(sealed(&mut spares, &[]).len(), 1, "of nothing as well");
    }

    #[test]
    fn parts_in_any_order_lie_where_they_belong() {
        let bytes = bytes(2 * CHUNK_BYTES + 9);
        let mut spares = Spares::new(1);
        // The earlier contents must not show.
        spares.take_apart(Parcel::from(&vec![0xee; CHUNK_BYTES][..]));
        let mut parcel = spares.parcel(bytes.len());
        let cuts = [
            0,
            5,
            CHUNK_BYTES - 1,
            CHUNK_BYTES + 7,
            2 * CHUNK_BYTES,
            bytes.len(),
        ];
        for part in [3, 1, 4, 0, 2] {
            let (from, to) = (cuts[part], cuts[part + 1]);
            parcel.write(from, &bytes[from..to]);
        }
        assert_eq!(parcel.to_vec(), bytes);
        for (from, to) in cuts.iter().zip(&cuts[1..]) {
            let range = parcel.slices(*from, to - from).flatten();
            assert!(range.eq(&bytes[*from..*to]));
        }
        assert_eq!(parcel, Parcel::from(&bytes[..]));
    }
}
