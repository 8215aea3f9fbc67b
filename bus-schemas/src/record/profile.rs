//! The name of a profile: the hash of its estimates.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{IdError, KernelKey};

/// BLAKE3 of a profile's estimates: of each kernel key, in key order, and its nanoseconds, eight
/// little-endian bytes each. Two profiles with the same hash order alike, in any versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProfileHash(pub [u8; 32]);

impl ProfileHash {
    /// Returns the hash of estimates in key order.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = (KernelKey, u64)>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (key, ns) in entries {
            let mut row = [0; 16];
            row[..8].copy_from_slice(&key.0.to_le_bytes());
            row[8..].copy_from_slice(&ns.to_le_bytes());
            hasher.update(&row);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// True if the hash was not given, as in records from before profiles had hashes.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.0 == [0; 32]
    }
}

impl fmt::Display for ProfileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProfileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileHash({self})")
    }
}

impl FromStr for ProfileHash {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bad = || IdError::NotHex(text.chars().take(80).collect());
        let mut hash = [0; 32];
        // The number parser would accept a sign.
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
            let digits = text.get(at..at + 2).ok_or_else(bad)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for ProfileHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for ProfileHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text: std::borrow::Cow<'de, str> = Deserialize::deserialize(deserializer)?;
            return text.parse().map_err(D::Error::custom);
        }
        let bytes: &[u8] = serde_bytes::deserialize(deserializer)?;
        let hash = bytes.try_into();
        hash.map(Self)
            .map_err(|_| D::Error::custom("a profile's hash is 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_and_tells_estimates_apart() {
        let hash = ProfileHash::of([(KernelKey(1), 5), (KernelKey(2), 7)]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_ne!(
            hash,
            ProfileHash::of([(KernelKey(1), 7), (KernelKey(2), 5)])
        );
        assert_ne!(hash, ProfileHash::of([(KernelKey(1), 5)]));
        assert!(ProfileHash::default().is_unknown() && !hash.is_unknown());
        for bad in [
            "",
            "abc",
            &"x".repeat(64),
            &"+f".repeat(32),
            &"é".repeat(32),
        ] {
            assert!(bad.parse::<ProfileHash>().is_err(), "{bad}");
        }
    }
}
