//! The images of one session.

use std::collections::BTreeMap;

use bus_schemas::{ModuleHash, Tenant};

/// The images of a session; the rules are in the module's head.
#[derive(Debug)]
pub(super) struct SessionImages {
    pub(super) tenant: Tenant,
    /// Images that its client may load. The count grows with each word that the client got, and falls with
    /// each unload of the image's last module.
    words: BTreeMap<ModuleHash, u32>,
    /// Images unloaded with their last module, once for each time, since this was last looked at.
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

    /// Counts one more word to the client that the worker has an image. Returns true if it is the first.
    pub(super) fn take(&mut self, hash: ModuleHash) -> bool {
        let words = self.words.entry(hash).or_default();
        *words += 1;
        *words == 1
    }

    /// Uncounts one word. Returns true if it was the last, and the session no longer has the image.
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

    /// Takes a refused image from the session, however many words it got.
    pub(super) fn drop_all(&mut self, hash: ModuleHash) {
        self.words.remove(&hash);
    }

    pub(super) fn into_images(self) -> (Tenant, Vec<ModuleHash>) {
        (self.tenant, self.words.into_keys().collect())
    }
}
