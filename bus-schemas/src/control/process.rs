//! The process of a client: its own report, for people and for tools that list processes.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::SHORT_TEXT;

/// A text of at most [`SHORT_TEXT`] bytes. It has no control characters, which would reach the
/// terminal of a reader. A longer text is cut at a character. Cloning is cheap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortText([u8; SHORT_TEXT]);

impl ShortText {
    /// Creates a text from as much of `text` as fits; each control character becomes `?`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut padded = [0; SHORT_TEXT];
        let mut end = 0;
        for character in text.chars() {
            let character = if character.is_control() {
                '?'
            } else {
                character
            };
            let next = end + character.len_utf8();
            let Some(room) = padded.get_mut(end..next) else {
                break;
            };
            character.encode_utf8(room);
            end = next;
        }
        Self(padded)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next();
        // The text is UTF-8: it was checked on creation.
        std::str::from_utf8(text.unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the text as packed in a row.
    pub(crate) fn padded(&self) -> &[u8; SHORT_TEXT] {
        &self.0
    }

    /// Reads a text from a row; `None` if [`ShortText::new`] would not make it.
    pub(crate) fn from_padded(padded: [u8; SHORT_TEXT]) -> Option<Self> {
        let end = padded.iter().position(|byte| *byte == 0);
        let (text, rest) = padded.split_at_checked(end.unwrap_or(SHORT_TEXT))?;
        let is_text =
            std::str::from_utf8(text).is_ok_and(|text| !text.chars().any(char::is_control));
        let ends = rest.iter().all(|byte| *byte == 0);
        (is_text && ends).then_some(Self(padded))
    }
}

impl Default for ShortText {
    fn default() -> Self {
        Self([0; SHORT_TEXT])
    }
}

impl fmt::Display for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ShortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for ShortText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ShortText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = ShortText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ShortText, E> {
                Ok(ShortText::new(text))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The process that holds a session, as reported by its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientProcess {
    /// Name of the machine.
    pub host: ShortText,
    /// Id of the process there; 0 if none.
    pub pid: u32,
    /// File name of its program.
    pub name: ShortText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_at_a_character_and_nothing_reaches_a_terminal() {
        assert_eq!(ShortText::new("train.py").as_str(), "train.py");
        let long = format!("{}é{}", "a".repeat(SHORT_TEXT - 1), "b".repeat(1 << 20));
        assert_eq!(ShortText::new(&long).as_str(), "a".repeat(SHORT_TEXT - 1));
        assert_eq!(ShortText::new("a\0b\x1b[2Jc\u{9b}").as_str(), "a?b?[2Jc?");
        assert_eq!(ShortText::new("").as_str(), "");
    }

    #[test]
    fn rows_hold_what_a_text_can_be_and_nothing_else() {
        let text = ShortText::new("gpu-ö");
        assert_eq!(ShortText::from_padded(*text.padded()), Some(text));
        for bad in [&b"\xff"[..], b"a\x1bb", b"a\0b"] {
            let mut padded = [0; SHORT_TEXT];
            padded[..bad.len()].copy_from_slice(bad);
            assert_eq!(ShortText::from_padded(padded), None, "{bad:?}");
        }
    }
}
