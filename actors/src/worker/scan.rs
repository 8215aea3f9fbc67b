//! A look at a slice's ops before the device gets them, when the modules and transfers that they use
//! are ready: what memory they need, and what they cost (which their client had to declare, or will
//! have to).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bus_schemas::limits::LAUNCH_BYTES;
use bus_schemas::{Code, CostRun, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, Tenant};
use device::{SMALL_LAUNCH, Slice};
use gpu_worker_core::pager::Need;
use gpu_worker_core::weights::{self, Touch};

use super::held::{Held, Staging};
use super::modules::{ModuleState, Modules};
use super::names::Module;

/// A transfer or a module that the slice uses is not ready yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotReady;

/// What was found in a slice.
pub(super) struct Scanned {
    /// The first op that must fail, and why.
    fail_at: Option<(OpNumber, Failure)>,
    /// Memory that its ops need, in op order.
    needs: Vec<Need>,
    /// What its ops do to large allocations, but for copies.
    touched: Vec<(OpNumber, Touch)>,
    /// Slots as it changes them.
    changed: Vec<(u32, Option<Arc<Module>>)>,
    /// Of copies: op, transfer and address.
    transfers: Vec<(OpNumber, u64, u64)>,
    sum: u64,
}

/// Looks through a slice that is the session's next one. The images that its tenant's sessions have
/// may take `most` bytes.
pub(super) fn scan(
    slice: &Slice,
    declared: Option<u64>,
    held: &Held,
    (modules, most): (&Modules, u64),
) -> Result<Scanned, NotReady> {
    let mut scan = Scan {
        tenant: &held.tenant,
        images: &held.images,
        modules,
        most,
        unsaid: Vec::new(),
        slots: &held.slots,
        changed: Vec::new(),
        last: None,
        wide: false,
        needs: Vec::new(),
        sum: 0,
        transfers: Vec::new(),
        touched: Vec::new(),
    };
    let mut fail_at = None;
    let ops = slice.spans.iter().flat_map(|span| span.ops().iter());
    for (number, op) in (slice.first..).zip(ops) {
        match scan.look(number, &op.op, &held.transfers) {
            Ok(()) => scan.touch(number, &op.op),
            Err(Stop::NotReady) => return Err(NotReady),
            Err(Stop::Fails(failure)) => {
                fail_at = Some((number, failure));
                break;
            }
        }
    }
    if fail_at.is_none() && declared.is_some_and(|declared| scan.sum != declared) {
        let why = "the ops are not the ones their client announced to the leader";
        fail_at = Some((slice.first, Failure::new(Code::Protocol, why)));
    }
    Ok(Scanned {
        fail_at,
        needs: scan.needs,
        touched: scan.touched,
        changed: scan.changed,
        transfers: scan.transfers,
        sum: scan.sum,
    })
}

impl Scanned {
    /// Takes the memory out that the slice's ops need, in op order.
    pub(super) fn take_needs(&mut self) -> Vec<Need> {
        std::mem::take(&mut self.needs)
    }

    /// The slice goes to the device: the transfers it uses move into it, and the session's slots are
    /// as behind it. Gives what its ops do to large allocations, in op order.
    pub(super) fn enter(self, slice: &mut Slice, held: &mut Held) -> Vec<(OpNumber, Touch)> {
        slice.fail_at = self.fail_at;
        held.declares(slice.first, self.sum);
        for (slot, module) in self.changed {
            let before = match module {
                Some(module) => {
                    held.loaded.push(module.hash());
                    held.slots.insert(slot, module)
                }
                None => held.slots.remove(&slot),
            };
            let left = before.map(|module| module.hash());
            let left = left.filter(|hash| !held.slots.values().any(|it| it.hash() == *hash));
            held.left.extend(left);
        }
        let mut touched = self.touched;
        for (number, transfer, address) in self.transfers {
            if let Some(Staging::Whole(staged)) = held.transfers.remove(&transfer) {
                let bytes = staged.len() as u64;
                if bytes >= weights::LEAST {
                    let fingerprint = staged.fingerprint();
                    let copied = Touch::Copied {
                        address,
                        bytes,
                        fingerprint,
                    };
                    touched.push((number, copied));
                }
                slice.transfers.push((transfer, staged));
            }
        }
        touched.sort_by_key(|(number, _)| *number);
        touched
    }
}

enum Stop {
    NotReady,
    Fails(Failure),
}

struct Scan<'a> {
    tenant: &'a Tenant,
    /// Images that the session was told of.
    images: &'a BTreeMap<ModuleHash, u32>,
    modules: &'a Modules,
    /// What the images of its tenant may take.
    most: u64,
    /// Images that it loads and was told nothing of.
    unsaid: Vec<ModuleHash>,
    slots: &'a HashMap<u32, Arc<Module>>,
    /// Slots as this slice changes them.
    changed: Vec<(u32, Option<Arc<Module>>)>,
    /// The last launch and what it declares: most launches are like the one before.
    last: Option<(Launch, u64)>,
    /// The last launch's blocks take more than any launch may.
    wide: bool,
    needs: Vec<Need>,
    sum: u64,
    /// Of copies: op, transfer and address.
    transfers: Vec<(OpNumber, u64, u64)>,
    touched: Vec<(OpNumber, Touch)>,
}

impl Scan<'_> {
    fn look(
        &mut self,
        number: OpNumber,
        op: &Op,
        transfers: &HashMap<u64, Staging>,
    ) -> Result<(), Stop> {
        match *op {
            Op::Launch(launch) => return self.launch(number, op, launch),
            Op::Alloc { address, bytes } => {
                self.needs.push(Need::Alloc {
                    op: number,
                    address,
                    bytes,
                });
                // What is left for a launch is not what it was.
                self.last = None;
            }
            Op::Free { address } => self.needs.push(Need::Free { address }),
            Op::CopyIn {
                transfer, bytes, ..
            } if transfer > 0 => match transfers.get(&transfer) {
                Some(Staging::Whole(staged)) if staged.len() as u64 == bytes => {}
                Some(Staging::Whole(staged)) => {
                    let why = format!(
                        "a copy of {bytes} bytes names a transfer of {}",
                        staged.len()
                    );
                    return Err(Stop::Fails(Failure::new(Code::Protocol, why)));
                }
                Some(_) => return Err(Stop::NotReady),
                None => {
                    // It was whole when the slice started: the session has failed since.
                    let why = format!("transfer {transfer} is gone with its session");
                    return Err(Stop::Fails(Failure::new(Code::SessionGone, why)));
                }
            },
            Op::LoadModule { slot, hash } => {
                let module = self.module(hash, transfers)?;
                self.may_have(hash)?;
                self.changed.push((slot, Some(module)));
                self.last = None;
            }
            Op::UnloadModule { slot } => {
                self.changed.push((slot, None));
                self.last = None;
            }
            _ => {}
        }
        let run = CostRun::of(op, KernelKey(0));
        self.sum = self.sum.wrapping_add(run.declared());
        Ok(())
    }

    /// Notes what an op does to a large allocation.
    fn touch(&mut self, number: OpNumber, op: &Op) {
        let touch = match *op {
            Op::Alloc { address, bytes } if bytes >= weights::LEAST => {
                Touch::Alloc { address, bytes }
            }
            Op::Free { address } => Touch::Free { address },
            Op::CopyIn {
                address, transfer, ..
            } if transfer > 0 => {
                self.transfers.push((number, transfer, address));
                return;
            }
            _ => return,
        };
        self.touched.push((number, touch));
    }

    fn module(
        &self,
        hash: ModuleHash,
        transfers: &HashMap<u64, Staging>,
    ) -> Result<Arc<Module>, Stop> {
        // Its client was told that all of it is here, and went on.
        let finishing = || {
            let mut transfers = transfers.values();
            transfers.any(|it| matches!(it, Staging::Finishing(image) if *image == hash))
        };
        match self.modules.state(self.tenant, hash) {
            Some(ModuleState::Ready(module)) => Ok(module),
            Some(ModuleState::Preparing) => Err(Stop::NotReady),
            Some(ModuleState::Refused(failure)) => Err(Stop::Fails(failure)),
            None if finishing() => Err(Stop::NotReady),
            None => {
                let why = format!("no image of module {hash} was sent to this worker");
                Err(Stop::Fails(Failure::new(Code::BadModule, why)))
            }
        }
    }

    /// A client may load what its tenant gave before without a word: then it is charged here.
    fn may_have(&mut self, hash: ModuleHash) -> Result<(), Stop> {
        if self.images.contains_key(&hash) || self.unsaid.contains(&hash) {
            return Ok(());
        }
        let denied = self
            .modules
            .denied(self.tenant, hash, &self.unsaid, self.most);
        self.unsaid.push(hash);
        denied.map_or(Ok(()), |failure| Err(Stop::Fails(failure)))
    }

    fn launch(&mut self, number: OpNumber, op: &Op, launch: Launch) -> Result<(), Stop> {
        if let Some((last, declared)) = self.last
            && last == launch
        {
            self.sum = self.sum.wrapping_add(declared);
            return Ok(());
        }
        let changed = self.changed.iter().rev();
        let module = match changed.clone().find(|(slot, _)| *slot == launch.module) {
            Some((_, module)) => module.as_ref(),
            None => self.slots.get(&launch.module),
        };
        let fingerprint =
            module.and_then(|m| Some((m, m.fingerprints.get(launch.function as usize)?)));
        let Some((module, fingerprint)) = fingerprint else {
            let why = format!(
                "module slot {} holds no function {}",
                launch.module, launch.function
            );
            return Err(Stop::Fails(Failure::new(Code::UnknownFunction, why)));
        };
        let key = fingerprint.key(launch.grid, launch.block, launch.shared);
        let names = &self.modules.names;
        names.note(key, || module.name(key, &launch));
        let block = module.blocks.get(launch.function as usize);
        let block = block.map_or(0, |block| block.of(&launch));
        let blocks = launch.grid.iter().map(|n| u64::from(*n));
        let blocks = blocks.fold(1, u64::saturating_mul).min(self.modules.blocks);
        let most = block.saturating_mul(blocks).min(LAUNCH_BYTES.max(block));
        let wide = most > SMALL_LAUNCH;
        if wide || self.wide {
            let (least, most) = if wide { (block, most) } else { (0, 0) };
            let op = number;
            self.needs.push(Need::Launch { op, least, most });
        }
        self.wide = wide;
        let declared = CostRun::of(op, key).declared();
        self.last = Some((launch, declared));
        self.sum = self.sum.wrapping_add(declared);
        Ok(())
    }
}
