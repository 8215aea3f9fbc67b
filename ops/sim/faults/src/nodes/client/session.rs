//! One session of a client: its outbox, its program's state, its model of the memory.

use client_agent_core::{Addresses, Outbox, OutboxSettings};

use super::*;
use crate::memory::{Cells, Memory, clear, write};
use crate::program::COPIED_FROM;
use crate::scene::SLOTS;

pub(super) struct Running {
    pub(super) opened: Opened,
    pub(super) outbox: Outbox,
    pub(super) addresses: Addresses,
    pub(super) allocated: VecDeque<u64>,
    pub(super) modules: Vec<Option<ModuleHash>>,
    pub(super) memory: Memory,
    pub(super) cells: Cells,
    // Answers awaited: op, the memory then, bytes of a copy to the host.
    pub(super) awaited: VecDeque<(OpNumber, Memory, Option<u64>)>,
    /// What came of copies that are not answered.
    pub(super) arrived: BTreeMap<OpNumber, Vec<u8>>,
    pub(super) not_before: Nanos,
    pub(super) failed: bool,
    pub(super) closing: bool,
}

pub(super) enum Progress {
    /// The step is done.
    On,
    /// The session is to be closed.
    Close,
    /// The step waits, until a time or for an answer.
    Rest(Option<Nanos>),
}

impl Running {
    /// A session that was just opened.
    pub(super) fn new(opened: Opened, deadline: Nanos) -> Self {
        let settings = OutboxSettings {
            deadline,
            ..OutboxSettings::new(opened.session, opened.epoch, opened.leader)
        };
        Self {
            outbox: Outbox::new(settings),
            addresses: Addresses::new(opened.window, opened.quota),
            allocated: VecDeque::new(),
            modules: vec![None; SLOTS as usize],
            memory: Memory::default(),
            cells: Cells::new(),
            awaited: VecDeque::new(),
            arrived: BTreeMap::new(),
            not_before: 0,
            failed: false,
            closing: false,
            opened,
        }
    }

    pub(super) fn step(
        &mut self,
        io: &mut Io,
        program: &mut VecDeque<Step>,
        random: &mut Random,
    ) -> Progress {
        if io.now < self.not_before {
            return Progress::Rest(Some(self.not_before));
        }
        let Some(step) = program.front() else {
            return Progress::Rest(None);
        };
        let pushed = match *step {
            Step::Wait if self.awaited.is_empty() => Ok(()),
            Step::Wait => return Progress::Rest(None),
            Step::Think(time) => {
                self.not_before = io.now + time;
                Ok(())
            }
            Step::Close => {
                program.pop_front();
                self.closing = true;
                let session = self.opened.session;
                io.fact(Fact::Closing { session });
                return Progress::Close;
            }
            Step::Alloc(bytes) => self.alloc(io, bytes),
            Step::Free => self.free(io),
            Step::Staged(bytes) => self.staged(io, program::staged_bytes(random, bytes)),
            Step::Load { slot, bytes } => self.load(io, slot, bytes, random.draw()),
            step => {
                let (op, stream, payload) = self.op(step);
                self.push(io, op, stream, &payload, None)
            }
        };
        match pushed {
            Ok(()) => {
                program.pop_front();
                Progress::On
            }
            Err(PushError::Full) => Progress::Rest(Some(io.now + FULL_WAIT)),
            Err(PushError::Failed(_) | PushError::Closed) => {
                program.clear();
                Progress::Rest(None)
            }
            Err(PushError::Invalid(why)) => {
                io.fact(Fact::Broken { why: why.into() });
                program.pop_front();
                Progress::On
            }
        }
    }

    fn base(&self) -> u64 {
        let first = self.allocated.front().copied();
        first.unwrap_or(self.opened.window.base)
    }

    /// What a step pushes: the op, its stream, its payload.
    fn op(&self, step: Step) -> (Op, u16, Vec<u8>) {
        let address = self.base();
        match step {
            Step::Launch {
                function,
                grid,
                stream,
                fill,
            } => {
                let launch = Launch {
                    module: 0,
                    function,
                    grid: [grid, 1, 1],
                    block: [32, 1, 1],
                    shared: 0,
                };
                (Op::Launch(launch), stream, vec![fill; 16])
            }
            Step::CopyIn {
                bytes,
                fill,
                stream,
            } => {
                let op = Op::CopyIn {
                    address,
                    bytes: u64::from(bytes),
                    transfer: 0,
                };
                (op, stream, vec![fill; usize::from(bytes)])
            }
            Step::Set {
                count,
                value,
                stream,
            } => {
                let op = Op::Set {
                    address,
                    count,
                    value,
                    width: 1,
                };
                (op, stream, vec![])
            }
            Step::Event { event, stream } => {
                let timed = false;
                (Op::Event { event, timed }, stream, vec![])
            }
            Step::Copy { bytes, stream } => {
                let op = Op::Copy {
                    to: address,
                    from: address + COPIED_FROM,
                    bytes,
                };
                (op, stream, vec![])
            }
            Step::Read(bytes) => (Op::CopyOut { address, bytes }, 0, vec![]),
            Step::Trespass { write, next } => {
                let size = self.opened.window.size;
                let address = match next {
                    true => address.wrapping_add(size),
                    false => address.wrapping_sub(size),
                };
                let bytes = 8;
                let read = Op::CopyOut { address, bytes };
                let transfer = 0;
                let op = Op::CopyIn {
                    address,
                    bytes,
                    transfer,
                };
                match write {
                    true => (op, 0, vec![0xee; 8]),
                    false => (read, 0, vec![]),
                }
            }
            // The others are no single op, and carried out where they are met.
            _ => (Op::Sync, 0, vec![]),
        }
    }

    fn push(
        &mut self,
        io: &mut Io,
        op: Op,
        stream: u16,
        payload: &[u8],
        content: Option<&[u8]>,
    ) -> Result<(), PushError> {
        let key = match &op {
            Op::Launch(launch) => self
                .modules
                .get(launch.module as usize)
                .and_then(Option::as_ref)
                .map_or(KernelKey(0), |module| kernel_key(module, launch)),
            _ => KernelKey(0),
        };
        let number = self.outbox.push(&op, stream, payload, key)?;
        let print = op_print(&op, stream, content.unwrap_or(payload));
        self.memory.run(print);
        write(&mut self.cells, &op, print);
        io.fact(Fact::Submitted {
            session: self.opened.session,
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

    fn alloc(&mut self, io: &mut Io, bytes: u64) -> Result<(), PushError> {
        if !self.outbox.has_room() {
            return Err(PushError::Full);
        }
        let Ok(address) = self.addresses.alloc(bytes) else {
            return Ok(());
        };
        self.allocated.push_back(address);
        self.push(io, Op::Alloc { address, bytes }, 0, &[], None)
    }

    fn free(&mut self, io: &mut Io) -> Result<(), PushError> {
        if !self.outbox.has_room() {
            return Err(PushError::Full);
        }
        // The first allocation stays: copies go there.
        if self.allocated.len() < 2 {
            return Ok(());
        }
        let Some(address) = self.allocated.remove(1) else {
            return Ok(());
        };
        match self.addresses.free(address) {
            Ok(bytes) => clear(&mut self.cells, address, bytes),
            Err(_) => io.fact(Fact::Broken {
                why: "an allocation that was given out cannot be freed".into(),
            }),
        }
        self.push(io, Op::Free { address }, 0, &[], None)
    }

    fn staged(&mut self, io: &mut Io, content: bytes::Bytes) -> Result<(), PushError> {
        if !self.outbox.has_room() {
            return Err(PushError::Full);
        }
        let transfer = self.outbox.stage(content.clone(), None)?;
        let op = Op::CopyIn {
            address: self.base(),
            bytes: content.len() as u64,
            transfer,
        };
        self.push(io, op, 0, &[], Some(&content))
    }

    fn load(&mut self, io: &mut Io, slot: u32, bytes: u32, salt: u64) -> Result<(), PushError> {
        if !self.outbox.has_room() {
            return Err(PushError::Full);
        }
        let (image, hash) = program::module(bytes, salt);
        self.outbox.stage(image, Some(hash))?;
        self.push(io, Op::LoadModule { slot, hash }, 0, &[], None)?;
        self.modules[slot as usize] = Some(hash);
        Ok(())
    }

    /// Carries actions out; true once the session has ended.
    pub(super) fn carry_out(
        &mut self,
        io: &mut Io,
        subjects: &Subjects,
        tenant: &Tenant,
        conduct: Conduct,
        actions: Vec<Action>,
    ) -> bool {
        let session = self.opened.session;
        let worker = |what| subjects.to_worker(tenant, self.opened.incarnation, session, what);
        let mut over = false;
        for action in actions {
            match action {
                Action::PublishBatch { bytes, last, .. } => {
                    let mute = matches!(conduct, Conduct::Mute(from) if last >= from);
                    if !mute {
                        io.publish(worker(ToWorker::Batch), bytes.to_vec());
                    }
                }
                Action::PublishIntent { bytes } => {
                    let subject = subjects.to_leader(tenant, ToLeader::Intent(session));
                    io.publish(subject, lied(conduct, &bytes));
                }
                Action::PublishState { bytes } => {
                    io.publish(worker(ToWorker::State), bytes.to_vec());
                }
                Action::PublishChunk {
                    transfer,
                    offset,
                    len,
                } => {
                    if let Some(bytes) = self.outbox.chunk(transfer, offset, len) {
                        io.publish(worker(ToWorker::Data), bytes.to_vec());
                    }
                }
                Action::PublishClose { bytes } => {
                    let reply = subjects.to_client(tenant, session, ToClient::Leader);
                    let subject = subjects.to_leader(tenant, ToLeader::Close);
                    io.request(subject, reply, bytes.to_vec());
                }
                Action::Part { op, offset, bytes } => {
                    let whole = self.arrived.entry(op).or_default();
                    let (start, end) = (offset as usize, offset as usize + bytes.len());
                    whole.resize(whole.len().max(end), 0);
                    whole[start..end].copy_from_slice(&bytes);
                }
                Action::Result { op, bytes, .. } => {
                    let bytes = self.arrived.remove(&op).unwrap_or(bytes);
                    let right = self
                        .awaited
                        .pop_front()
                        .is_some_and(|(want, memory, size)| {
                            want == op && bytes == size.map_or(Vec::new(), |size| memory.read(size))
                        });
                    io.fact(Fact::Answered { session, op, right });
                }
                Action::Failed { op, failure } => {
                    self.failed = true;
                    io.fact(Fact::Failed {
                        session,
                        op,
                        failure,
                    });
                }
                Action::Image { refused, .. } => {
                    if refused.is_some() {
                        let why = "an image that is none was refused".into();
                        io.fact(Fact::Broken { why });
                    }
                }
                Action::Ended => {
                    over = true;
                    io.fact(Fact::Ended { session });
                }
            }
        }
        over
    }
}

/// A liar's intent: all launches it announces are of a kernel that it does not launch.
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
