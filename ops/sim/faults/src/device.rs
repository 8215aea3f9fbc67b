//! A model device: it runs ops in virtual time, and its answers reveal the ops that it ran.

use std::collections::BTreeMap;

use bus_schemas::{
    Code, Failure, FunctionFingerprint, KernelKey, ModuleHash, Op, OpNumber, Parcel, ResultKind,
    write_descriptor,
};

use device::OpResult;
use gpu_worker_core::pager::GRANULE;

use crate::memory::{Cells, Memory, clear, write};
use sim_cluster::{MICRO, Nanos, SECOND, fingerprint, mix};

/// The function of a module that fails when launched on the device.
pub(crate) const FAULTY: u32 = 13;

/// The function of a module that runs long unless it is stopped.
pub(crate) const LONG: u32 = 12;

/// Duration of such a launch.
pub(crate) const LONG_TIME: Nanos = 30 * SECOND;

/// Fingerprint of an op: its descriptor, its stream, and the bytes that it carries or names.
#[must_use]
pub(crate) fn op_print(op: &Op, stream: u16, payload: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(48);
    write_descriptor(op, stream, 0, &mut bytes);
    mix(fingerprint(&bytes) ^ fingerprint(payload))
}

/// The key of a launch of this model's functions, which are named `f0`, `f1`, ….
#[must_use]
pub(crate) fn kernel_key(module: &ModuleHash, launch: &bus_schemas::Launch) -> KernelKey {
    FunctionFingerprint::new(module, &format!("f{}", launch.function)).key(
        launch.grid,
        launch.block,
        launch.shared,
    )
}

/// An op as a worker keeps it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptOp {
    /// The op.
    pub op: Op,
    /// Its stream.
    pub stream: u16,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A session on the device.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceSession {
    memory: Memory,
    slots: BTreeMap<u32, ModuleHash>,
    allocations: BTreeMap<u64, u64>,
    fault: Option<(OpNumber, Failure)>,
}

/// Results of a slice.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SliceRun {
    /// Ops that ran: number and fingerprint.
    pub ran: Vec<(OpNumber, u64)>,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// Answers.
    pub answers: Vec<OpResult>,
    /// The op that failed.
    pub fault: Option<(OpNumber, Failure)>,
    /// Launches: key, nanoseconds and SM-nanoseconds.
    pub launches: Vec<(KernelKey, u64, u64)>,
    /// SM-nanoseconds of the launches.
    pub sm_ns: u64,
    /// Maximum bytes that the session held meanwhile.
    pub peak: u64,
    /// Accesses: op, first address, bytes.
    pub touched: Vec<(OpNumber, u64, u64)>,
    /// Addresses of freed allocations.
    pub freed: Vec<u64>,
}

impl SliceRun {
    /// Stops the run `left` before its end; later ops have not run.
    pub(crate) fn stop(&mut self, left: Nanos, first: OpNumber, why: &Failure) {
        self.device_ns = self.device_ns.saturating_sub(left);
        self.answers.clear();
        self.fault.get_or_insert_with(|| (first, why.clone()));
        let mut time = self.device_ns;
        self.launches.retain_mut(|(_, launch, sm_ns)| {
            let ran = time.min(*launch);
            *sm_ns = *sm_ns / (*launch).max(1) * ran;
            (*launch, time) = (ran, time - ran);
            ran > 0
        });
        self.sm_ns = self.launches.iter().map(|(_, _, sm_ns)| sm_ns).sum();
    }
}

/// The surroundings of a slice on its device and worker.
pub(crate) struct Around<'a> {
    /// The bytes of its transfers.
    pub staged: &'a BTreeMap<u64, Vec<u8>>,
    /// The device's memory, shared by all sessions.
    pub cells: &'a mut Cells,
    /// Memory of other sessions that the session has imported: address and bytes.
    pub imports: &'a [(u64, u64)],
    /// An op that must fail when its turn comes, and the reason.
    pub fail_at: Option<&'a (OpNumber, Failure)>,
    /// True if addresses are not checked, as in a mutant.
    pub unchecked: bool,
}

/// SMs of a model device.
pub(crate) const SMS: u32 = 4;

impl DeviceSession {
    /// Bytes that it holds, each allocation rounded up.
    #[must_use]
    pub(crate) fn held(&self) -> u64 {
        let bytes = self.allocations.values();
        bytes.map(|bytes| bytes.next_multiple_of(GRANULE)).sum()
    }

    /// Runs ops from number `first` on.
    pub(crate) fn run(
        &mut self,
        first: OpNumber,
        ops: &[KeptOp],
        around: &mut Around<'_>,
    ) -> SliceRun {
        let mut run = SliceRun {
            peak: self.held(),
            ..SliceRun::default()
        };
        if let Some((_, failure)) = &self.fault {
            run.fault = Some((first, failure.clone()));
            return run;
        }
        for (number, kept) in (first..).zip(ops) {
            if run.fault.is_some() {
                break;
            }
            if let Err(failure) = self.op(number, kept, &mut run, around) {
                run.fault = Some((number, failure));
            }
        }
        self.fault.clone_from(&run.fault);
        run
    }

    fn op(
        &mut self,
        number: OpNumber,
        kept: &KeptOp,
        run: &mut SliceRun,
        around: &mut Around<'_>,
    ) -> Result<(), Failure> {
        if let Some((_, failure)) = around.fail_at.filter(|(op, _)| *op == number) {
            return Err(failure.clone());
        }
        for (address, bytes) in accesses(&kept.op) {
            let reaches = self.holds(address, bytes) || is_in(around.imports, address, bytes);
            if !around.unchecked && !reaches {
                let what = format!("{bytes} bytes at {address:#x} are not the session's");
                return Err(Failure::new(Code::IllegalAddress, what));
            }
            run.touched.push((number, address, bytes));
        }
        let key = key_of(&self.slots, &kept.op);
        let content = self.begin(kept, run, around)?;
        let time = duration(&kept.op, key);
        run.device_ns += time;
        if let Op::Launch(launch) = kept.op {
            let sm_ns = time * u64::from(launch.grid[0].min(SMS));
            run.launches.push((key, time, sm_ns));
            run.sm_ns += sm_ns;
        }
        let print = op_print(&kept.op, kept.stream, &content);
        write(around.cells, &kept.op, print);
        run.ran.push((number, print));
        self.memory.run(print);
        if kept.op.has_result() {
            let (kind, bytes) = match kept.op {
                Op::CopyOut { address, bytes } => {
                    let read = self.memory.with(around.cells, address).read(bytes);
                    (ResultKind::CopyOut, Some(Parcel::from(&read[..])))
                }
                _ => (ResultKind::Sync, None),
            };
            run.answers.push(OpResult {
                op: number,
                kind,
                bytes,
                printed: Vec::new(),
                device_ns: run.device_ns,
            });
        }
        Ok(())
    }
}

impl DeviceSession {
    /// Applies an op's effects, apart from its duration. Returns the bytes that it carries or names.
    fn begin(
        &mut self,
        kept: &KeptOp,
        run: &mut SliceRun,
        around: &mut Around<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let mut content = kept.payload.clone();
        match kept.op {
            Op::Alloc { address, bytes } => {
                self.allocations.insert(address, bytes);
                run.peak = run.peak.max(self.held());
            }
            Op::Free { address } => {
                let none = || Failure::new(Code::BadAddress, "nothing was allocated there");
                let bytes = self.allocations.remove(&address).ok_or_else(none)?;
                clear(around.cells, address, bytes);
                run.freed.push(address);
            }
            Op::CopyIn { transfer, .. } if transfer != 0 => {
                let none = || Failure::new(Code::Protocol, "no such transfer");
                content = around.staged.get(&transfer).cloned().ok_or_else(none)?;
            }
            Op::LoadModule { slot, hash } => {
                self.slots.insert(slot, hash);
            }
            Op::UnloadModule { slot } => {
                self.slots.remove(&slot);
            }
            Op::Launch(launch) if launch.function == FAULTY => {
                return Err(Failure::new(Code::IllegalAddress, "a model fault"));
            }
            Op::Launch(launch) if !self.slots.contains_key(&launch.module) => {
                return Err(Failure::new(
                    Code::UnknownFunction,
                    "no module in that slot",
                ));
            }
            _ => {}
        }
        Ok(content)
    }

    /// Applies an accepted close: no later op of the session runs.
    pub(crate) fn stop(&mut self, op: OpNumber, why: &Failure) {
        self.fault.get_or_insert_with(|| (op, why.clone()));
    }

    /// Bytes of the allocation that begins at an address.
    pub(crate) fn allocation(&self, address: u64) -> Option<u64> {
        self.allocations.get(&address).copied()
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        let below = self.allocations.range(..=address).next_back();
        below.is_some_and(|(start, length)| address - start + bytes <= *length)
    }
}

fn is_in(ranges: &[(u64, u64)], address: u64, bytes: u64) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|(start, size)| *start <= address && address.saturating_add(bytes) <= start + size)
}

/// The memory that an op reads or writes.
fn accesses(op: &Op) -> Vec<(u64, u64)> {
    match *op {
        Op::CopyIn { address, bytes, .. } | Op::CopyOut { address, bytes } => {
            vec![(address, bytes)]
        }
        Op::Set {
            address,
            count,
            width,
            ..
        } => vec![(address, count * u64::from(width))],
        Op::Copy { to, from, bytes } => vec![(from, bytes), (to, bytes)],
        _ => Vec::new(),
    }
}

fn key_of(slots: &BTreeMap<u32, ModuleHash>, op: &Op) -> KernelKey {
    match op {
        Op::Launch(launch) => slots
            .get(&launch.module)
            .map_or(KernelKey(0), |module| kernel_key(module, launch)),
        _ => KernelKey(0),
    }
}

/// Duration of an op. It follows from the op, and differs from the leader's estimate.
fn duration(op: &Op, key: KernelKey) -> Nanos {
    match *op {
        Op::Launch(launch) if launch.function == 0 => 3 * MICRO,
        Op::Launch(launch) if launch.function == LONG => LONG_TIME,
        Op::Launch(_) => 5 * MICRO + mix(key.0) % (120 * MICRO),
        Op::CopyIn { bytes, .. } | Op::Copy { bytes, .. } | Op::CopyOut { bytes, .. } => {
            2 * MICRO + bytes / 8
        }
        Op::Set { count, .. } => 2 * MICRO + count / 8,
        _ => MICRO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(op: Op) -> KeptOp {
        KeptOp {
            op,
            stream: 0,
            payload: vec![],
        }
    }

    #[test]
    fn what_must_fail_fails_the_session_for_good() {
        let sync = [kept(Op::Sync)];
        let run = |session: &mut DeviceSession, first, fail_at| {
            let mut around = Around {
                staged: &BTreeMap::new(),
                cells: &mut Cells::new(),
                imports: &[],
                fail_at,
                unchecked: false,
            };
            session.run(first, &sync, &mut around)
        };
        let mut session = DeviceSession::default();
        let honest = run(&mut session, 1, None);
        assert!(honest.fault.is_none());
        let fail_at = (2, Failure::new(Code::Protocol, "a lie"));
        let lied = run(&mut session, 2, Some(&fail_at));
        assert_eq!(lied.fault.as_ref(), Some(&fail_at));
        let later = run(&mut session, 3, None);
        assert!(later.ran.is_empty());
    }
}
