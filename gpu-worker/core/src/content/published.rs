//! Published weights: the tenants that may have copies answered from their chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bus_schemas::{ContentHash, Tenant};

/// Maximum number of chunks of all published weights: 256 GiB of them. Chunks beyond that are answered as if
/// they were not published.
const CHUNKS: usize = 256 << 10;

/// The tenants to which something is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every tenant.
    All,
    /// These tenants.
    Tenants(BTreeSet<Tenant>),
}

impl Audience {
    fn has(&self, tenant: &Tenant) -> bool {
        match self {
            Self::All => true,
            Self::Tenants(tenants) => tenants.contains(tenant),
        }
    }
}

/// A published tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTensor {
    /// The object that contains it.
    pub object: Arc<str>,
    /// The hashes of its chunks.
    pub hashes: Vec<ContentHash>,
}

#[derive(Debug)]
struct Publication {
    audience: Audience,
    tensors: Vec<PublishedTensor>,
}

/// Everything that is published, by name.
#[derive(Debug, Default)]
pub struct PublishedWeights {
    by_name: BTreeMap<String, Publication>,
    /// Location of each chunk: objects of the publications of these names.
    places: BTreeMap<ContentHash, BTreeMap<String, Arc<str>>>,
    chunks: usize,
}

impl PublishedWeights {
    /// Publishes this under a name, in place of what was published under it. Returns true if there was room
    /// for all of it.
    pub fn publish(
        &mut self,
        name: &str,
        audience: Audience,
        mut tensors: Vec<PublishedTensor>,
    ) -> bool {
        self.withdraw(name);
        let mut all = true;
        tensors.retain(|tensor| {
            let fits = self.chunks + tensor.hashes.len() <= CHUNKS;
            if fits {
                self.chunks += tensor.hashes.len();
            }
            all &= fits;
            fits
        });
        for tensor in &tensors {
            for hash in &tensor.hashes {
                let places = self.places.entry(*hash).or_default();
                places.insert(name.to_owned(), Arc::clone(&tensor.object));
            }
        }
        let publication = Publication { audience, tensors };
        self.by_name.insert(name.to_owned(), publication);
        all
    }

    /// Withdraws the publication of a name.
    pub fn withdraw(&mut self, name: &str) {
        let Some(gone) = self.by_name.remove(name) else {
            return;
        };
        for tensor in &gone.tensors {
            self.chunks -= tensor.hashes.len();
            for hash in &tensor.hashes {
                if let Some(places) = self.places.get_mut(hash) {
                    places.remove(name);
                    if places.is_empty() {
                        self.places.remove(hash);
                    }
                }
            }
        }
    }

    /// Returns the object with a chunk that was published to this tenant.
    #[must_use]
    pub fn object(&self, tenant: &Tenant, hash: &ContentHash) -> Option<&Arc<str>> {
        let mut places = self.places.get(hash)?.iter();
        let is_its = |name: &str| {
            let publication = self.by_name.get(name);
            publication.is_some_and(|it| it.audience.has(tenant))
        };
        let (_, object) = places.find(|(name, _)| is_its(name))?;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(of: u8) -> ContentHash {
        ContentHash::of([&[of][..]])
    }

    fn tensor(object: &str, hashes: &[u8]) -> PublishedTensor {
        PublishedTensor {
            object: object.into(),
            hashes: hashes.iter().map(|of| hash(*of)).collect(),
        }
    }

    #[test]
    fn only_those_it_is_published_to_find_it_as_long_as_it_is() {
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let mut published = PublishedWeights::default();
        let to = |tenant: &Tenant| Audience::Tenants([tenant.clone()].into());
        assert!(published.publish("one", to(&a), vec![tensor("x", &[1, 2]), tensor("y", &[3])]));
        assert!(published.publish("two", Audience::All, vec![tensor("z", &[2])]));
        let object = |object: &str| Some(Arc::from(object));
        let find = |published: &PublishedWeights, tenant: &Tenant, of| {
            published.object(tenant, &hash(of)).cloned()
        };
        assert_eq!(find(&published, &a, 1), object("x"));
        assert_eq!(find(&published, &b, 1), None);
        assert_eq!(find(&published, &b, 2), object("z"));
        // Published to other tenants, then to none.
        assert!(published.publish("one", to(&b), vec![tensor("x", &[1])]));
        assert_eq!(find(&published, &a, 1), None);
        assert_eq!(find(&published, &b, 1), object("x"));
        assert_eq!(find(&published, &a, 3), None, "it is not in it any more");
        published.withdraw("one");
        published.withdraw("two");
        published.withdraw("never");
        assert_eq!(find(&published, &b, 2), None);
        assert_eq!((published.chunks, published.places.len()), (0, 0));
    }

    #[test]
    fn chunks_that_are_equal_within_one_or_beyond_the_bound_do_no_harm() {
        let a: Tenant = "a".parse().unwrap();
        let mut published = PublishedWeights::default();
        let twice = vec![tensor("x", &[1, 1]), tensor("y", &[1])];
        assert!(published.publish("one", Audience::All, twice));
        assert!(published.object(&a, &hash(1)).is_some());
        let much = PublishedTensor {
            object: "much".into(),
            hashes: vec![hash(7); CHUNKS],
        };
        assert!(!published.publish("two", Audience::All, vec![much, tensor("z", &[2])]));
        assert_eq!(published.object(&a, &hash(7)), None);
        assert!(published.object(&a, &hash(2)).is_some(), "it fits");
        published.withdraw("one");
        published.withdraw("two");
        assert_eq!((published.chunks, published.places.len()), (0, 0));
    }
}
