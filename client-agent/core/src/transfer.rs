//! Staged transfers: payloads too large for a batch, on their way in chunks.

use std::collections::VecDeque;

use bus_schemas::{DataChunk, ModuleHash, Staged, WIRE_VERSION, encode_into, limits};
use bytes::Bytes;

#[derive(Debug)]
struct Transfer {
    bytes: Bytes,
    module: Option<ModuleHash>,
    /// Received by the worker from the start without a gap.
    received: u64,
    /// Sent from the start.
    sent: u64,
    /// A module's hash goes ahead of its bytes, which the worker may have.
    offer: Offer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// To be made.
    Due,
    /// Made; the answer is not here.
    Made,
    /// The bytes are to be sent.
    Over,
}

impl Transfer {
    fn total(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_whole(&self) -> bool {
        self.received >= self.total()
    }
}

/// An image of which the worker has not said whether its device can run it.
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

/// The transfers that the worker does not have whole, in order.
#[derive(Debug)]
pub(crate) struct Transfers {
    // Consecutive numbers from `first` on; whole ones wait here for those before them.
    queue: VecDeque<Transfer>,
    first: u64,
    credit: u64,
    unreceived: u64,
    images: Vec<Image>,
    /// Whether any was added since chunks were last asked for.
    new: bool,
}

impl Transfers {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            first: 1,
            credit: limits::FIRST_STAGING,
            unreceived: 0,
            images: Vec::new(),
            new: false,
        }
    }

    /// Adds a transfer and returns its number.
    pub(crate) fn add(&mut self, bytes: Bytes, module: Option<ModuleHash>) -> u64 {
        // A small image is sooner sent than asked about.
        let offer = match module {
            Some(_) if bytes.len() > limits::INLINE_BYTES => Offer::Due,
            _ => Offer::Over,
        };
        let total = bytes.len() as u64;
        self.new = true;
        self.unreceived += total;
        self.queue.push_back(Transfer {
            bytes,
            module,
            received: 0,
            sent: 0,
            offer,
        });
        let number = self.first + self.queue.len() as u64 - 1;
        self.images.extend(module.map(|hash| Image {
            transfer: number,
            total,
            hash,
        }));
        number
    }

    /// Number of the first that is not whole, or of the next.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the next.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Bytes staged and not received.
    pub(crate) fn unreceived(&self) -> u64 {
        self.unreceived
    }

    /// Whether any was added since chunks were last asked for.
    #[inline]
    pub(crate) fn has_new(&self) -> bool {
        self.new
    }

    /// Whether this transfer was staged and has `bytes` bytes, as far as is still known.
    pub(crate) fn fits(&self, transfer: u64, bytes: u64) -> bool {
        match self.get(transfer) {
            Some(transfer) => transfer.total() == bytes,
            None => transfer < self.first,
        }
    }

    /// Whether the worker has all of it.
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

    /// Whether any is not whole.
    pub(crate) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes an acknowledgement; whether it brought anything on.
    pub(crate) fn acknowledge(&mut self, credit: u64, rows: impl Iterator<Item = Staged>) -> bool {
        let mut moved = credit > self.credit;
        self.credit = credit;
        for row in rows {
            let Some(index) = row.transfer.checked_sub(self.first) else {
                continue;
            };
            let Some(transfer) = self.queue.get_mut(index as usize) else {
                continue;
            };
            let received = row.received.min(transfer.total());
            moved |= received > transfer.received || transfer.offer == Offer::Made;
            if transfer.offer == Offer::Made {
                transfer.offer = Offer::Over;
            }
            self.unreceived -= received.saturating_sub(transfer.received);
            transfer.received = transfer.received.max(received);
            transfer.sent = transfer.sent.max(transfer.received);
        }
        while self.queue.front().is_some_and(Transfer::is_whole) {
            self.queue.pop_front();
            self.first += 1;
        }
        moved
    }

    /// The worker has said what becomes of the image of a transfer; whether that is new.
    pub(crate) fn judge(&mut self, transfer: u64) -> bool {
        let before = self.images.len();
        self.images.retain(|image| image.transfer != transfer);
        self.images.len() < before
    }

    /// Whether the worker has to say yet what becomes of an image.
    pub(crate) fn has_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// The offers that ask for images which the worker has whole.
    pub(crate) fn questions(&self) -> impl Iterator<Item = Chunk> {
        let whole = self.images.iter().filter(|it| self.is_whole(it.transfer));
        whole.map(|image| Chunk {
            transfer: image.transfer,
            offset: 0,
            len: 0,
        })
    }

    /// Nothing came back for a while: all that is not received is sent again.
    pub(crate) fn rewind(&mut self) {
        for transfer in &mut self.queue {
            transfer.sent = transfer.received;
            if transfer.offer == Offer::Made {
                transfer.offer = Offer::Over;
            }
        }
    }

    /// The next chunk that the worker's credit allows.
    pub(crate) fn next_chunk(&mut self) -> Option<Chunk> {
        self.new = false;
        let on_the_way: u64 = self.queue.iter().map(|one| one.sent - one.received).sum();
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
            let left = transfer.total() - transfer.sent;
            if transfer.offer == Offer::Made || left == 0 {
                continue;
            }
            let whole = left.min(limits::CHUNK_BYTES as u64);
            // Chunks are not made small to use up the last bit of credit, unless that is all
            // there is.
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

    /// Encodes a chunk behind what `out` holds; false if the transfer is whole already.
    pub(crate) fn write(&self, chunk: Chunk, out: &mut Vec<u8>) -> bool {
        let Some(transfer) = self.get(chunk.transfer) else {
            return self.write_question(chunk.transfer, out);
        };
        let start = chunk.offset as usize;
        let Some(bytes) = transfer.bytes.get(start..start + chunk.len as usize) else {
            return false;
        };
        out.reserve(bytes.len() + 96);
        let message = DataChunk {
            v: WIRE_VERSION,
            transfer: chunk.transfer,
            total: transfer.total(),
            offset: chunk.offset,
            hash: transfer.module.as_ref().map_or(&[], |hash| &hash.0),
            bytes,
        };
        encode_into(&message, out);
        true
    }

    /// Encodes the offer of an image whose bytes are not here any more.
    fn write_question(&self, transfer: u64, out: &mut Vec<u8>) -> bool {
        let Some(image) = self.images.iter().find(|it| it.transfer == transfer) else {
            return false;
        };
        let message = DataChunk {
            v: WIRE_VERSION,
            transfer,
            total: image.total,
            offset: 0,
            hash: &image.hash.0,
            bytes: &[],
        };
        encode_into(&message, out);
        true
    }

    /// Drops all transfers.
    pub(crate) fn clear(&mut self) {
        self.first += self.queue.len() as u64;
        self.queue.clear();
        self.unreceived = 0;
        self.images.clear();
        self.new = false;
    }

    fn get(&self, transfer: u64) -> Option<&Transfer> {
        let index = transfer.checked_sub(self.first)?;
        self.queue.get(index as usize)
    }
}
