//! A model device: it runs ops in virtual time and keeps, for each session, one number that says
//! all that ever ran there and in which order. The client keeps the same number for what it
//! submitted, so a copy to the host shows any op lost, doubled or out of order.

use std::collections::BTreeMap;

use bus_schemas::{
    Code, CostRun, Failure, FunctionFingerprint, KernelKey, ModuleHash, Op, OpNumber,
    write_descriptor,
};

use virtual_time::Random;
use virtual_time::{MICRO, Nanos};

/// The function of a module whose launch fails on the device.
pub(crate) const FAULTY: u32 = 13;

/// A step of a 64-bit mixing function.
#[must_use]
pub(crate) fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

/// A fingerprint of bytes.
#[must_use]
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut state = mix(bytes.len() as u64 ^ 0x5bd1_e995);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(word));
    }
    state
}

/// Fingerprint of an op: its descriptor, its stream and the bytes it carries or names.
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

/// The number that stands for a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Memory(u64);

impl Memory {
    /// After one more op.
    pub(crate) fn run(&mut self, print: u64) {
        self.0 = mix(self.0.rotate_left(1) ^ print);
    }

    /// What a copy to the host of `bytes` bytes gives now.
    #[must_use]
    pub(crate) fn read(&self, bytes: u64) -> Vec<u8> {
        let mut random = Random::new(self.0);
        let mut out = Vec::with_capacity(bytes as usize);
        while (out.len() as u64) < bytes {
            let left = bytes as usize - out.len();
            out.extend_from_slice(&random.draw().to_le_bytes()[..left.min(8)]);
        }
        out
    }
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
    unreported_ns: u64,
    fault: Option<(OpNumber, Failure)>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The op it answers.
    pub op: OpNumber,
    /// Bytes of a copy to the host; `None` for a sync.
    pub bytes: Option<Vec<u8>>,
    /// Device nanoseconds since the last answer.
    pub device_ns: u64,
}

/// How a slice ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SliceRun {
    /// What ran: number and fingerprint.
    pub ran: Vec<(OpNumber, u64)>,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// Answers.
    pub answers: Vec<Answer>,
    /// The op that failed.
    pub fault: Option<(OpNumber, Failure)>,
    /// Launches: key and nanoseconds.
    pub launches: Vec<(KernelKey, u64)>,
}

impl DeviceSession {
    /// Runs ops from number `first` on. `staged` gives the bytes of a transfer, `known` whether a
    /// module is in the tenant's cache.
    pub(crate) fn run(
        &mut self,
        first: OpNumber,
        ops: &[KeptOp],
        declared: u64,
        staged: &dyn Fn(u64) -> Option<Vec<u8>>,
        known: &dyn Fn(&ModuleHash) -> bool,
    ) -> SliceRun {
        let mut run = SliceRun::default();
        if let Some((_, failure)) = &self.fault {
            run.fault = Some((first, failure.clone()));
            return run;
        }
        if self.declared(ops) != declared {
            let failure = Failure::new(Code::Protocol, "the ops cost other than was declared");
            run.fault = Some((first, failure));
        }
        for (number, kept) in (first..).zip(ops) {
            if run.fault.is_some() {
                break;
            }
            if let Err(failure) = self.op(number, kept, &mut run, staged, known) {
                run.fault = Some((number, failure));
            }
        }
        self.fault.clone_from(&run.fault);
        run
    }

    fn declared(&self, ops: &[KeptOp]) -> u64 {
        let mut slots = self.slots.clone();
        ops.iter().fold(0_u64, |sum, kept| {
            if let Op::LoadModule { slot, hash } = kept.op {
                slots.insert(slot, hash);
            }
            sum.wrapping_add(CostRun::of(&kept.op, key_of(&slots, &kept.op)).declared())
        })
    }

    fn op(
        &mut self,
        number: OpNumber,
        kept: &KeptOp,
        run: &mut SliceRun,
        staged: &dyn Fn(u64) -> Option<Vec<u8>>,
        known: &dyn Fn(&ModuleHash) -> bool,
    ) -> Result<(), Failure> {
        let mut content = kept.payload.clone();
        let key = key_of(&self.slots, &kept.op);
        match kept.op {
            Op::Alloc { address, bytes } => {
                self.allocations.insert(address, bytes);
            }
            Op::Free { address } => {
                self.allocations
                    .remove(&address)
                    .ok_or_else(|| Failure::new(Code::BadAddress, "nothing was allocated there"))?;
            }
            Op::CopyIn { transfer, .. } if transfer != 0 => {
                content = staged(transfer)
                    .ok_or_else(|| Failure::new(Code::Protocol, "no such transfer"))?;
            }
            Op::LoadModule { slot, hash } => {
                if !known(&hash) {
                    return Err(Failure::new(Code::BadModule, "no such image"));
                }
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
        let time = duration(&kept.op, key);
        run.device_ns += time;
        self.unreported_ns += time;
        if matches!(kept.op, Op::Launch(_)) {
            run.launches.push((key, time));
        }
        let print = op_print(&kept.op, kept.stream, &content);
        run.ran.push((number, print));
        self.memory.run(print);
        if kept.op.has_result() {
            let bytes = match kept.op {
                Op::CopyOut { bytes, .. } => Some(self.memory.read(bytes)),
                _ => None,
            };
            run.answers.push(Answer {
                op: number,
                bytes,
                device_ns: std::mem::take(&mut self.unreported_ns),
            });
        }
        Ok(())
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

/// How long an op takes: fixed by what it is, and not what the leader guesses.
fn duration(op: &Op, key: KernelKey) -> Nanos {
    match *op {
        Op::Launch(launch) if launch.function == 0 => 3 * MICRO,
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
    fn memory_shows_order_loss_and_repetition() {
        let read = |prints: &[u64]| {
            let mut memory = Memory::default();
            prints.iter().for_each(|print| memory.run(*print));
            memory.read(20)
        };
        let right = read(&[1, 2, 3]);
        for wrong in [&[1, 2][..], &[1, 3, 2], &[1, 2, 2, 3], &[2, 3]] {
            assert_ne!(read(wrong), right);
        }
    }

    #[test]
    fn a_lie_and_a_fault_fail_the_session_for_good() {
        let sync = [kept(Op::Sync)];
        let none = |_: u64| None;
        let unknown = |_: &ModuleHash| false;
        let truth = CostRun::of(&Op::Sync, KernelKey(0)).declared();
        let mut session = DeviceSession::default();
        assert!(
            session
                .run(1, &sync, truth, &none, &unknown)
                .fault
                .is_none()
        );
        let lied = session.run(2, &sync, truth ^ 1, &none, &unknown);
        assert_eq!(
            lied.fault.map(|(op, failure)| (op, failure.code)),
            Some((2, Code::Protocol))
        );
        assert!(session.run(3, &sync, truth, &none, &unknown).ran.is_empty());
    }
}
