//! A session as the dispatch sees it.

use bus_schemas::{Failure, Launch, ModuleHash, Op, SessionId};

use super::api::Buffers;
use super::sessions::Session;
use crate::dispatch::{ImageState, LaunchNeeds, ModuleBytes, SessionReader, TransferState};
use crate::{ImageTable, Sequencer};

pub(super) struct View<'a, B: Buffers> {
    pub(super) id: SessionId,
    pub(super) session: &'a Session,
    pub(super) images: &'a ImageTable<B::Module>,
    pub(super) sequencer: &'a Sequencer,
    pub(super) buffers: &'a B,
}

impl<B: Buffers> SessionReader for View<'_, B> {
    type Ops = B::Ops;
    type Module = B::Module;

    fn ops(&self, ops: &B::Ops) -> impl Iterator<Item = Op> {
        self.buffers.ops(ops).take_while(|_| B::SCANS)
    }

    fn transfer(&self, transfer: u64) -> TransferState {
        self.session.transfer(transfer)
    }

    fn fingerprint(&self, transfer: u64) -> Option<u64> {
        self.buffers.fingerprint(self.id, transfer)
    }

    fn image(&self, hash: ModuleHash) -> ImageState<B::Module> {
        match self.images.state(&self.session.tenant, hash) {
            // The worker acknowledged all of it, and the client went on.
            ImageState::Unknown if self.session.is_checking(hash) => ImageState::Preparing,
            state => state,
        }
    }

    fn has_image(&self, hash: ModuleHash) -> bool {
        self.images.has(self.id, hash)
    }

    fn denied(&self, hash: ModuleHash, others: &[ModuleHash]) -> Option<Failure> {
        let most = self.sequencer.modules_most(self.id);
        self.images.denied(&self.session.tenant, hash, others, most)
    }

    fn module_bytes(&self, module: &B::Module) -> ModuleBytes {
        self.buffers.module_bytes(module)
    }

    fn kernel(&self, module: &B::Module, launch: &Launch) -> Option<LaunchNeeds> {
        self.buffers.kernel(module, launch)
    }
}
