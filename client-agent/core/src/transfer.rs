//! Staged transfers: payloads too large for a batch, sent in chunks.

mod content;
mod offered;

use std::collections::{HashSet, VecDeque};

use bus_schemas::{DataChunk, ModuleHash, Parcel, Spares, WIRE_VERSION, WorkerAck, encode, limits};
use bytes::Bytes;

use content::{Content, Question};

/// Maximum number of buffers of finished transfers that are kept for later ones.
const SPARES: usize = 32;
/// Maximum number of remembered images; at this number all are forgotten and count as new.
const GIVEN: usize = limits::MODULES as usize;

#[derive(Debug)]
struct Transfer {
    /// The messages that carry it, one after the other, each [`limits::CHUNK_BYTES`] bytes but the
    /// last.
    messages: Vec<Bytes>,
    total: u64,
    module: Option<ModuleHash>,
    /// Bytes received by the worker from the start without a gap.
    received: u64,
    /// Bytes sent from the start.
    sent: u64,
    /// The offer of a module's hash, sent before its bytes, which the worker may have.
    offer: Offer,
    /// The progress of an offered copy.
    content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// The offer must be made.
    Due,
    /// The offer was made and is not answered.
    Made,
    /// The offer is over; the bytes must be sent.
    Over,
}

impl Transfer {
    fn is_whole(&self) -> bool {
        self.received >= self.total
    }

    /// The data that one of its messages carries.
    fn part(&self, index: usize) -> Option<&[u8]> {
        let message = self.messages.get(index)?;
        let before = (index * limits::CHUNK_BYTES) as u64;
        let len = (self.total - before).min(limits::CHUNK_BYTES as u64) as usize;
        message.get(message.len() - len..)
    }
}

/// An image without a verdict of the worker on whether its device can run it.
#[derive(Debug, Clone, Copy)]
struct Image {
    transfer: u64,
    total: u64,
    hash: ModuleHash,
}

/// A chunk to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) transfer: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The transfers that the worker does not have in full, in order.
#[derive(Debug)]
pub(crate) struct Transfers {
    // Consecutive numbers from `first` on; finished ones wait here for those before them.
    queue: VecDeque<Transfer>,
    first: u64,
    credit: u64,
    unreceived: u64,
    images: Vec<Image>,
    /// Offered copies without an answer, in order.
    questions: Vec<Question>,
    /// Images of all transfers so far.
    given: HashSet<ModuleHash>,
    /// True if a transfer was added since chunks were last asked for.
    new: bool,
    spares: Spares,
}

impl Transfers {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            first: 1,
            credit: limits::FIRST_STAGING,
            unreceived: 0,
            images: Vec::new(),
            questions: Vec::new(),
            given: HashSet::new(),
            new: false,
            spares: Spares::new(SPARES),
        }
    }

    /// Makes room for the bytes of a later transfer.
    pub(crate) fn parcel(&mut self, bytes: usize) -> Parcel {
        self.spares.parcel(bytes)
    }

    /// Adds a transfer and returns its number.
    pub(crate) fn add(&mut self, parcel: Parcel, module: Option<ModuleHash>) -> u64 {
        let (number, total) = (self.next(), parcel.len() as u64);
        // A small image is sent sooner than asked about, unless the worker had it before.
        let offer = match module {
            Some(hash) if self.is_given_again(hash) || total > limits::INLINE_BYTES as u64 => {
                Offer::Due
            }
            _ => Offer::Over,
        };
        self.new = true;
        self.unreceived += total;
        self.queue.push_back(Transfer {
            messages: messages(parcel, number, module),
            total,
            module,
            received: 0,
            sent: 0,
            offer,
            content: None,
        });
        self.images.extend(module.map(|hash| Image {
            transfer: number,
            total,
            hash,
        }));
        number
    }

    /// Notes an image; returns true if an earlier transfer carried it.
    fn is_given_again(&mut self, hash: ModuleHash) -> bool {
        if self.given.len() >= GIVEN {
            self.given.clear();
        }
        !self.given.insert(hash)
    }

    /// Number of the first unfinished transfer, or of the next one.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next transfer.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Bytes staged and not received.
    pub(crate) fn unreceived(&self) -> u64 {
        self.unreceived
    }

    /// True if a transfer was added since chunks were last asked for.
    #[inline]
    pub(crate) fn has_new(&self) -> bool {
        self.new
    }

    /// True if this transfer was staged and has `bytes` bytes, as far as still known.
    pub(crate) fn fits(&self, transfer: u64, bytes: u64) -> bool {
        match self.get(transfer) {
            Some(transfer) => transfer.total == bytes,
            None => transfer < self.first,
        }
    }

    /// True if the worker has the whole transfer.
    pub(crate) fn is_whole(&self, transfer: u64) -> bool {
        self.get(transfer).is_none_or(Transfer::is_whole)
    }

    /// The transfer under way that carries this image.
    pub(crate) fn module(&self, hash: &ModuleHash) -> Option<u64> {
        let of_module =
            |transfer: &Transfer| transfer.module == Some(*hash) && !transfer.is_whole();
        let index = self.queue.iter().position(of_module)?;
        Some(self.first + index as u64)
    }

    /// True if any transfer is unfinished.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes an acknowledgement; returns true if it made progress.
    pub(crate) fn acknowledge(&mut self, ack: &WorkerAck<'_>) -> bool {
        let mut moved = ack.staging > self.credit;
        self.credit = ack.staging;
        let (rows, held) = (ack.staged.iter(), ack.held.iter());
        for answer in held {
            moved |= self.answer(answer);
        }
        for row in rows {
            let Some(index) = row.transfer.checked_sub(self.first) else {
                continue;
            };
            let Some(transfer) = self.queue.get_mut(index as usize) else {
                continue;
            };
            let received = row.received.min(transfer.total);
            moved |= received > transfer.received || transfer.offer == Offer::Made;
            if transfer.offer == Offer::Made {
                transfer.offer = Offer::Over;
            }
            if !transfer.lacks_bytes() {
                self.unreceived -= received.saturating_sub(transfer.received);
            }
            transfer.received = transfer.received.max(received);
            transfer.sent = transfer.sent.max(transfer.received);
        }
        self.forget_answered();
        while let Some(whole) = self.queue.pop_front_if(|it| it.is_whole()) {
            self.first += 1;
            let messages = whole.messages.into_iter();
            messages.for_each(|message| self.spares.take_back(message));
        }
        moved
    }

    /// Notes the worker's verdict on the image of a transfer; returns true if it is new.
    pub(crate) fn judge(&mut self, transfer: u64) -> bool {
        let before = self.images.len();
        self.images.retain(|image| image.transfer != transfer);
        self.images.len() < before
    }

    /// True if the worker still owes the verdict on an image.
    pub(crate) fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// The offers that ask for the verdict on images that the worker has whole.
    pub(crate) fn image_questions(&self) -> impl Iterator<Item = Chunk> {
        let whole = self.images.iter().filter(|it| self.is_whole(it.transfer));
        whole.map(|image| Chunk {
            transfer: image.transfer,
            offset: 0,
            len: 0,
        })
    }

    /// Rewinds after a silence: all bytes not received are sent again.
    pub(crate) fn rewind(&mut self) {
        for transfer in &mut self.queue {
            transfer.sent = transfer.received;
            if transfer.offer == Offer::Made {
                transfer.offer = Offer::Over;
            }
        }
    }

    /// Bytes sent and not received, as far as known.
    pub(crate) fn on_the_way(&self) -> u64 {
        let way = |one: &Transfer| one.sent.saturating_sub(one.received);
        self.queue.iter().map(way).sum()
    }

    /// The next chunk that the worker's credit allows.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        self.new = false;
        let on_the_way = self.on_the_way();
        let room = self.credit.saturating_sub(on_the_way);
        for (number, transfer) in (self.first..).zip(&mut self.queue) {
            if transfer.offer == Offer::Due {
                transfer.offer = Offer::Made;
                return Some(Chunk {
                    transfer: number,
                    offset: 0,
                    len: 0,
                });
            }
            if transfer.offer == Offer::Made || transfer.lacks_bytes() {
                continue;
            }
            transfer.skip_held();
            let left = transfer.wanted();
            if left == 0 {
                continue;
            }
            let whole = left.min(limits::CHUNK_BYTES as u64);
            // Chunks are not made small to use up the last credit, unless there is no other credit.
            let len = if on_the_way == 0 {
                whole.min(room)
            } else {
                whole
            };
            if len == 0 || len > room {
                return None;
            }
            let offset = transfer.sent;
            transfer.sent += len;
            return Some(Chunk {
                transfer: number,
                offset,
                len: len as u32,
            });
        }
        None
    }

    /// The message of a chunk; `None` if it is no longer needed.
    pub(crate) fn message(&self, chunk: Chunk) -> Option<Bytes> {
        let Some(transfer) = self.get(chunk.transfer) else {
            return self.question(chunk.transfer);
        };
        let (size, start) = (limits::CHUNK_BYTES, chunk.offset as usize);
        let (index, skip, len) = (start / size, start % size, chunk.len as usize);
        let part = transfer.part(index)?;
        if skip == 0 && part.len() == len {
            return transfer.messages.get(index).cloned();
        }
        // An offer, or a chunk that was split elsewhere by credit.
        let rest = part.get(skip..)?;
        let mut bytes = rest.get(..len).unwrap_or(rest).to_vec();
        if len > rest.len() {
            bytes.extend_from_slice(transfer.part(index + 1)?.get(..len - rest.len())?);
        }
        let message = DataChunk {
            v: WIRE_VERSION,
            transfer: chunk.transfer,
            total: transfer.total,
            offset: chunk.offset,
            hash: transfer.module.as_ref().map_or(&[], |hash| &hash.0),
            bytes: &bytes,
        };
        Some(encode(&message).into())
    }

    /// The offer of an image with bytes that are no longer here.
    fn question(&self, transfer: u64) -> Option<Bytes> {
        let image = self.images.iter().find(|it| it.transfer == transfer)?;
        let message = DataChunk {
            v: WIRE_VERSION,
            transfer,
            total: image.total,
            offset: 0,
            hash: &image.hash.0,
            bytes: &[],
        };
        Some(encode(&message).into())
    }

    /// Drops all transfers.
    pub(crate) fn clear(&mut self) {
        self.first += self.queue.len() as u64;
        self.queue.clear();
        self.unreceived = 0;
        self.images.clear();
        self.questions.clear();
        self.given.clear();
        self.new = false;
        self.spares = Spares::default();
    }

    fn get(&self, transfer: u64) -> Option<&Transfer> {
        let index = transfer.checked_sub(self.first)?;
        self.queue.get(index as usize)
    }
}

/// The messages that carry a transfer's bytes.
fn messages(parcel: Parcel, number: u64, module: Option<ModuleHash>) -> Vec<Bytes> {
    let total = parcel.len() as u64;
    parcel.seal(|offset| DataChunk {
        v: WIRE_VERSION,
        transfer: number,
        total,
        offset,
        hash: module.as_ref().map_or(&[], |hash| &hash.0),
        bytes: &[],
    })
}

#[cfg(test)]
mod tests {
    use bus_schemas::decode;

    use super::*;

    #[test]
    fn a_small_image_is_sent_the_first_time_and_offered_after_that() {
        let mut transfers = Transfers::new();
        let mut first = |image: u8| {
            let mut parcel = transfers.parcel(9);
            parcel.write(0, &[image; 9]);
            let number = transfers.add(parcel, Some(ModuleHash([image; 32])));
            let chunk = transfers.next_chunk().unwrap();
            assert_eq!(chunk.transfer, number);
            chunk.len
        };
        assert_eq!([first(1), first(2), first(1), first(2)], [9, 9, 0, 0]);
    }

    #[test]
    fn a_chunk_that_credit_cuts_elsewhere_carries_what_lies_there() {
        let bytes: Vec<u8> = (0..limits::CHUNK_BYTES + 900)
            .map(|at| (at % 251) as u8)
            .collect();
        let mut transfers = Transfers::new();
        let mut parcel = transfers.parcel(bytes.len());
        parcel.write(0, &bytes);
        assert_eq!(transfers.add(parcel, None), 1);
        let end = bytes.len() as u64;
        for (offset, len) in [
            (0, limits::CHUNK_BYTES as u64),
            (5, 700),
            (262_000, 800),
            (end - 9, 9),
        ] {
            let chunk = Chunk {
                transfer: 1,
                offset,
                len: len as u32,
            };
            let message = transfers.message(chunk).unwrap();
            let chunk: DataChunk<'_> = decode(&message).unwrap();
            assert_eq!(
                (chunk.transfer, chunk.total, chunk.offset),
                (1, end, offset)
            );
            assert_eq!(
                chunk.bytes,
                &bytes[offset as usize..(offset + len) as usize]
            );
        }
    }
}
