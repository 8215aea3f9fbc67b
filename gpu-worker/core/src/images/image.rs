//! One image, a tenant's charge, and the text of a refusal.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, Compilation, Failure, Tenant};

use crate::dispatch::ImageState;

/// An image that a tenant sent, or that is on its way.
#[derive(Debug)]
pub(super) struct Image<M> {
    /// Unknown until all of it has arrived.
    pub(super) state: ImageState<M>,
    /// Tenants that sent it.
    pub(super) given: BTreeSet<Tenant>,
    /// Tenants with sessions that have it, and the number of those sessions.
    pub(super) holders: BTreeMap<Tenant, u32>,
    /// Bytes that it takes, as far as known. Each of its holders is charged all of them.
    pub(super) bytes: u64,
    /// The value of [`super::ImageTable`]'s `ends` when a session last left it.
    pub(super) since: u64,
    /// The tenant that sent it first. The device prepares it for this tenant.
    pub(super) prepared_for: Option<Tenant>,
    /// Its compilation, until a slice of that tenant has loaded it.
    pub(super) compilation: Option<Compilation>,
}

impl<M> Default for Image<M> {
    fn default() -> Self {
        Self {
            state: ImageState::Unknown,
            given: BTreeSet::new(),
            holders: BTreeMap::new(),
            bytes: 0,
            since: 0,
            prepared_for: None,
            compilation: None,
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

/// The charge of a tenant's images, and its limit.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Number of images.
    pub(super) images: u64,
    pub(super) bytes: u64,
    pub(super) most: u64,
}

/// Returns the failure of a tenant that may not have an image.
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
