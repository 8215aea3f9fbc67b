//! The images of modules on a worker: the sessions that have each, the charges for them, and the choice of
//! those to give up.
//!
//! **Problem.** An image is sent once and prepared once for all tenants, and takes memory of the host for as
//! long as it is kept. One tenant must not fill that memory. No tenant may use an image by naming its hash
//! alone. An image that may be needed again should not be prepared again.
//!
//! **Rules.**
//! - A tenant may use the images that it sent itself.
//! - A session *has* an image from the word that the worker has it until the session has unloaded its last
//!   module of it. Each word counts, and so does each such unload. A tenant is charged for the images of its
//!   sessions, each image once and in full.
//! - A session is denied an image if it would take its tenant above its limit. An image that turns out to be
//!   too large for every tenant that waits for it is refused, and nothing is remembered of it.
//! - An image that no session has is given up while it is being prepared. Later it stays while such images
//!   take at most [`UNUSED`] bytes together; the ones unused longest go first.
//!
//! The shell keeps the bytes and asks the device; `M` is a module as the device prepared it.

mod image;
mod session;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Compilation, Failure, ModuleHash, SessionId, Tenant, limits};

pub use crate::dispatch::ImageState;
use crate::sequencer;
use image::{Image, Share, too_much};
use session::SessionImages;

/// Maximum bytes of all images that no session has.
pub const UNUSED: u64 = 256 << 20;
/// Bytes that an image takes beside the device's figure: its entries in the tables.
pub const ENTRY: u64 = 1 << 10;

/// Conversion to the sequencer's form of the state.
impl<'a, M> From<&'a ImageState<M>> for sequencer::ImageReadiness<'a> {
    fn from(state: &'a ImageState<M>) -> Self {
        match state {
            ImageState::Unknown => Self::Unknown,
            ImageState::Preparing => Self::Preparing,
            ImageState::Ready(_) => Self::Ready,
            ImageState::Refused(failure) => Self::Refused(failure),
        }
    }
}

/// The handling of an image that has arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing to do: the session has been closed meanwhile.
    Stray,
    /// The session does not get the image.
    Denied(Failure),
    /// The device must prepare it.
    Prepare,
    /// Nothing to do: the image is known already.
    Known,
}

/// The images released by a session that ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Released {
    /// Images that the device need not prepare any more.
    pub cancel: Vec<ModuleHash>,
    /// Images that the device must forget.
    pub forget: Vec<ModuleHash>,
}

/// The result of the device's answer about an image.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The failure for the sessions that wait for it, if it is refused.
    pub refused: Option<Failure>,
    /// Images that the device must forget.
    pub forget: Vec<ModuleHash>,
}

/// The images on one worker.
#[derive(Debug)]
pub struct ImageTable<M> {
    images: BTreeMap<ModuleHash, Image<M>>,
    shares: BTreeMap<Tenant, Share>,
    sessions: BTreeMap<SessionId, SessionImages>,
    /// Number of times that sessions have left images so far.
    ends: u64,
}

impl<M> Default for ImageTable<M> {
    fn default() -> Self {
        Self {
            images: BTreeMap::new(),
            shares: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ends: 0,
        }
    }
}

impl<M: Clone> ImageTable<M> {
    /// Returns the answer to a client that offers an image: refused if its tenant sent it before and may not
    /// have it now.
    #[must_use]
    pub fn known(&self, tenant: &Tenant, hash: ModuleHash, most: u64) -> ImageState<M> {
        match self.state(tenant, hash) {
            ImageState::Unknown => ImageState::Unknown,
            state => match self.denied(tenant, hash, &[], most) {
                Some(failure) => ImageState::Refused(failure),
                None => state,
            },
        }
    }

    /// Returns the state of the tenant's image; unknown if the tenant never sent it.
    #[must_use]
    pub fn state(&self, tenant: &Tenant, hash: ModuleHash) -> ImageState<M> {
        let image = self.images.get(&hash);
        let given = image.filter(|image| image.given.contains(tenant));
        given.map_or(ImageState::Unknown, |image| image.state.clone())
    }
}

impl<M> ImageTable<M> {
    /// True if the tenant sent this image before.
    #[must_use]
    pub fn is_given(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        let image = self.images.get(&hash);
        image.is_some_and(|image| image.given.contains(tenant))
    }

    /// True if the session has the image.
    #[must_use]
    pub fn has(&self, session: SessionId, hash: ModuleHash) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.has(hash))
    }

    /// Bytes that the tenant is charged.
    #[must_use]
    pub fn charged_to(&self, tenant: &Tenant) -> u64 {
        self.shares.get(tenant).map_or(0, |share| share.bytes)
    }

    /// Gives the session an image, because its client gets word that the worker has it. Its tenant's images
    /// may take `most` bytes.
    pub fn take(&mut self, session: SessionId, tenant: &Tenant, hash: ModuleHash, most: u64) {
        let empty = || SessionImages::new(tenant.clone());
        let entry = self.sessions.entry(session).or_insert_with(empty);
        if entry.take(hash) {
            let tenant = entry.tenant.clone();
            self.hold(&tenant, hash, most);
        }
    }

    /// Gives the session an image that the tenant sent before, unless the tenant may not have it.
    pub fn take_known(&mut self, session: SessionId, tenant: &Tenant, hash: ModuleHash, most: u64) {
        if self.denied(tenant, hash, &[], most).is_none() {
            self.take(session, tenant, hash, most);
        }
    }

    /// Gives the session the images that a slice on its way to the device loads. A client may load images
    /// that its tenant sent before without a word from the worker.
    pub fn take_loaded(
        &mut self,
        session: SessionId,
        tenant: &Tenant,
        loaded: &[ModuleHash],
        most: u64,
    ) {
        for hash in loaded {
            if !self.has(session, *hash) {
                self.take(session, tenant, *hash, most);
            }
        }
    }

    /// Returns the failure if a session of the tenant may not have an image that the tenant sent before.
    /// `others` are images that the session is about to be charged for too.
    #[must_use]
    pub fn denied(
        &self,
        tenant: &Tenant,
        hash: ModuleHash,
        others: &[ModuleHash],
        most: u64,
    ) -> Option<Failure> {
        let fresh = |hash: &ModuleHash| {
            let image = self.images.get(hash)?;
            (!image.holders.contains_key(tenant)).then_some(image.bytes)
        };
        let bytes = fresh(&hash)?;
        let others = others.iter().filter_map(fresh);
        let used = others.fold(self.charged_to(tenant), u64::saturating_add);
        let over = used.saturating_add(bytes) > most;
        over.then(|| too_much(tenant, used, bytes, most))
    }

    /// Handles an image that has arrived whole from this session, with this many bytes. Its hash was checked.
    #[must_use]
    pub fn arrived(&mut self, session: SessionId, hash: ModuleHash, bytes: u64) -> Arrival {
        let entry = self.sessions.get(&session).filter(|it| it.has(hash));
        let Some(entry) = entry else {
            return Arrival::Stray;
        };
        let tenant = entry.tenant.clone();
        let image = self.images.entry(hash).or_default();
        if image.is_unknown() {
            self.weigh(hash, bytes + ENTRY);
        }
        if let Some(failure) = self.excess_of(&tenant, hash) {
            let entry = self.sessions.get_mut(&session);
            if entry.is_some_and(|entry| entry.leave(hash)) {
                self.leave(&tenant, &[hash]);
            }
            return Arrival::Denied(failure);
        }
        let image = self.images.entry(hash).or_default();
        image.given.insert(tenant.clone());
        match image.is_unknown() {
            true => {
                image.state = ImageState::Preparing;
                image.prepared_for = Some(tenant);
                Arrival::Prepare
            }
            false => Arrival::Known,
        }
    }

    /// Handles the device's answer: the module and its bytes, or the reason that it cannot run it. An image
    /// that is too large for every tenant with sessions that wait for it is refused.
    #[must_use]
    pub fn prepared(&mut self, hash: ModuleHash, answer: Result<(M, u64), Failure>) -> Answered {
        let bytes = answer.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.weigh(hash, bytes + ENTRY);
        let (state, refused) = match (answer, self.excess(hash)) {
            (Ok(_), Some(failure)) => {
                // The image may fit later, so nothing is remembered of it.
                self.forget(&[hash]);
                for session in self.sessions.values_mut() {
                    session.drop_all(hash);
                }
                let mut forget = vec![hash];
                forget.extend(self.surplus());
                let refused = Some(failure);
                return Answered { refused, forget };
            }
            (Ok((module, _)), None) => (ImageState::Ready(module), None),
            (Err(failure), _) => (ImageState::Refused(failure.clone()), Some(failure)),
        };
        self.images.entry(hash).or_default().state = state;
        let forget = self.surplus();
        Answered { refused, forget }
    }

    /// Notes the times of the compilation of a prepared image.
    pub fn compiled(&mut self, hash: ModuleHash, compilation: Compilation) {
        if let Some(image) = self.images.get_mut(&hash) {
            image.compilation = Some(compilation);
        }
    }

    /// Takes the compilation of an image, for the tenant's first slice that loads it. Only the tenant for which the
    /// image was compiled gets it: the others' requests had no part in it.
    #[must_use]
    pub fn take_compilation(&mut self, tenant: &Tenant, hash: ModuleHash) -> Option<Compilation> {
        let image = self.images.get_mut(&hash)?;
        let is_own = image.prepared_for.as_ref() == Some(tenant);
        image.compilation.take_if(|_| is_own)
    }

    /// Refuses every image that is being prepared, because the worker leaves. Returns those images.
    #[must_use]
    pub fn refuse_unprepared(&mut self, why: &Failure) -> Vec<ModuleHash> {
        let preparing = self.images.iter();
        let preparing = preparing.filter(|(_, image)| image.is_preparing());
        let preparing: Vec<_> = preparing.map(|(hash, _)| *hash).collect();
        for hash in &preparing {
            self.weigh(*hash, ENTRY);
            self.images.entry(*hash).or_default().state = ImageState::Refused(why.clone());
        }
        preparing
    }

    /// Notes images that a slice on its way to the device unloads the last module of, once for each time.
    pub fn unloaded(&mut self, session: SessionId, images: Vec<ModuleHash>) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.unloaded.extend(images);
        }
    }

    /// Handles a completed slice of the session. Once the session is `idle`, with nothing on the device, it
    /// no longer has the images that it unloaded. Its client offers an image again before it loads it again.
    /// That offer may have come already and counts by itself; an image that is loaded again with the last
    /// word stays. Returns the images that the device must forget.
    #[must_use]
    pub fn settle(
        &mut self,
        session: SessionId,
        idle: bool,
        is_loaded: impl Fn(ModuleHash) -> bool,
    ) -> Vec<ModuleHash> {
        let Some(entry) = self.sessions.get_mut(&session).filter(|_| idle) else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        for hash in std::mem::take(&mut entry.unloaded) {
            let stays = entry.is_last_word(hash) && is_loaded(hash);
            if !stays && entry.leave(hash) {
                gone.push(hash);
            }
        }
        if gone.is_empty() {
            return gone;
        }
        let tenant = entry.tenant.clone();
        self.leave(&tenant, &gone);
        self.surplus()
    }

    /// Takes all images from a session that loads none any more.
    #[must_use]
    pub fn release(&mut self, session: SessionId) -> Released {
        let Some(entry) = self.sessions.remove(&session) else {
            return Released::default();
        };
        let (tenant, images) = entry.into_images();
        if images.is_empty() {
            return Released::default();
        }
        self.leave(&tenant, &images);
        Released {
            cancel: self.give_up(&images),
            forget: self.surplus(),
        }
    }

    /// Returns the images that leaders should know: those that sessions have, then those used last. Each
    /// comes with all tenants that sent it.
    #[must_use]
    pub fn sample(&self) -> Vec<(Tenant, u64)> {
        let given = self.images.iter().flat_map(|(hash, image)| {
            let last = (!image.holders.is_empty(), image.since);
            let tenants = image.given.iter();
            tenants.map(move |tenant| (Reverse(last), *hash, tenant))
        });
        let mut given: Vec<_> = given.collect();
        given.sort_unstable();
        given.truncate(limits::IMAGES);
        let named = given.into_iter();
        let named: BTreeSet<_> = named
            .map(|(_, hash, tenant)| (tenant.clone(), hash.short()))
            .collect();
        named.into_iter().collect()
    }

    /// Sets the bytes of an image, and charges every tenant with sessions that have it.
    fn weigh(&mut self, hash: ModuleHash, bytes: u64) {
        let image = self.images.entry(hash).or_default();
        let before = std::mem::replace(&mut image.bytes, bytes);
        for tenant in image.holders.keys() {
            if let Some(share) = self.shares.get_mut(tenant) {
                share.bytes = share.bytes.saturating_sub(before).saturating_add(bytes);
            }
        }
    }

    /// Gives the image to one more session of the tenant.
    fn hold(&mut self, tenant: &Tenant, hash: ModuleHash, most: u64) {
        let image = self.images.entry(hash).or_default();
        let share = self.shares.entry(tenant.clone()).or_default();
        share.most = most;
        let sessions = image.holders.entry(tenant.clone()).or_default();
        *sessions += 1;
        if *sessions == 1 {
            share.images += 1;
            share.bytes = share.bytes.saturating_add(image.bytes);
        }
    }

    /// Takes these images from a session of the tenant.
    fn leave(&mut self, tenant: &Tenant, images: &[ModuleHash]) {
        self.ends += 1;
        for hash in images {
            let Some(image) = self.images.get_mut(hash) else {
                continue;
            };
            image.since = self.ends;
            let bytes = image.bytes;
            let Some(sessions) = image.holders.get_mut(tenant) else {
                continue;
            };
            *sessions -= 1;
            if *sessions > 0 {
                continue;
            }
            image.holders.remove(tenant);
            if image.holders.is_empty() && image.is_unknown() {
                self.images.remove(hash);
            }
            self.uncharge(tenant, bytes);
        }
    }

    /// Removes one image from the tenant's charge.
    fn uncharge(&mut self, tenant: &Tenant, bytes: u64) {
        let Some(share) = self.shares.get_mut(tenant) else {
            return;
        };
        share.images -= 1;
        share.bytes = share.bytes.saturating_sub(bytes);
        if share.images == 0 {
            self.shares.remove(tenant);
        }
    }

    /// Returns the failure if the tenant may not have an image that one of its sessions has.
    fn excess_of(&self, tenant: &Tenant, hash: ModuleHash) -> Option<Failure> {
        let (image, share) = (self.images.get(&hash)?, self.shares.get(tenant)?);
        let over = share.bytes > share.most;
        over.then(|| too_much(tenant, share.bytes - image.bytes, image.bytes, share.most))
    }

    /// Returns the failure of an image that puts every one of its holders above its limit.
    fn excess(&self, hash: ModuleHash) -> Option<Failure> {
        let holders = self.images.get(&hash)?.holders.keys();
        let mut first = None;
        for tenant in holders {
            let failure = self.excess_of(tenant, hash)?;
            first.get_or_insert(failure);
        }
        first
    }

    /// Forgets images. A client that needs one again sends it again.
    fn forget(&mut self, images: &[ModuleHash]) {
        for hash in images {
            let Some(image) = self.images.remove(hash) else {
                continue;
            };
            for tenant in image.holders.keys() {
                self.uncharge(tenant, image.bytes);
            }
        }
    }

    /// Forgets those of these images that are not prepared yet and that no session waits for. Returns them.
    fn give_up(&mut self, images: &[ModuleHash]) -> Vec<ModuleHash> {
        let unwanted = |hash: &&ModuleHash| {
            let image = self.images.get(*hash);
            image.is_some_and(|image| image.holders.is_empty() && image.is_preparing())
        };
        let gone: Vec<ModuleHash> = images.iter().filter(unwanted).copied().collect();
        self.forget(&gone);
        gone
    }

    /// Forgets images that no session has, those unused longest first, until the rest is within its bound.
    /// Returns them.
    fn surplus(&mut self) -> Vec<ModuleHash> {
        let unused = self.images.iter();
        let unused = unused.filter(|(_, image)| image.holders.is_empty() && !image.is_preparing());
        let mut unused: Vec<_> = unused
            .map(|(hash, image)| (image.since, *hash, image.bytes))
            .collect();
        let mut sum: u64 = unused.iter().map(|(_, _, bytes)| bytes).sum();
        unused.sort_unstable();
        let mut gone = Vec::new();
        for (_, hash, bytes) in unused {
            if sum <= UNUSED {
                break;
            }
            sum -= bytes;
            gone.push(hash);
        }
        self.forget(&gone);
        gone
    }
}
