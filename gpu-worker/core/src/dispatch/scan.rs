//! The scan of a slice's ops before the device gets them, once the modules and transfers that they use are
//! ready. It finds the memory that they need and the sum that they declare, which their client had or will
//! have to declare too.

use bus_schemas::{Code, CostRun, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber};

use super::api::{
    ImageState, LaunchNeeds, Limits, ModuleBytes, SessionReader, StagedCopy, TransferState,
};
use super::slots::{ModuleSlot, Slot, Slots};
use crate::pager::{Need, VariableHolder};
use crate::sequencer::StartAction;
use crate::weights::{LEAST, Touch};

/// A transfer or a module that the slice uses is not ready yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotReady;

/// Result of the scan of a slice.
#[derive(Debug)]
pub(super) struct Scanned<M> {
    /// The first op that must fail, with the failure.
    pub(super) fail_at: Option<(OpNumber, Failure)>,
    /// Memory that its ops need, in op order.
    pub(super) needs: Vec<Need>,
    /// Changes of large allocations by its ops, except staged copies.
    pub(super) touched: Vec<(OpNumber, Touch)>,
    /// Slots that it changes, with their new content.
    pub(super) changed: Vec<(ModuleSlot, Option<Slot<M>>)>,
    pub(super) copies: Vec<StagedCopy>,
    /// Sum (wrapping) of [`CostRun::declared`] over its ops.
    pub(super) sum: u64,
}

impl<M> Default for Scanned<M> {
    fn default() -> Self {
        Self {
            fail_at: None,
            needs: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            copies: Vec::new(),
            sum: 0,
        }
    }
}

/// Scans a slice that is the session's next one; `slots` are the session's slots before it.
pub(super) fn scan<V: SessionReader>(
    (start, ops): (&StartAction, &V::Ops),
    view: &V,
    slots: Option<&Slots<V::Module>>,
    limits: &Limits,
) -> Result<Scanned<V::Module>, NotReady> {
    let mut scan = Scan {
        view,
        slots,
        limits,
        unsaid: Vec::new(),
        last: None,
        wide: false,
        found: Scanned::default(),
    };
    for (number, op) in (start.first..).zip(view.ops(ops)) {
        match scan.look(number, &op) {
            Ok(()) => scan.touch(number, &op),
            Err(Stop::NotReady) => return Err(NotReady),
            Err(Stop::Fails(failure)) => {
                scan.found.fail_at = Some((number, failure));
                break;
            }
        }
    }
    let mut found = scan.found;
    let lied = start.declared.is_some_and(|declared| found.sum != declared);
    if found.fail_at.is_none() && lied {
        let why = "the ops are not the ones their client announced to the leader";
        found.fail_at = Some((start.first, Failure::new(Code::Protocol, why)));
    }
    Ok(found)
}

enum Stop {
    NotReady,
    Fails(Failure),
}

fn fails(code: Code, why: String) -> Stop {
    Stop::Fails(Failure::new(code, why))
}

struct Scan<'a, V: SessionReader> {
    view: &'a V,
    /// The session's slots before this slice.
    slots: Option<&'a Slots<V::Module>>,
    limits: &'a Limits,
    /// Images that it loads without the client having got word of them.
    unsaid: Vec<ModuleHash>,
    /// The last launch and its [`CostRun::declared`]: most launches are like the one before.
    last: Option<(Launch, u64)>,
    /// True if the last launch's blocks take more than any launch may take without asking.
    wide: bool,
    found: Scanned<V::Module>,
}

impl<V: SessionReader> Scan<'_, V> {
    fn look(&mut self, number: OpNumber, op: &Op) -> Result<(), Stop> {
        match *op {
            Op::Launch(launch) => return self.launch(number, op, launch),
            Op::Alloc { address, bytes } => {
                self.found.needs.push(Need::Alloc {
                    op: number,
                    address,
                    bytes,
                });
                // The room left for a launch has changed.
                self.last = None;
            }
            Op::Free { address } => self.found.needs.push(Need::Free { address }),
            // A map takes no memory, and its end gives none back.
            Op::Move { to, from, .. } => self.found.needs.push(Need::Move { to, from }),
            Op::CopyIn {
                transfer, bytes, ..
            } if transfer > 0 => self.staged(transfer, bytes)?,
            Op::LoadModule { slot, hash } => {
                let module = self.module(hash)?;
                self.may_have(hash)?;
                self.load(number, slot, &module);
                self.change(ModuleSlot(slot), Some(Slot { hash, module }));
            }
            Op::UnloadModule { slot } => {
                if self.variables(slot) > 0 {
                    self.found.needs.push(Need::Unload { slot });
                }
                self.change(ModuleSlot(slot), None);
            }
            _ => {}
        }
        let run = CostRun::of(op, KernelKey(0));
        self.found.sum = self.found.sum.wrapping_add(run.declared());
        Ok(())
    }

    /// Adds the memory that a module takes while it is loaded.
    fn load(&mut self, op: OpNumber, slot: u32, module: &V::Module) {
        let ModuleBytes { variables, heap } = self.view.module_bytes(module);
        let need = |holder, bytes| Need::Load { op, holder, bytes };
        if variables > 0 || self.variables(slot) > 0 {
            let holder = VariableHolder::Slot(slot);
            self.found.needs.push(need(holder, variables));
        }
        if heap > 0 {
            self.found.needs.push(need(VariableHolder::Heap, heap));
        }
    }

    /// Bytes of the variables of a slot's module, as of the ops before.
    fn variables(&self, slot: u32) -> u64 {
        let slot = self.slot(ModuleSlot(slot));
        slot.map_or(0, |slot| self.view.module_bytes(&slot.module).variables)
    }

    fn change(&mut self, slot: ModuleSlot, to: Option<Slot<V::Module>>) {
        self.found.changed.push((slot, to));
        self.last = None;
    }

    /// Checks that a copy's bytes have arrived.
    fn staged(&self, transfer: u64, bytes: u64) -> Result<(), Stop> {
        match self.view.transfer(transfer) {
            TransferState::Whole(staged) if staged == bytes => Ok(()),
            TransferState::Whole(staged) => {
                let why = format!("a copy of {bytes} bytes names a transfer of {staged}");
                Err(fails(Code::Protocol, why))
            }
            TransferState::Coming => Err(Stop::NotReady),
            TransferState::Gone => {
                // The transfer was whole when the slice started: the session has failed since.
                let why = format!("transfer {transfer} is gone with its session");
                Err(fails(Code::SessionGone, why))
            }
        }
    }

    /// Notes what an op does to a large allocation.
    fn touch(&mut self, number: OpNumber, op: &Op) {
        let touch = match *op {
            Op::Alloc { address, bytes } if bytes >= LEAST => Touch::Alloc { address, bytes },
            Op::Free { address } => Touch::Free { address },
            // The data there is no weight any more: data that is moved is being worked on.
            Op::Move { from, .. } => Touch::Free { address: from },
            Op::CopyIn {
                address,
                transfer,
                bytes,
            } if transfer > 0 => {
                self.found.copies.push(StagedCopy {
                    op: number,
                    transfer,
                    address,
                    bytes,
                });
                return;
            }
            _ => return,
        };
        self.found.touched.push((number, touch));
    }

    fn module(&self, hash: ModuleHash) -> Result<V::Module, Stop> {
        match self.view.image(hash) {
            ImageState::Ready(module) => Ok(module),
            ImageState::Preparing => Err(Stop::NotReady),
            ImageState::Refused(failure) => Err(Stop::Fails(failure)),
            ImageState::Unknown => {
                let why = format!("no image of module {hash} was sent to this worker");
                Err(fails(Code::BadModule, why))
            }
        }
    }

    /// A client may load an image that its tenant sent before without a word from the worker. Then the
    /// session is charged here.
    fn may_have(&mut self, hash: ModuleHash) -> Result<(), Stop> {
        if self.view.has_image(hash) || self.unsaid.contains(&hash) {
            return Ok(());
        }
        let denied = self.view.denied(hash, &self.unsaid);
        self.unsaid.push(hash);
        denied.map_or(Ok(()), |failure| Err(Stop::Fails(failure)))
    }

    /// Returns the content of a slot as of the ops before.
    fn slot(&self, slot: ModuleSlot) -> Option<&Slot<V::Module>> {
        let mut changed = self.found.changed.iter().rev();
        match changed.find(|(changed, _)| *changed == slot) {
            Some((_, to)) => to.as_ref(),
            None => self.slots?.get(slot),
        }
    }

    fn launch(&mut self, number: OpNumber, op: &Op, launch: Launch) -> Result<(), Stop> {
        if let Some((last, declared)) = self.last
            && last == launch
        {
            self.found.sum = self.found.sum.wrapping_add(declared);
            return Ok(());
        }
        let slot = self.slot(ModuleSlot(launch.module));
        let kernel = slot.and_then(|slot| self.view.kernel(&slot.module, &launch));
        let Some(LaunchNeeds { key, block }) = kernel else {
            let why = format!(
                "module slot {} holds no function {}",
                launch.module, launch.function
            );
            return Err(fails(Code::UnknownFunction, why));
        };
        let blocks = launch.grid.iter().map(|n| u64::from(*n));
        let blocks = blocks.fold(1, u64::saturating_mul).min(self.limits.blocks);
        let most = block.saturating_mul(blocks);
        let most = most.min(self.limits.launch_bytes.max(block));
        let wide = most > self.limits.small_launch;
        if wide || self.wide {
            let (least, most) = if wide { (block, most) } else { (0, 0) };
            let op = number;
            self.found.needs.push(Need::Launch { op, least, most });
        }
        self.wide = wide;
        let declared = CostRun::of(op, key).declared();
        self.last = Some((launch, declared));
        self.found.sum = self.found.sum.wrapping_add(declared);
        Ok(())
    }
}
