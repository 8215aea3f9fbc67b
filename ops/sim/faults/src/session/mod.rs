//! The model program: it pushes the steps that were drawn for it, and keeps a model of the device's memory,
//! by which it knows each answer.

mod ops;
mod shared;

use std::collections::VecDeque;

use bus_schemas::subject::ToWorker;
use bus_schemas::{
    Intent, IpcAnswer, KernelKey, MemoryAnswer, ModuleHash, Op, OpNumber, Opened, SessionId,
    decode, encode,
};
use client_agent_core::{Addresses, Outbox, OutboxSettings, PushError};
use sim_cluster::{
    ClientFact, ClientProgram, Habits, Io, MILLI, Nanos, NodeFact, ProgramProgress, Random,
};

use crate::asking::{Asking, Room};
use crate::device::{kernel_key, op_print};
use crate::exporting::Exporting;
use crate::memory::{Cells, Memory, clear, write};
use crate::offering::Offering;
use crate::program::{self, Conduct, FULL_WAIT, REQUEST_AGAIN, SLOTS, Step};

/// The execution of one session's program.
pub(crate) struct ModelProgram {
    nonce: u64,
    start: Nanos,
    devices: u32,
    conduct: Conduct,
    deadline: Nanos,
    steps: VecDeque<Step>,
    random: Random,
    session: SessionId,
    /// First address and size of the session's window.
    window: (u64, u64),
    addresses: Option<Addresses>,
    allocated: VecDeque<u64>,
    /// True if it asks its worker before it allocates.
    asks: bool,
    asking: Option<Asking>,
    offering: Option<Offering>,
    exporting: Exporting,
    modules: Vec<Option<ModuleHash>>,
    memory: Memory,
    cells: Cells,
    // Pending answers: op, the memory at that time, and the bytes of a copy to the host.
    awaited: VecDeque<(OpNumber, Memory, Option<u64>)>,
    not_before: Nanos,
}

impl ModelProgram {
    /// Makes a program that is about to ask for its session, with a random source of its own. `deadline` is
    /// the time for which it waits for a silent node; 0 means for ever.
    #[must_use]
    pub(crate) fn new(program: program::Program, deadline: Nanos, mut random: Random) -> Self {
        Self::by(random.draw(), program, deadline, random)
    }

    fn by(nonce: u64, program: program::Program, deadline: Nanos, random: Random) -> Self {
        Self {
            nonce,
            start: program.start,
            devices: program.devices,
            conduct: program.conduct,
            deadline,
            steps: program.steps.into(),
            random,
            session: SessionId(0),
            window: (0, 0),
            addresses: None,
            allocated: VecDeque::new(),
            asks: nonce.is_multiple_of(2),
            asking: None,
            offering: None,
            exporting: Exporting::default(),
            modules: vec![None; SLOTS as usize],
            memory: Memory::default(),
            cells: Cells::new(),
            awaited: VecDeque::new(),
            not_before: 0,
        }
    }

    fn base(&self) -> u64 {
        let first = self.allocated.front().copied();
        first.unwrap_or(self.window.0)
    }

    fn push(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        op: Op,
        stream: u16,
        (payload, content): (&[u8], Option<&[u8]>),
    ) -> Result<(), PushError> {
        let key = match &op {
            Op::Launch(launch) => self
                .modules
                .get(launch.module as usize)
                .and_then(Option::as_ref)
                .map_or(KernelKey(0), |module| kernel_key(module, launch)),
            _ => KernelKey(0),
        };
        let number = outbox.push(&op, stream, payload, key)?;
        let print = op_print(&op, stream, content.unwrap_or(payload));
        self.memory.run(print);
        write(&mut self.cells, &op, print);
        io.fact(ClientFact::Submitted {
            session: self.session,
            op: number,
            print,
            answered: op.has_result(),
            memory: match op {
                Op::Alloc { address, bytes } => Some((address, bytes)),
                Op::Free { address } => Some((address, 0)),
                _ => None,
            },
        });
        match op {
            Op::Sync => self.awaited.push_back((number, self.memory, None)),
            Op::CopyOut { address, bytes } => {
                let seen = self.memory.with(&self.cells, address);
                self.awaited.push_back((number, seen, Some(bytes)));
            }
            _ => {}
        }
        Ok(())
    }

    fn held(&self) -> u64 {
        self.addresses.as_ref().map_or(0, Addresses::held)
    }

    fn alloc(&mut self, io: &mut Io, outbox: &mut Outbox, bytes: u64) -> Result<(), PushError> {
        if !outbox.has_room() {
            return Err(PushError::Full);
        }
        let addresses = self.addresses.as_mut();
        let Some(Ok(address)) = addresses.map(|it| it.alloc(bytes)) else {
            return Ok(());
        };
        self.allocated.push_back(address);
        self.push(io, outbox, Op::Alloc { address, bytes }, 0, (&[], None))
    }

    fn free(&mut self, io: &mut Io, outbox: &mut Outbox) -> Result<(), PushError> {
        if !outbox.has_room() {
            return Err(PushError::Full);
        }
        // The first allocation stays: copies go there.
        if self.allocated.len() < 2 {
            return Ok(());
        }
        let Some(address) = self.allocated.remove(1) else {
            return Ok(());
        };
        match self.addresses.as_mut().map(|it| it.free(address)) {
            Some(Ok(bytes)) => clear(&mut self.cells, address, bytes),
            _ => io.fact(NodeFact::Broken {
                why: "an allocation that was given out cannot be freed".into(),
            }),
        }
        self.push(io, outbox, Op::Free { address }, 0, (&[], None))?;
        let held = self.held();
        if let Some(asking) = &mut self.asking {
            asking.freed(io.now, held, outbox.last());
        }
        Ok(())
    }

    fn staged(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        content: bytes::Bytes,
    ) -> Result<(), PushError> {
        if !outbox.has_room() {
            return Err(PushError::Full);
        }
        let transfer = outbox.stage(content.clone(), None)?;
        let op = Op::CopyIn {
            address: self.base(),
            bytes: content.len() as u64,
            transfer,
        };
        self.push(io, outbox, op, 0, (&[], Some(&content)))
    }

    fn load(
        &mut self,
        io: &mut Io,
        outbox: &mut Outbox,
        (slot, bytes, salt): (u32, u32, u64),
    ) -> Result<(), PushError> {
        if !outbox.has_room() {
            return Err(PushError::Full);
        }
        let (image, hash) = program::module(bytes, salt);
        outbox.stage(image, Some(hash))?;
        self.push(io, outbox, Op::LoadModule { slot, hash }, 0, (&[], None))?;
        self.modules[slot as usize] = Some(hash);
        Ok(())
    }
}

impl ClientProgram for ModelProgram {
    const HABITS: Habits = Habits {
        ask_again: REQUEST_AGAIN,
        linger: None,
        settling: Some(250 * MILLI),
    };

    fn nonce(&self) -> u64 {
        self.nonce
    }

    fn start(&self) -> Nanos {
        self.start
    }

    fn devices(&self) -> u32 {
        self.devices
    }

    fn is_doomed(&self) -> bool {
        self.conduct != Conduct::Honest
    }

    /// The same program without the steps that make it fail.
    fn on_another(&mut self, index: u64) -> Self {
        let harmless = self.steps.iter().filter(|step| !step.is_fatal());
        let program = program::Program {
            number: 0,
            start: self.start,
            conduct: Conduct::Honest,
            devices: self.devices,
            steps: harmless.copied().collect(),
        };
        let nonce = self.nonce.wrapping_add(index);
        Self::by(nonce, program, self.deadline, self.random.fork())
    }

    fn opened(&mut self, opened: &Opened) -> OutboxSettings {
        self.session = opened.session;
        self.window = (opened.window.base, opened.window.size);
        self.addresses = Some(Addresses::new(opened.window, opened.quota));
        OutboxSettings {
            deadline: match self.deadline {
                0 => Nanos::MAX,
                deadline => deadline,
            },
            ..OutboxSettings::new(opened.session, opened.epoch, opened.leader)
        }
    }

    fn step(&mut self, io: &mut Io, outbox: &mut Outbox) -> ProgramProgress {
        if io.now < self.not_before {
            return ProgramProgress::Rest(Some(self.not_before));
        }
        let Some(step) = self.steps.front().copied() else {
            return ProgramProgress::Rest(None);
        };
        if self.asks && self.asking.is_none() {
            self.asking = Some(Asking::new(io.now));
        }
        let held = self.held();
        if let (Step::Alloc(bytes), Some(asking)) = (step, &mut self.asking) {
            match asking.room(io.now, held, outbox.last(), bytes) {
                Room::Enough => {}
                Room::Asked => return ProgramProgress::Rest(None),
                // A program without its memory ends.
                Room::Refused => {
                    self.steps = [Step::Sync, Step::Wait, Step::Close].into();
                    return ProgramProgress::On;
                }
            }
        }
        let pushed = match step {
            Step::Wait if self.awaited.is_empty() => Ok(()),
            Step::Wait => return ProgramProgress::Rest(None),
            Step::Think(time) => {
                self.not_before = io.now + time;
                Ok(())
            }
            Step::Close => {
                self.steps.pop_front();
                return ProgramProgress::Close;
            }
            Step::Alloc(bytes) => self.alloc(io, outbox, bytes),
            Step::Free => self.free(io, outbox),
            Step::Staged(bytes) => {
                let content = program::staged_bytes(&mut self.random, bytes);
                self.staged(io, outbox, content)
            }
            Step::Peek => self.peek(io, outbox),
            Step::Offered { .. } | Step::Export(_) | Step::Import(_) | Step::GiveBack => {
                match self.with_worker(io, outbox, step) {
                    Ok(Some(progress)) => return progress,
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Step::Load { slot, bytes } => {
                let salt = self.random.draw();
                self.load(io, outbox, (slot, bytes, salt))
            }
            step => {
                let (op, stream, payload) = self.op(step);
                self.push(io, outbox, op, stream, (&payload, None))
            }
        };
        match pushed {
            Ok(()) => {
                self.steps.pop_front();
                ProgramProgress::On
            }
            Err(PushError::Full) => ProgramProgress::Rest(Some(io.now + FULL_WAIT)),
            Err(PushError::Failed(_) | PushError::Closed) => {
                self.steps.clear();
                ProgramProgress::Rest(None)
            }
            Err(PushError::Invalid(why)) => {
                io.fact(NodeFact::Broken { why: why.into() });
                self.steps.pop_front();
                ProgramProgress::On
            }
        }
    }

    fn is_done(&self) -> bool {
        self.steps.is_empty()
    }

    fn is_waiting(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn answered(&mut self, _: Nanos, op: OpNumber, bytes: &[u8]) -> bool {
        let awaited = self.awaited.pop_front();
        awaited.is_some_and(|(want, memory, size)| {
            want == op && bytes == size.map_or(Vec::new(), |size| memory.read(size))
        })
    }

    fn request(&mut self, now: Nanos) -> Option<(ToWorker, Vec<u8>)> {
        let asking = self.asking.as_mut();
        if let Some(request) = asking.and_then(|asking| asking.request(now)) {
            return Some((ToWorker::Memory, request));
        }
        let request = self.exporting.request(now)?;
        Some((ToWorker::Ipc, request))
    }

    fn next_request(&self) -> Option<Nanos> {
        let asking = self.asking.as_ref();
        let memory = asking.and_then(Asking::next_request);
        let requests = [memory, self.exporting.next_request()];
        requests.into_iter().flatten().min()
    }

    fn exchanged(&mut self, now: Nanos, answer: IpcAnswer) {
        self.exporting.answered(now, answer);
    }

    fn promised(&mut self, now: Nanos, after: OpNumber, answer: &MemoryAnswer) {
        let held = self.held();
        if let Some(asking) = &mut self.asking {
            asking.promised(now, held, after, answer);
        }
    }

    fn batch(&self, last: OpNumber, bytes: &[u8]) -> Option<Vec<u8>> {
        let mute = matches!(self.conduct, Conduct::Mute(from) if last >= from);
        (!mute).then(|| bytes.to_vec())
    }

    fn intent(&self, bytes: &[u8]) -> Vec<u8> {
        lied(self.conduct, bytes)
    }
}

/// A liar's intent: all its announced launches are of a kernel that it does not launch.
fn lied(conduct: Conduct, bytes: &[u8]) -> Vec<u8> {
    let Conduct::Liar(from) = conduct else {
        return bytes.to_vec();
    };
    let Ok(intent) = decode::<Intent<'_>>(bytes) else {
        return bytes.to_vec();
    };
    if intent.first + u64::from(intent.count) <= from {
        return bytes.to_vec();
    }
    let runs: Vec<_> = intent
        .runs
        .iter()
        .map(|mut run| {
            run.key = KernelKey(run.key.0 ^ 1);
            run
        })
        .collect();
    let mut packed = Vec::new();
    encode(&Intent {
        runs: bus_schemas::Column::pack(&runs, &mut packed),
        ..intent
    })
}
