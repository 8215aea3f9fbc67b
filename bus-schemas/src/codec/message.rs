//! Encoding and decoding of whole messages.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget;
use crate::error::{Code, Failure};

/// Maximum bytes of an error's text.
const ERROR_TEXT: usize = 200;

/// The wire version this build speaks. It is the first element of every array message and the
/// field `v` of every map message.
pub const WIRE_VERSION: u16 = 1;

/// The reason that bytes are not the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message has a newer version; the sender is told ours.
    #[error("wire version {got} is newer than {WIRE_VERSION}, the newest this build speaks")]
    Newer {
        /// The sender's version.
        got: u16,
    },
    /// The message does not belong on the subject.
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
    /// True if the message travels as an array (hot), false for a map by field name.
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

/// Appends an encoded message to `out`, memory of any kind.
///
/// # Panics
/// Never for memory: see [`encode`].
#[expect(
    clippy::expect_used,
    reason = "writing plain data to memory cannot fail, and callers would have nothing to do about it"
)]
pub fn encode_into<M: Message + Serialize>(message: &M, out: &mut impl std::io::Write) {
    let written = if M::ARRAY {
        rmp_serde::encode::write(out, message)
    } else {
        rmp_serde::encode::write_named(out, message)
    };
    written.expect("messages are plain data and memory takes every write");
}

/// Decodes a message, and borrows its columns from `bytes`. Owned parts take no more memory than
/// the message has bytes, whatever its headers claim.
///
/// # Errors
/// [`MessageError::Newer`] for a newer wire version, else [`MessageError::Malformed`].
pub fn decode<'a, M: Message + Deserialize<'a>>(bytes: &'a [u8]) -> Result<M, MessageError> {
    match version(bytes, M::ARRAY) {
        Some(got) if got > WIRE_VERSION => Err(MessageError::Newer { got }),
        Some(_) => decode_budget::within(bytes.len(), || rmp_serde::from_slice(bytes))
            .map_err(|error| MessageError::Malformed(clipped(&error))),
        None => Err(MessageError::Malformed("no wire version".into())),
    }
}

/// Returns the start of an error's text, because the error may quote the message.
fn clipped(error: &rmp_serde::decode::Error) -> String {
    struct Clip(String);

    impl fmt::Write for Clip {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = text.floor_char_boundary(ERROR_TEXT - self.0.len());
            self.0.push_str(text.get(..room).unwrap_or_default());
            Ok(())
        }
    }

    let mut clip = Clip(String::with_capacity(ERROR_TEXT));
    // A `Clip` accepts every write.
    let _ = write!(clip, "{error}");
    clip.0
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
