//! One image, what a tenant is charged, and the words of a refusal.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, Failure, Tenant};

use crate::dispatch::ImageState;

/// An image that somebody gave, or that is on its way.
#[derive(Debug)]
pub(super) struct Image<M> {
    /// Unknown until all of it is here.
    pub(super) state: ImageState<M>,
    /// Tenants that gave it.
    pub(super) given: BTreeSet<Tenant>,
    /// Tenants whose sessions have it, and how many of them do.
    pub(super) holders: BTreeMap<Tenant, u32>,
    /// What it takes, as far as that is known: each of its holders is charged all of it.
    pub(super) bytes: u64,
    /// When a session had it no more for the last time, in such ends.
    pub(super) since: u64,
}

impl<M> Default for Image<M> {
    fn default() -> Self {
        Self {
            state: ImageState::Unknown,
            given: BTreeSet::new(),
            holders: BTreeMap::new(),
            bytes: 0,
            since: 0,
        }
    }
}

impl<M> Image<M> {
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.state, ImageState::Unknown)
    }

    pub(super) fn is_preparing(&self) -> bool {
        matches!(self.state, ImageState::Preparing)
    }
}

/// What the images that a tenant's sessions have take, and what they may.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// How many.
    pub(super) images: u64,
    pub(super) bytes: u64,
    pub(super) most: u64,
}

/// Why a tenant's sessions may not have an image.
pub(super) fn too_much(tenant: &Tenant, used: u64, more: u64, most: u64) -> Failure {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (used, more, most) = (mib(used), mib(more), most >> 20);
    let why = format!(
        "the modules that the sessions of tenant {tenant} have on this worker take {used} MiB of the \
         {most} MiB that they may, and one more takes {more} MiB: unload some, or raise the limit with \
         `warploom tenant set {tenant} --modules SIZE`"
    );
    Failure::new(Code::ModuleShare, why)
}
