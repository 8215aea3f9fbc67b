//! Identifiers. Numbers are plain on the wire; in subjects 64-bit ids are 16 lower-case hex digits.

use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason that a text is not the expected identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not 16 hexadecimal digits.
    #[error("{0:?} is not 16 hexadecimal digits")]
    NotHex(String),
    /// Not a tenant name.
    #[error("{0:?} is not a tenant name: 1 to 32 of a-z, 0-9 and '-', starting with a letter")]
    NotTenant(String),
}

/// The number of a leader's term; a higher one fences a lower one.
pub type Epoch = u64;
/// A session's op number: 1, 2, 3 … without gaps; 0 is "none yet".
pub type OpNumber = u64;
/// A position in one GPU's chain: 1, 2, 3 … without gaps; 0 is "none yet".
pub type GpuPosition = u64;
/// A position in the cluster's order, within an epoch: grants are ordered by (epoch, global
/// position). A new leader continues above the highest position accepted by the workers sealed so
/// far. A worker sealed later may have accepted positions from the old leader that the new one has
/// assigned again.
pub type GlobalPosition = u64;
/// The number of a leader's input within its epoch: 1, 2, 3 … without gaps.
pub type InputNumber = u64;
/// The stable number of a device in the cluster, set at the start of its worker.
pub type GpuId = u32;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let hex = text.len() == 16
                    && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
                match u64::from_str_radix(text, 16) {
                    Ok(value) if hex => Ok(Self(value)),
                    _ => Err(IdError::NotHex(text.chars().take(40).collect())),
                }
            }
        }
    };
}

hex_id! {
    /// One leader process, random. It distinguishes two leaders of one epoch.
    LeaderId
}
hex_id! {
    /// One start of a worker, random.
    Incarnation
}
hex_id! {
    /// One session, unique for the life of the cluster: `epoch << 24 | counter`. The counter begins
    /// at the low 23 bits of the leader's id.
    SessionId
}
hex_id! {
    /// Fingerprint of (module hash, function, grid, block, shared bytes). See
    /// [`crate::FunctionFingerprint`].
    KernelKey
}
impl KernelKey {
    /// All kernels of a tenant that are not counted individually. Like 0, which stands for copies
    /// and memory, it is never a fingerprint.
    pub const OTHER: Self = Self(u64::MAX);
}

hex_id! {
    /// The first 64 bits of a module hash, for people: enough to tell images of one cluster apart.
    ModuleId
}

/// BLAKE3 of a module image's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleHash(pub [u8; 32]);

impl ModuleHash {
    /// Returns the hash of an image.
    #[must_use]
    pub fn of(image: &[u8]) -> Self {
        Self(*blake3::hash(image).as_bytes())
    }

    /// Returns the first 64 bits: enough to distinguish images of one cluster, but no proof.
    #[must_use]
    pub fn short(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModuleHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleHash({self})")
    }
}

/// BLAKE3 of a chunk: [`crate::limits::CONTENT_BYTES`] bytes of a copy; the last chunk of a copy
/// may have fewer. It identifies the bytes, and does not prove that its sender has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// Returns the hash of a chunk given in pieces.
    #[must_use]
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// A tenant's name: 1 to 32 of `a-z`, `0-9` and `-`, starting with a letter, so that it is one
/// subject token and one KV key token. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant([u8; Self::LONGEST]);

impl Tenant {
    /// Length of the longest name in bytes. Shorter ones are zero-padded.
    pub(crate) const LONGEST: usize = 32;

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let name = self.0.split(|byte| *byte == 0).next();
        // A name is ASCII: it was checked on creation.
        std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default()
    }

    /// Returns the name as packed in a row.
    pub(crate) fn padded(&self) -> &[u8; Self::LONGEST] {
        &self.0
    }

    /// Reads a name from a row.
    pub(crate) fn from_padded(padded: [u8; Self::LONGEST]) -> Option<Self> {
        let end = padded.iter().position(|byte| *byte == 0);
        let (name, rest) = padded.split_at(end.unwrap_or(Self::LONGEST));
        let zeros = rest.iter().all(|byte| *byte == 0);
        (zeros && is_name(name)).then_some(Self(padded))
    }
}

fn is_name(text: &[u8]) -> bool {
    let first = text.first().is_some_and(u8::is_ascii_lowercase);
    let all = text
        .iter()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    first && all && text.len() <= Tenant::LONGEST
}

impl FromStr for Tenant {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut padded = [0; Self::LONGEST];
        match padded.get_mut(..text.len()) {
            Some(front) if is_name(text.as_bytes()) => front.copy_from_slice(text.as_bytes()),
            _ => return Err(IdError::NotTenant(text.chars().take(40).collect())),
        }
        Ok(Self(padded))
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({self})")
    }
}

impl Serialize for Tenant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Tenant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = Tenant;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a tenant's name")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Tenant, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_their_text() {
        let id = SessionId(0xdead_beef_0102_0304);
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "1",
            "00000000000000000",
            "+000000000000001",
            "000000000000000G",
        ] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tenant_names_are_one_subject_token() {
        assert!("chat-1".parse::<Tenant>().is_ok());
        for bad in [
            "",
            "1a",
            "-a",
            "A",
            "a.b",
            "a*",
            "a>",
            "a b",
            &"a".repeat(33),
        ] {
            assert!(bad.parse::<Tenant>().is_err(), "{bad}");
        }
    }
}
