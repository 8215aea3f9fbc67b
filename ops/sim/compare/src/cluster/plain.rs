//! What the dispatch reads of the sessions compared here: that there is nothing to read.

use bus_schemas::{Failure, Launch, ModuleHash, Op};
use gpu_worker_core::dispatch::{ImageState, LaunchNeeds, Limits, SessionReader, TransferState};

use super::place::SMS;
use super::slices::Slice;

/// Launches take no memory.
pub(super) const LIMITS: Limits = Limits {
    blocks: SMS as u64,
    small_launch: 0,
    launch_bytes: 0,
};

/// A session as the dispatch reads it. Kernels are launched here without modules, memory or lies:
/// there is nothing in a slice to look at, and only the order of handing on is decided.
pub(super) struct Plain;

impl SessionReader for Plain {
    type Ops = Slice;
    type Module = ();

    fn ops(&self, _: &Slice) -> impl Iterator<Item = Op> {
        std::iter::empty()
    }

    fn transfer(&self, _: u64) -> TransferState {
        TransferState::Gone
    }

    fn fingerprint(&self, _: u64) -> Option<u64> {
        None
    }

    fn image(&self, _: ModuleHash) -> ImageState<()> {
        ImageState::Unknown
    }

    fn has_image(&self, _: ModuleHash) -> bool {
        false
    }

    fn denied(&self, _: ModuleHash, _: &[ModuleHash]) -> Option<Failure> {
        None
    }

    fn kernel(&self, (): &(), _: &Launch) -> Option<LaunchNeeds> {
        None
    }
}
