//! The images that one session has.

use std::collections::BTreeMap;

use bus_schemas::{ModuleHash, Tenant};

/// See the head.
#[derive(Debug)]
pub(super) struct SessionImages {
    pub(super) tenant: Tenant,
    /// Images that its client may load, and how many times it got word of that and has not unloaded
    /// the last module that came of that.
    words: BTreeMap<ModuleHash, u32>,
    /// Images whose last module ops have unloaded, as often as they have, since that was last
    /// looked at.
    pub(super) unloaded: Vec<ModuleHash>,
}

impl SessionImages {
    pub(super) fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            words: BTreeMap::new(),
            unloaded: Vec::new(),
        }
    }

    pub(super) fn has(&self, hash: ModuleHash) -> bool {
        self.words.contains_key(&hash)
    }

    /// Its client gets word once more that an image is here; whether it had none before.
    pub(super) fn take(&mut self, hash: ModuleHash) -> bool {
        let words = self.words.entry(hash).or_default();
        *words += 1;
        *words == 1
    }

    /// One word counts no more; whether it was the last, and the session has the image no more.
    pub(super) fn leave(&mut self, hash: ModuleHash) -> bool {
        let Some(words) = self.words.get_mut(&hash) else {
            return false;
        };
        *words -= 1;
        let last = *words == 0;
        if last {
            self.words.remove(&hash);
        }
        last
    }

    pub(super) fn is_last_word(&self, hash: ModuleHash) -> bool {
        self.words.get(&hash) == Some(&1)
    }

    /// It was refused the image, however often it got word.
    pub(super) fn drop_all(&mut self, hash: ModuleHash) {
        self.words.remove(&hash);
    }

    pub(super) fn into_images(self) -> (Tenant, Vec<ModuleHash>) {
        (self.tenant, self.words.into_keys().collect())
    }
}
