//! Messages that end with many bytes. The head is written in front of the bytes, which are already
//! in place and so are copied only once.

use std::io::Cursor;

use serde::Serialize;

use crate::codec::message::{Message, encode_into};
use crate::launch_path::session_data::{DataChunk, DeviceResult};

/// Room in front of the bytes; suffices for the head of any such message.
pub(crate) const HEAD_BYTES: usize = 80;

/// A message with bytes as its last element. A result with times of events is not one.
pub trait Carrier: Message + Serialize {}

impl Carrier for DataChunk<'_> {}
impl Carrier for DeviceResult<'_> {}

/// Writes a message without bytes at the end of `room`, as the head of `len` bytes after it.
/// Returns its start in `room`.
///
/// # Panics
/// Panics if the message has bytes, or if it does not fit [`HEAD_BYTES`], which every one does.
pub(crate) fn write_head(message: &impl Carrier, len: u32, room: &mut [u8]) -> usize {
    let mut head = Cursor::new([0; HEAD_BYTES]);
    encode_into(message, &mut head);
    let end = head.position() as usize - 2;
    let (head, carried) = head.get_ref().split_at(end);
    assert!(carried.starts_with(&[0xc4, 0]), "it carries nothing yet");
    let [a, b, c, d] = len.to_be_bytes();
    let (byte, short, long) = ([0xc4, d], [0xc5, c, d], [0xc6, a, b, c, d]);
    let size = match (a, b, c) {
        (0, 0, 0) => byte.as_slice(),
        (0, 0, _) => short.as_slice(),
        _ => long.as_slice(),
    };
    let start = room.len() - end - size.len();
    let (_, room) = room.split_at_mut(start);
    let (front, behind) = room.split_at_mut(end);
    front.copy_from_slice(head);
    behind.copy_from_slice(size);
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ResultKind, WIRE_VERSION, encode};

    fn in_front(message: &impl Carrier, bytes: &[u8]) -> Vec<u8> {
        let mut whole = vec![0xee; HEAD_BYTES];
        whole.extend_from_slice(bytes);
        let start = write_head(message, bytes.len() as u32, &mut whole[..HEAD_BYTES]);
        whole.split_off(start)
    }

    #[test]
    fn a_head_and_its_bytes_are_the_message() {
        for len in [0, 1, 255, 256, 65_535, 65_536, 262_144] {
            let carried = vec![7; len];
            for (number, hash) in [(1, &[][..]), (u64::MAX, &[9; 32])] {
                let chunk = |bytes| DataChunk {
                    v: WIRE_VERSION,
                    transfer: number,
                    total: number,
                    offset: number - 1,
                    hash,
                    bytes,
                };
                assert_eq!(in_front(&chunk(&[]), &carried), encode(&chunk(&carried)));
                let result = |bytes| DeviceResult {
                    v: u16::MAX,
                    number,
                    op: number,
                    kind: ResultKind::CopyOut,
                    device_ns: number,
                    total: number,
                    offset: number,
                    bytes,
                    events: Column::default(),
                };
                assert_eq!(in_front(&result(&[]), &carried), encode(&result(&carried)));
            }
        }
    }
}
