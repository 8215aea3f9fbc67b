//! Encoded messages with memory that is reused.

use std::collections::VecDeque;

use bus_schemas::{Message, encode_into};
use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

/// Maximum number of buffers kept: with a few of them in use, a steady stream of messages allocates
/// nothing.
const KEPT: usize = 32;
/// Number of buffers tried before a new one is made.
const TRIED: usize = 4;

/// A pool of buffers, each with its size. A buffer is a handle to the space behind the last message
/// written into it. Once that message is dropped everywhere, the buffer is ours again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    kept: VecDeque<(BytesMut, usize)>,
    #[cfg(test)]
    made: usize,
}

impl Buffers {
    /// Encodes a message of about `size` bytes.
    pub(crate) fn encode<M: Message + Serialize>(&mut self, message: &M, size: usize) -> Bytes {
        let size = size + 64;
        let (mut buffer, whole) = self.take(size);
        encode_into(message, &mut (&mut buffer).writer());
        let bytes = buffer.split().freeze();
        self.kept.push_back((buffer, whole));
        bytes
    }

    fn take(&mut self, size: usize) -> (BytesMut, usize) {
        for _ in 0..self.kept.len().min(TRIED) {
            let Some((mut buffer, whole)) = self.kept.pop_front() else {
                break;
            };
            if whole < size {
                // A larger one replaces it, so that in the end all hold the largest messages.
                continue;
            }
            if buffer.try_reclaim(size) {
                return (buffer, whole);
            }
            self.kept.push_back((buffer, whole));
        }
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        #[cfg(test)]
        {
            self.made += 1;
        }
        let whole = size.next_power_of_two();
        (BytesMut::with_capacity(whole), whole)
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Batch, WIRE_VERSION};

    use super::*;

    #[test]
    fn messages_of_changing_size_stop_allocating() {
        let mut buffers = Buffers::default();
        let bytes = [7; 12_000];
        let mut on_their_way: VecDeque<Bytes> = VecDeque::new();
        let mut made = 0;
        for round in 0..2_000_usize {
            // Sizes as in batches: a small one now and then, and eight not acknowledged yet.
            let size = (round * 7_919) % 12_000;
            let message = Batch {
                v: WIRE_VERSION,
                first: 1,
                count: 1,
                results: 0,
                descriptors: &bytes[..size],
                blob: &[],
            };
            on_their_way.push_back(buffers.encode(&message, size));
            if on_their_way.len() > 8 {
                on_their_way.pop_front();
            }
            if round == 1_000 {
                made = buffers.made;
            }
        }
        assert_eq!(buffers.made, made);
        assert!(buffers.kept.len() <= KEPT);
    }
}
