//! Module images that tenants gave this worker, as the device knows them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use bus_schemas::{Code, Failure, ModuleHash, Tenant, limits};
use dashmap::{DashMap, DashSet};
use device::PreparedModule;
use gpu_worker_core::sequencer::ImageState;

use super::names::{Module, Names};

/// What became of an image.
#[derive(Debug, Clone)]
pub(super) enum ModuleState {
    /// The device is at it.
    Preparing,
    /// The device has it.
    Ready(Arc<Module>),
    /// The device cannot run it.
    Refused(Failure),
}

/// An image's state as the sequencer knows it.
pub(super) fn image_state(state: Option<&ModuleState>) -> ImageState<'_> {
    match state {
        None => ImageState::Unknown,
        Some(ModuleState::Preparing) => ImageState::Preparing,
        Some(ModuleState::Ready(_)) => ImageState::Ready,
        Some(ModuleState::Refused(failure)) => ImageState::Refused(failure),
    }
}

/// What images of which no session is left may take together.
const UNUSED: u64 = 256 << 20;
/// What an image takes beside the device's figure: its entries here.
const ENTRY: u64 = 1 << 10;

/// Why a tenant's sessions may not have an image.
fn too_much(tenant: &Tenant, used: u64, more: u64, most: u64) -> Failure {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (used, more, most) = (mib(used), mib(more), most >> 20);
    let why = format!(
        "the modules that the sessions of tenant {tenant} have on this worker take {used} MiB of the \
         {most} MiB that they may, and one more takes {more} MiB: unload some, or raise the limit with \
         `warploom tenant set {tenant} --modules SIZE`"
    );
    Failure::new(Code::ModuleShare, why)
}

/// Who uses an image.
#[derive(Debug, Default)]
struct Use {
    /// Tenants whose sessions have it, and how many of them do.
    holders: BTreeMap<Tenant, u32>,
    /// What it takes, as far as that is known: each of its holders is charged all of it.
    bytes: u64,
    /// When the last session that used it ended, in ends of sessions.
    since: u64,
}

/// What the images that a tenant's sessions have take, and what they may.
#[derive(Debug)]
struct Share {
    /// How many.
    images: u64,
    bytes: u64,
    most: u64,
}

/// Every image is decoded once, whoever gave it; a tenant may use those it gave itself. An image
/// stays while a session has it, and after that as long as there is room.
#[derive(Debug, Default)]
pub(super) struct Modules {
    given: DashSet<(Tenant, ModuleHash)>,
    states: DashMap<ModuleHash, ModuleState>,
    uses: BTreeMap<ModuleHash, Use>,
    shares: BTreeMap<Tenant, Share>,
    /// Ends of sessions so far.
    ends: u64,
    pub(super) names: Names,
}

impl Modules {
    /// Whether the tenant gave this image before.
    pub(super) fn is_given(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.contains(&(tenant.clone(), hash))
    }

    /// The tenant gave the image; whether the device must still be asked to prepare it.
    pub(super) fn give(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.insert((tenant.clone(), hash));
        let mut new = false;
        self.states.entry(hash).or_insert_with(|| {
            new = true;
            ModuleState::Preparing
        });
        new
    }

    /// The device has answered. An image that is too much for each of those whose sessions wait for it is
    /// refused; the answer that holds.
    pub(super) fn prepared(
        &mut self,
        hash: ModuleHash,
        answer: Result<PreparedModule, Failure>,
    ) -> Result<(), Failure> {
        let bytes = answer.as_ref().map_or(0, |info| info.bytes);
        self.weigh(hash, bytes + ENTRY);
        let info = match (answer, self.excess(hash)) {
            (Ok(_), Some(failure)) => {
                // It may fit later, so nothing is remembered of it.
                self.forget(&[hash]);
                return Err(failure);
            }
            (answer, _) => answer,
        };
        let answered = info.as_ref().map(drop).map_err(Clone::clone);
        let state = match info {
            Ok(info) => ModuleState::Ready(Arc::new(Module::new(hash, info))),
            Err(failure) => ModuleState::Refused(failure),
        };
        self.states.insert(hash, state);
        answered
    }

    /// An image takes so much: whose sessions have it is charged that.
    fn weigh(&mut self, hash: ModuleHash, bytes: u64) {
        let it = self.uses.entry(hash).or_default();
        let before = std::mem::replace(&mut it.bytes, bytes);
        for tenant in it.holders.keys() {
            if let Some(share) = self.shares.get_mut(tenant) {
                share.bytes = share.bytes.saturating_sub(before).saturating_add(bytes);
            }
        }
    }

    /// A session of the tenant, whose images may take `most` bytes, has the image from now on.
    pub(super) fn hold(&mut self, tenant: &Tenant, hash: ModuleHash, most: u64) {
        let it = self.uses.entry(hash).or_default();
        let share = self.shares.entry(tenant.clone()).or_insert(Share {
            images: 0,
            bytes: 0,
            most,
        });
        share.most = most;
        let sessions = it.holders.entry(tenant.clone()).or_default();
        *sessions += 1;
        if *sessions == 1 {
            share.images += 1;
            share.bytes = share.bytes.saturating_add(it.bytes);
        }
    }

    /// Whether a session of the tenant can have an image that its tenant gave before, beside others that
    /// it is about to be charged: why not.
    pub(super) fn denied(
        &self,
        tenant: &Tenant,
        hash: ModuleHash,
        others: &[ModuleHash],
        most: u64,
    ) -> Option<Failure> {
        let fresh = |hash: &ModuleHash| {
            let it = self.uses.get(hash)?;
            (!it.holders.contains_key(tenant)).then_some(it)
        };
        let it = fresh(&hash)?;
        let used = self.shares.get(tenant).map_or(0, |share| share.bytes);
        let more = others.iter().filter_map(fresh).map(|it| it.bytes);
        let used = more.fold(used, u64::saturating_add);
        let over = used.saturating_add(it.bytes) > most;
        over.then(|| too_much(tenant, used, it.bytes, most))
    }

    /// An image of so many bytes is here, whole. Why the tenant, whose session has it, may not have it.
    pub(super) fn admit(
        &mut self,
        tenant: &Tenant,
        hash: ModuleHash,
        bytes: u64,
    ) -> Result<(), Failure> {
        if !self.states.contains_key(&hash) {
            self.weigh(hash, bytes + ENTRY);
        }
        let (Some(it), Some(share)) = (self.uses.get(&hash), self.shares.get(tenant)) else {
            return Ok(());
        };
        match share.bytes > share.most {
            true => Err(too_much(
                tenant,
                share.bytes - it.bytes,
                it.bytes,
                share.most,
            )),
            false => Ok(()),
        }
    }

    /// Why an image is refused whose holders all have more than they may with it.
    fn excess(&self, hash: ModuleHash) -> Option<Failure> {
        let it = self.uses.get(&hash)?;
        let shares = it
            .holders
            .keys()
            .map(|tenant| (tenant, self.shares.get(tenant)));
        let mut first = None;
        for (tenant, share) in shares {
            let share = share.filter(|share| share.bytes > share.most)?;
            first.get_or_insert((tenant, share));
        }
        let (tenant, share) = first?;
        Some(too_much(
            tenant,
            share.bytes - it.bytes,
            it.bytes,
            share.most,
        ))
    }

    /// A session of the tenant that held these has ended, or was refused them.
    pub(super) fn release(&mut self, tenant: &Tenant, images: &[ModuleHash]) {
        self.ends += 1;
        for hash in images {
            let Some(it) = self.uses.get_mut(hash) else {
                continue;
            };
            it.since = self.ends;
            let bytes = it.bytes;
            let Some(sessions) = it.holders.get_mut(tenant) else {
                continue;
            };
            *sessions -= 1;
            if *sessions > 0 {
                continue;
            }
            it.holders.remove(tenant);
            if it.holders.is_empty() && !self.states.contains_key(hash) {
                self.uses.remove(hash);
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

    /// Forgets images: whoever wants one again sends it again.
    fn forget(&mut self, images: &[ModuleHash]) {
        for hash in images {
            self.states.remove(hash);
            let Some(it) = self.uses.remove(hash) else {
                continue;
            };
            for tenant in it.holders.keys() {
                self.uncharge(tenant, it.bytes);
            }
        }
        if !images.is_empty() {
            self.given.retain(|(_, hash)| !images.contains(hash));
        }
    }

    /// Images that the device is at.
    pub(super) fn preparing(&self) -> Vec<ModuleHash> {
        let states = self.states.iter();
        let preparing = states.filter(|it| matches!(**it, ModuleState::Preparing));
        let mut preparing: Vec<_> = preparing.map(|it| *it.key()).collect();
        preparing.sort_unstable();
        preparing
    }

    /// Forgets those of these images that are not prepared yet and that no session waits for: whoever
    /// wants one again sends it again.
    pub(super) fn give_up(&mut self, images: &[ModuleHash]) -> Vec<ModuleHash> {
        let unwanted = |hash: &&ModuleHash| {
            let waits = self
                .uses
                .get(*hash)
                .is_some_and(|it| !it.holders.is_empty());
            let state = self.states.get(*hash);
            !waits && state.is_some_and(|state| matches!(*state, ModuleState::Preparing))
        };
        let gone: Vec<ModuleHash> = images.iter().filter(unwanted).copied().collect();
        self.forget(&gone);
        gone
    }

    /// Forgets images that no session uses, those unused longest first, until the rest is within
    /// its bound: whoever wants one again sends it again.
    pub(super) fn surplus(&mut self) -> Vec<ModuleHash> {
        let unused = self.uses.iter().filter(|(hash, it)| {
            let state = self.states.get(hash);
            let settled = !state.is_some_and(|state| matches!(*state, ModuleState::Preparing));
            it.holders.is_empty() && settled
        });
        let mut unused: Vec<_> = unused
            .map(|(hash, it)| (it.since, *hash, it.bytes))
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

    /// What leaders should know: images that sessions have, and of those that none has the ones used
    /// last, each with all tenants that gave it.
    pub(super) fn images(&self) -> Vec<(Tenant, u64)> {
        let last = |hash: &ModuleHash| {
            let used = self.uses.get(hash);
            used.map(|it| (!it.holders.is_empty(), it.since))
        };
        let given = self.given.iter().filter_map(|it| {
            let (tenant, hash) = it.key();
            Some((Reverse(last(hash)?), *hash, tenant.clone()))
        });
        let mut given: Vec<_> = given.collect();
        given.sort_unstable();
        given.truncate(limits::IMAGES);
        let named = given
            .into_iter()
            .map(|(_, hash, tenant)| (tenant, hash.short()));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        named
    }

    /// What the tenant's image is; `None` if it never gave it.
    pub(super) fn state(&self, tenant: &Tenant, hash: ModuleHash) -> Option<ModuleState> {
        let given = self.is_given(tenant, hash);
        given.then(|| self.states.get(&hash).map(|state| state.clone()))?
    }
}

#[cfg(test)]
mod tests;
