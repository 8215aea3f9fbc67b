//! Cache of identities. The controller looks up a frequent caller once a second, so a revoked token
//! is refused within a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Identity;

/// Maximum age of a cached identity, in milliseconds.
const FRESH_MS: u64 = 1_000;
/// Maximum number of cached identities.
const MOST: usize = 4_096;

/// Identities by the digest of the secret.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    known: Mutex<HashMap<String, (Identity, u64)>>,
}

impl Identities {
    /// Returns the cached identity of the secret with this digest.
    pub(crate) fn get(&self, digest: &str, now_ms: u64) -> Option<Identity> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, at) = known.get(digest)?;
        let fresh = now_ms.saturating_sub(*at) < FRESH_MS && now_ms < identity.expires_ms;
        fresh.then(|| identity.clone())
    }

    /// Caches the identity of the secret with this digest.
    pub(crate) fn put(&self, digest: String, identity: Identity, now_ms: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.retain(|_, (_, at)| now_ms.saturating_sub(*at) < FRESH_MS);
        }
        if known.len() < MOST {
            known.insert(digest, (identity, now_ms));
        }
    }

    /// Clears the cache after a logout or the revocation of a token.
    pub(crate) fn forget(&self) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::tests::identity;
    use crate::access::role::Role;

    fn until(expires_ms: u64) -> Identity {
        Identity {
            expires_ms,
            ..identity(Role::Viewer, None)
        }
    }

    #[test]
    fn an_identity_is_known_for_a_second_and_not_beyond_its_end() {
        let known = Identities::default();
        known.put("a".into(), until(10_000), 5_000);
        assert!(known.get("a", 5_999).is_some() && known.get("a", 6_000).is_none());
        known.put("a".into(), until(5_100), 5_000);
        assert!(known.get("a", 5_100).is_none());
        known.put("b".into(), until(10_000), 5_000);
        known.forget();
        assert!(known.get("b", 5_000).is_none());
    }

    #[test]
    fn whoever_comes_it_stays_small() {
        let known = Identities::default();
        for number in 0..3 * MOST as u64 {
            known.put(number.to_string(), until(u64::MAX), number / 2);
        }
        assert!(known.known.lock().unwrap().len() <= MOST);
    }
}
