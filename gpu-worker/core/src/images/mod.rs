//! The images of modules on a worker: who has which, what that is charged, and which ones go.
//!
//! **Problem.** An image is sent once and prepared once, whoever wants it, and takes memory of the host
//! for as long as it is here. One tenant must not fill that memory, nobody may use an image by naming
//! its hash alone, and what somebody may still want should not be prepared again.
//!
//! **Rules.**
//! - A tenant may use the images that it gave itself.
//! - A session *has* an image from the word that it is here until it has unloaded the last module of
//!   it, as often as it got word. What its tenant's sessions have is charged to the tenant, each image
//!   once and in full.
//! - A session is denied an image with which its tenant had more than it may. An image that turns
//!   out to be too large for everyone who waits for it is refused, and nothing is remembered of it.
//! - An image that no session has is given up while it is being prepared. Later it stays while those
//!   take [`UNUSED`] bytes at most together; the ones unused longest go first.
//!
//! The shell keeps the bytes and asks the device; `M` is a module as the device prepared it.

mod image;
mod session;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Failure, ModuleHash, SessionId, Tenant, limits};

pub use crate::dispatch::ImageState;
use crate::sequencer;
use image::{Image, Share, too_much};
use session::SessionImages;

/// Bytes that images which no session has may take together.
pub const UNUSED: u64 = 256 << 20;
/// Bytes that an image takes beside the device's figure: its entries here.
pub const ENTRY: u64 = 1 << 10;

/// An image's state as the sequencer knows it.
impl<'a, M> From<&'a ImageState<M>> for sequencer::ImageState<'a> {
    fn from(state: &'a ImageState<M>) -> Self {
        match state {
            ImageState::Unknown => Self::Unknown,
            ImageState::Preparing => Self::Preparing,
            ImageState::Ready(_) => Self::Ready,
            ImageState::Refused(failure) => Self::Refused(failure),
        }
    }
}

/// What is to be done with an image that has arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing: the session has been closed meanwhile.
    Stray,
    /// Its session does not get it.
    Denied(Failure),
    /// The device is to prepare it.
    Prepare,
    /// Nothing: it is here already.
    Known,
}

/// What a session that ended leaves behind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Released {
    /// Images that the device need not prepare any more.
    pub cancel: Vec<ModuleHash>,
    /// Images that the device is to forget.
    pub forget: Vec<ModuleHash>,
}

/// What comes of the device's answer about an image.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Why those who wait for it do not get it.
    pub refused: Option<Failure>,
    /// Images that the device is to forget.
    pub forget: Vec<ModuleHash>,
}

/// The images on one worker.
#[derive(Debug)]
pub struct ImageTable<M> {
    images: BTreeMap<ModuleHash, Image<M>>,
    shares: BTreeMap<Tenant, Share>,
    sessions: BTreeMap<SessionId, SessionImages>,
    /// How often sessions have left images so far.
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
    /// What a client is told of an image that it offers: refused where its tenant gave it before and
    /// may not have it now.
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

    /// What the tenant's image is; unknown if it never gave it.
    #[must_use]
    pub fn state(&self, tenant: &Tenant, hash: ModuleHash) -> ImageState<M> {
        let image = self.images.get(&hash);
        let given = image.filter(|image| image.given.contains(tenant));
        given.map_or(ImageState::Unknown, |image| image.state.clone())
    }
}

impl<M> ImageTable<M> {
    /// Whether the tenant gave this image before.
    #[must_use]
    pub fn is_given(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        let image = self.images.get(&hash);
        image.is_some_and(|image| image.given.contains(tenant))
    }

    /// Whether the session has the image.
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

    /// The session's client gets word that an image is here: the session has it. Its tenant's images
    /// may take `most` bytes.
    pub fn take(&mut self, session: SessionId, tenant: &Tenant, hash: ModuleHash, most: u64) {
        let empty = || SessionImages::new(tenant.clone());
        let entry = self.sessions.entry(session).or_insert_with(empty);
        if entry.take(hash) {
            let tenant = entry.tenant.clone();
            self.hold(&tenant, hash, most);
        }
    }

    /// The same of an image that the tenant gave before, unless it may not have it.
    pub fn take_known(&mut self, session: SessionId, tenant: &Tenant, hash: ModuleHash, most: u64) {
        if self.denied(tenant, hash, &[], most).is_none() {
            self.take(session, tenant, hash, most);
        }
    }

    /// A slice that goes to the device loads these. Its client may load what its tenant gave before
    /// without a word: the session has it from now on.
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

    /// Why a session of the tenant may not have an image that the tenant gave before, beside others
    /// that it is about to be charged.
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

    /// An image of so many bytes, which is what its hash says, has arrived whole from this session.
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
        image.given.insert(tenant);
        match image.is_unknown() {
            true => {
                image.state = ImageState::Preparing;
                Arrival::Prepare
            }
            false => Arrival::Known,
        }
    }

    /// The device has answered: the module and its bytes, or why it cannot run it. An image that is
    /// too much for each of those whose sessions wait for it is refused.
    #[must_use]
    pub fn prepared(&mut self, hash: ModuleHash, answer: Result<(M, u64), Failure>) -> Answered {
        let bytes = answer.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.weigh(hash, bytes + ENTRY);
        let (state, refused) = match (answer, self.excess(hash)) {
            (Ok(_), Some(failure)) => {
                // It may fit later, so nothing is remembered of it.
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

    /// The worker leaves: whatever is being prepared is refused. Those images.
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

    /// A slice that goes to the device unloads the last module of these, as often as it does.
    pub fn unloaded(&mut self, session: SessionId, images: Vec<ModuleHash>) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.unloaded.extend(images);
        }
    }

    /// A slice of the session has completed. What it has unloaded it has no more once it is `idle`,
    /// with nothing on the device: its client offers it again before it loads it again. That offer
    /// may be here already, and it counts by itself; an image that is loaded again with the last
    /// word stays. Answers with images that the device is to forget.
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

    /// A session loads no image any more.
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

    /// What leaders should know: images that sessions have, and of those that none has the ones used
    /// last, each with all tenants that gave it.
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

    /// An image takes so much: whose sessions have it is charged that.
    fn weigh(&mut self, hash: ModuleHash, bytes: u64) {
        let image = self.images.entry(hash).or_default();
        let before = std::mem::replace(&mut image.bytes, bytes);
        for tenant in image.holders.keys() {
            if let Some(share) = self.shares.get_mut(tenant) {
                share.bytes = share.bytes.saturating_sub(before).saturating_add(bytes);
            }
        }
    }

    /// One more session of the tenant has the image.
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

    /// A session of the tenant has these no more.
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

    /// The tenant's sessions have an image less.
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

    /// Why the tenant may not have an image that one of its sessions has.
    fn excess_of(&self, tenant: &Tenant, hash: ModuleHash) -> Option<Failure> {
        let (image, share) = (self.images.get(&hash)?, self.shares.get(tenant)?);
        let over = share.bytes > share.most;
        over.then(|| too_much(tenant, share.bytes - image.bytes, image.bytes, share.most))
    }

    /// Why an image is refused whose holders all have more than they may with it.
    fn excess(&self, hash: ModuleHash) -> Option<Failure> {
        let holders = self.images.get(&hash)?.holders.keys();
        let mut first = None;
        for tenant in holders {
            let failure = self.excess_of(tenant, hash)?;
            first.get_or_insert(failure);
        }
        first
    }

    /// Forgets images: whoever wants one again sends it again.
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

    /// Forgets those of these images that are not prepared yet and that no session waits for.
    fn give_up(&mut self, images: &[ModuleHash]) -> Vec<ModuleHash> {
        let unwanted = |hash: &&ModuleHash| {
            let image = self.images.get(*hash);
            image.is_some_and(|image| image.holders.is_empty() && image.is_preparing())
        };
        let gone: Vec<ModuleHash> = images.iter().filter(unwanted).copied().collect();
        self.forget(&gone);
        gone
    }

    /// Forgets images that no session has, those unused longest first, until the rest is within its
    /// bound.
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
