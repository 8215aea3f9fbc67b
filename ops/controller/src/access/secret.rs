//! Secrets: random words that are shown once. Only a digest is stored.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::problem::Problem;

/// Random bytes of a secret. They are too many to guess, so a plain digest reveals nothing.
const BYTES: usize = 32;

/// A secret and the id under which it is stored: `wl_<id>_<secret>`, both in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    /// The id, which is not secret.
    pub(crate) id: String,
    /// The secret itself.
    word: String,
}

impl Secret {
    /// A new random secret.
    pub(crate) fn random() -> Result<Self, Problem> {
        let (mut id, mut word) = ([0; 8], [0; BYTES]);
        let random = SystemRandom::new();
        let filled = random.fill(&mut id).and_then(|()| random.fill(&mut word));
        filled.map_err(|_| Problem::internal("the system gives no random bytes"))?;
        Ok(Self {
            id: hex(&id),
            word: hex(&word),
        })
    }

    /// The text that is shown once.
    pub(crate) fn shown(&self) -> String {
        format!("wl_{}_{}", self.id, self.word)
    }

    /// Parses a secret that a caller sent.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (id, word) = text.strip_prefix("wl_")?.split_once('_')?;
        let digits = |text: &str, bytes: usize| {
            let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            text.len() == 2 * bytes && text.bytes().all(lower)
        };
        (digits(id, 8) && digits(word, BYTES)).then(|| Self {
            id: id.into(),
            word: word.into(),
        })
    }

    /// The digest that is stored.
    pub(crate) fn digest(&self) -> String {
        digest("secret", &self.word)
    }

    /// True if the stored digest is that of this secret. Compares in constant time.
    pub(crate) fn is(&self, kept: &str) -> bool {
        let kept = blake3::Hash::from_hex(kept);
        kept.is_ok_and(|kept| blake3::Hash::from_hex(self.digest()).is_ok_and(|own| own == kept))
    }

    /// The CSRF word for a cookie with this secret; it reveals nothing of the secret.
    pub(crate) fn csrf(&self) -> String {
        digest("csrf", &self.word)
    }
}

/// A digest for one purpose, in hexadecimal digits.
pub(crate) fn digest(purpose: &str, text: &str) -> String {
    let context = format!("warploom controller 2026 {purpose}");
    let key = blake3::derive_key(&context, text.as_bytes());
    hex(&key)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_reads_as_it_is_shown_and_no_other_is_it() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_eq!(Secret::read(&one.shown()).as_ref(), Some(&one));
        assert!(one.is(&one.digest()) && !one.is(&other.digest()) && !one.is(""));
        assert_ne!(one.csrf(), one.digest());
        for bad in [
            "",
            "wl_",
            "wl_00_11",
            "xx",
            &one.shown().to_uppercase(),
            &one.shown()[1..],
        ] {
            assert_eq!(Secret::read(bad), None, "{bad}");
        }
    }
}
