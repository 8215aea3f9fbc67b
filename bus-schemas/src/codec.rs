//! Encoding and decoding of whole messages.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Failure};

/// The wire version this build speaks. It is the first element of every array message and the
/// field `v` of every map message.
pub const WIRE_VERSION: u16 = 1;

/// Why bytes are not the message they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Of a newer version: the sender is told ours.
    #[error("wire version {got} is newer than {WIRE_VERSION}, the newest this build speaks")]
    Newer {
        /// The sender's version.
        got: u16,
    },
    /// Not the message that belongs on the subject.
    #[error("malformed message: {0}")]
    Malformed(String),
}

impl From<MessageError> for Failure {
    fn from(error: MessageError) -> Self {
        let code = match error {
            MessageError::Newer { .. } => Code::Version,
            MessageError::Malformed(_) => Code::Malformed,
        };
        Self::new(code, error.to_string())
    }
}

/// A message of the bus.
pub trait Message {
    /// Whether it travels as an array (hot) or as a map by field name.
    const ARRAY: bool;
}

/// Encodes a message.
///
/// # Panics
/// Never: writing to memory cannot fail and every message type is plain data.
#[must_use]
pub fn encode<M: Message + Serialize>(message: &M) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    encode_into(message, &mut out);
    out
}

/// Encodes a message behind what `out`, memory of any kind, already holds.
///
/// # Panics
/// Never for memory: see [`encode`].
pub fn encode_into<M: Message + Serialize>(message: &M, out: &mut impl std::io::Write) {
    let written = if M::ARRAY {
        rmp_serde::encode::write(out, message)
    } else {
        rmp_serde::encode::write_named(out, message)
    };
    written.expect("messages are plain data and memory takes every write");
}

/// Decodes a message, borrowing its columns from `bytes`. What it allocates is bounded by a small
/// multiple of the message's size, whatever its headers claim.
///
/// # Errors
/// [`MessageError::Newer`] for a newer wire version, else [`MessageError::Malformed`].
pub fn decode<'a, M: Message + Deserialize<'a>>(bytes: &'a [u8]) -> Result<M, MessageError> {
    match version(bytes, M::ARRAY) {
        Some(got) if got > WIRE_VERSION => Err(MessageError::Newer { got }),
        Some(_) => list::within(bytes.len(), || rmp_serde::from_slice(bytes))
            .map_err(|error| MessageError::Malformed(error.to_string())),
        None => Err(MessageError::Malformed("no wire version".into())),
    }
}

fn version(bytes: &[u8], array: bool) -> Option<u16> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u16,
    }
    if !array {
        return rmp_serde::from_slice::<Versioned>(bytes)
            .ok()
            .map(|versioned| versioned.v);
    }
    let body = match bytes {
        [0x90..=0x9f, rest @ ..] | [0xdc, _, _, rest @ ..] => rest,
        _ => return None,
    };
    match body {
        [small @ 0..=0x7f, ..] => Some(u16::from(*small)),
        [0xcc, byte, ..] => Some(u16::from(*byte)),
        [0xcd, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// Lists in map messages: they take no more memory than their message can fill.
pub(crate) mod list {
    use std::cell::Cell;
    use std::fmt;
    use std::marker::PhantomData;

    use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
    use serde::{Serialize, Serializer};

    /// Bytes an item takes in memory for each byte it takes in a message, at most: every field
    /// takes a byte there and no more than eight here.
    const SPREAD: usize = 8;

    thread_local! {
        /// Bytes that the lists of the message being decoded may still take; none outside a
        /// message, where a list (of a seal's answer in the record) grows by what is there.
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Decodes a message of `bytes` bytes.
    pub(super) fn within<T>(bytes: usize, decode: impl FnOnce() -> T) -> T {
        LEFT.set(Some(bytes.saturating_mul(SPREAD)));
        let decoded = decode();
        LEFT.set(None);
        decoded
    }

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        list: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                if let Some(left) = LEFT.get() {
                    let claimed = seq.size_hint().unwrap_or(0);
                    let left = claimed
                        .checked_mul(size_of::<T>())
                        .and_then(|bytes| left.checked_sub(bytes));
                    if left.is_none() {
                        return Err(A::Error::custom("a list larger than its message"));
                    }
                    LEFT.set(left);
                    list.reserve_exact(claimed);
                }
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}
