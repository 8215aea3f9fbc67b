//! Mutants: nodes with an error, to show that the checkers detect it.

mod kind;
mod record;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bus_schemas::subject::Author;
use bus_schemas::{
    Chain, Code, Column, Done, Drain, Epoch, ExportPlace, GpuPosition, GrantBatch, GrantKind,
    HeldChunks, Incarnation, IpcAnswer, LeaderId, LeaderNotice, Leave, OpenAnswer, Outcome,
    SealAnswer, SealReply, Status, StatusRequest, Tenant, Usage, WorkerAck, WorkerBeat, decode,
    encode,
};

use scheduler_leader_core::Placement;
use sim_cluster::wire::{pack, unpack};
use sim_cluster::{
    Connection, Io, MILLI, Nanos, Node, NodeEffect, NodeFact, NodeInput, Packet, StoreReply,
    StoreRequest, WorkerFact,
};

pub use kind::Mutant;

use self::record::bend_gaps;
use crate::placement_scenes::group_of;

/// Delay of late appends.
const LATE: Nanos = 300 * MILLI;

/// A mutant of a node.
pub(crate) struct Mutated {
    inner: Box<dyn Node>,
    mutant: Mutant,
    sealed: Option<(Epoch, LeaderId)>,
    held: Option<NodeFact>,
    seen: BTreeMap<&'static str, u64>,
    /// The term of its last grant batches.
    term: Option<(Epoch, LeaderId)>,
    /// Workers that it is to drain.
    drained: BTreeSet<Incarnation>,
    /// Positions that open a session.
    opens: BTreeSet<GpuPosition>,
    /// An additional effect.
    extra: Option<NodeEffect>,
    /// Delayed appends, each with its time.
    late: VecDeque<(Nanos, NodeEffect)>,
}

impl Mutated {
    /// Makes a mutant of a node.
    #[must_use]
    pub(crate) fn new(inner: Box<dyn Node>, mutant: Mutant) -> Self {
        Self {
            inner,
            mutant,
            sealed: None,
            held: None,
            seen: BTreeMap::new(),
            term: None,
            drained: BTreeSet::new(),
            opens: BTreeSet::new(),
            extra: None,
            late: VecDeque::new(),
        }
    }

    fn nth(&mut self, what: &'static str) -> u64 {
        let count = self.seen.entry(what).or_default();
        *count += 1;
        *count
    }

    fn bend_input(&mut self, input: NodeInput) -> NodeInput {
        match (self.mutant, input) {
            (Mutant::IgnoresDrains | Mutant::DismissesAtOnce, NodeInput::Message(packet))
                if packet.subject.ends_with(".ctl.drain") =>
            {
                NodeInput::Message(self.bend_drain(packet))
            }
            (
                mutant @ (Mutant::SharesExclusive | Mutant::RefusesPlaces),
                NodeInput::Message(mut packet),
            ) => {
                if packet.subject.contains(".l.worker.")
                    && let Ok(beat) = decode::<WorkerBeat>(&packet.bytes)
                {
                    packet.bytes = encode(&bend_beat(mutant, beat)).into();
                }
                NodeInput::Message(packet)
            }
            (Mutant::ForgetsDrains, NodeInput::Store(token, reply)) => {
                NodeInput::Store(token, bend_placement(reply))
            }
            (Mutant::ForgetsDrains, NodeInput::Placement(reply)) => {
                NodeInput::Placement(bend_placement(reply))
            }
            (Mutant::BelievesNames, NodeInput::Closed(closed)) => {
                let (name, author) = (closed.name.clone(), Author::Cluster);
                NodeInput::Closed(Rc::new(Connection { name, author }))
            }
            (Mutant::MisreportsOpens, NodeInput::Message(packet)) => {
                if packet.subject.ends_with(".order")
                    && let Ok(order) = decode::<GrantBatch<'_>>(&packet.bytes)
                {
                    let grants = (order.first..).zip(order.grants.iter());
                    let opens = grants.filter(|(_, grant)| grant.kind == GrantKind::Open);
                    self.opens.extend(opens.map(|(position, _)| position));
                }
                NodeInput::Message(packet)
            }
            (_, input) => self.bend_order(input),
        }
    }

    fn bend_drain(&mut self, mut packet: Packet) -> Packet {
        let (Ok(drain), Some(within)) = (
            decode::<Drain>(&packet.bytes),
            packet.subject.strip_suffix(".ctl.drain"),
        ) else {
            return packet;
        };
        let worker = drain.incarnation;
        if self.mutant == Mutant::DismissesAtOnce {
            let leave = self.term.filter(|_| drain.draining);
            self.extra = leave.map(|(epoch, leader)| NodeEffect::Publish {
                subject: format!("{within}.w.{worker}.leave").into(),
                reply: None,
                bytes: encode(&Leave {
                    noted: false,
                    taken: false,
                    v: drain.v,
                    epoch,
                    leader,
                }),
            });
            return packet;
        }
        match drain.draining {
            true => self.drained.insert(worker),
            false => self.drained.remove(&worker),
        };
        let request = StatusRequest { v: drain.v };
        packet.subject = format!("{within}.ctl.status").into();
        packet.bytes = encode(&request).into();
        packet
    }

    fn bend_order(&self, input: NodeInput) -> NodeInput {
        let (NodeInput::Message(mut packet), Some((epoch, leader))) = (input.clone(), self.sealed)
        else {
            return input;
        };
        if self.mutant != Mutant::IgnoresEpochs || !packet.subject.ends_with(".order") {
            return input;
        }
        if let Ok(order) = decode::<GrantBatch<'_>>(&packet.bytes) {
            let rows: Vec<_> = order
                .grants
                .iter()
                .map(|mut grant| {
                    grant.epoch = epoch;
                    grant
                })
                .collect();
            let mut packed = Vec::new();
            let bent = GrantBatch {
                epoch,
                leader,
                grants: Column::pack(&rows, &mut packed),
                ..order.clone()
            };
            packet.bytes = encode(&bent).into();
        }
        NodeInput::Message(packet)
    }

    fn bend(&mut self, effect: NodeEffect, out: &mut Vec<NodeEffect>) {
        match (self.mutant, effect) {
            (
                Mutant::RunsTwice,
                NodeEffect::Fact(fact @ NodeFact::Worker(_, WorkerFact::Ran { .. })),
            ) => {
                let twice = self.nth("ran") == 40;
                out.extend(twice.then(|| NodeEffect::Fact(fact.clone())));
                out.push(NodeEffect::Fact(fact));
            }
            (
                Mutant::SkipsAnOp,
                NodeEffect::Fact(fact @ NodeFact::Worker(_, WorkerFact::Ran { .. })),
            ) => {
                let skipped = self.nth("ran") == 40;
                out.extend((!skipped).then_some(NodeEffect::Fact(fact)));
            }
            (
                Mutant::SwapsStarts,
                NodeEffect::Fact(fact @ NodeFact::Worker(_, WorkerFact::Started { .. })),
            ) => match self.held.take() {
                Some(held) => out.extend([fact, held].map(NodeEffect::Fact)),
                None if self.nth("started") == 5 => self.held = Some(fact),
                None => out.push(NodeEffect::Fact(fact)),
            },
            (
                mutant @ (Mutant::ForgetsMoves | Mutant::ForgetsUnsent),
                NodeEffect::Fact(NodeFact::Worker(worker, WorkerFact::UsageCut { mut block })),
            ) => {
                for row in &mut block.moves {
                    match mutant {
                        Mutant::ForgetsMoves => row.moves.ins = 0,
                        _ => row.moves.unsent_bytes = 0,
                    }
                }
                let fact = NodeFact::Worker(worker, WorkerFact::UsageCut { block });
                out.push(NodeEffect::Fact(fact));
            }
            (
                mutant @ (Mutant::HidesGaps | Mutant::NamesTooLittle | Mutant::GivesNoReason),
                NodeEffect::Store(token, StoreRequest::Append { subject, id, bytes }),
            ) => {
                let bytes = bend_gaps(&bytes, mutant);
                let request = StoreRequest::Append { subject, id, bytes };
                out.push(NodeEffect::Store(token, request));
            }
            (
                _,
                NodeEffect::Publish {
                    subject,
                    reply,
                    bytes,
                },
            ) => {
                if let Some(bytes) = self.bend_message(&subject, bytes) {
                    out.push(NodeEffect::Publish {
                        subject,
                        reply,
                        bytes,
                    });
                }
            }
            (_, effect) => out.push(effect),
        }
    }

    /// Reports positions of open grants as gone.
    fn bend_opens(&self, done: &Done<'_>) -> Vec<u8> {
        let reports = done.reports.iter().map(|mut report| {
            if self.opens.contains(&report.position) {
                report.outcome = Outcome::Gone;
            }
            report
        });
        let (reports, mut packed) = (reports.collect::<Vec<_>>(), Vec::new());
        encode(&Done {
            reports: Column::pack(&reports, &mut packed),
            ..done.clone()
        })
    }

    /// Changes a sent message; `None` drops it.
    fn bend_message(&mut self, subject: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if let Ok(reply) = decode::<SealReply>(&bytes)
            && let Some(answer) = reply.sealed.clone()
        {
            self.sealed = Some((answer.epoch, answer.leader));
            return Some(self.bend_seal(reply, answer).unwrap_or(bytes));
        }
        if subject.contains(".l.done.") {
            return self.bend_done(bytes);
        }
        let bent = match self.mutant {
            Mutant::DismissesAtOnce | Mutant::InventsOps if subject.ends_with(".order") => {
                self.bend_orders(&bytes)
            }
            Mutant::IgnoresDrains if subject.ends_with(".administrator") => {
                self.bend_status(&bytes)
            }
            Mutant::LosesADevice | Mutant::RepeatsADevice if subject.contains(".dn.inbox.") => {
                bend_answer(self.mutant, &bytes)
            }
            Mutant::BlamesDevices if subject.ends_with(".leader") => bend_notice(&bytes),
            Mutant::InventsExports if subject.ends_with(".ipc") => bend_exchange(&bytes),
            Mutant::ClaimsChunks if subject.ends_with(".worker") => bend_held(&bytes),
            Mutant::ForgetsUse if subject.contains(".s.usage.") => bend_usage(&bytes),
            _ => None,
        };
        Some(bent.unwrap_or(bytes))
    }

    fn bend_seal(&self, reply: SealReply, mut answer: SealAnswer) -> Option<Vec<u8>> {
        let forgets = matches!(self.mutant, Mutant::ForgetsNames | Mutant::ForgetsTail);
        forgets.then(|| {
            answer.named.clear();
            if self.mutant == Mutant::ForgetsTail {
                answer.tail.clear();
            }
            let sealed = Some(answer);
            encode(&SealReply { sealed, ..reply })
        })
    }

    fn bend_status(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut status = decode::<Status>(bytes).ok()?;
        for worker in &mut status.workers {
            worker.draining |= self.drained.contains(&worker.incarnation);
        }
        Some(encode(&status))
    }

    /// Changes a worker's reports; `None` drops them.
    fn bend_done(&self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let bent = match (self.mutant, decode::<Done<'_>>(&bytes)) {
            (Mutant::NeverReports, _) => return None,
            (Mutant::WrongChain, Ok(mut done)) if done.accepted > 3 => {
                done.chain = Chain::default();
                Some(encode(&done))
            }
            (Mutant::MisreportsOpens, Ok(done)) => Some(self.bend_opens(&done)),
            _ => None,
        };
        Some(bent.unwrap_or(bytes))
    }

    fn bend_orders(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let order = decode::<GrantBatch<'_>>(bytes).ok()?;
        if self.mutant == Mutant::DismissesAtOnce {
            self.term = Some((order.epoch, order.leader));
            return None;
        }
        let rows = order.grants.iter().map(|mut grant| {
            grant.last += if grant.last > 0 { 1_000_000 } else { 0 };
            grant
        });
        let (rows, mut packed) = (rows.collect::<Vec<_>>(), Vec::new());
        let grants = Column::pack(&rows, &mut packed);
        Some(encode(&GrantBatch {
            grants,
            ..order.clone()
        }))
    }
}

fn bend_answer(mutant: Mutant, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut answer = decode::<OpenAnswer>(bytes).ok()?;
    let (first, mut last) = (answer.opened.as_ref()?.incarnation, answer.others.pop()?);
    if mutant == Mutant::RepeatsADevice {
        last.incarnation = first;
        answer.others.push(last);
    }
    Some(encode(&answer))
}

fn bend_notice(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut notice = decode::<LeaderNotice>(bytes).ok()?;
    notice.ended.as_mut()?.code = Code::DeviceLost;
    Some(encode(&notice))
}

/// Answers a request about shared memory as if every key had an export.
fn bend_exchange(bytes: &[u8]) -> Option<Vec<u8>> {
    let answer = decode::<IpcAnswer>(bytes).ok()?;
    let place = ExportPlace {
        bytes: 4096,
        before: 0,
        span: 4096,
    };
    answer.failure.is_some().then(|| {
        encode(&IpcAnswer {
            place: Some(place),
            failure: None,
            ..answer
        })
    })
}

/// Claims the first chunk of each transfer that an acknowledgement answers.
fn bend_held(bytes: &[u8]) -> Option<Vec<u8>> {
    let ack = decode::<WorkerAck<'_>>(bytes).ok()?;
    let rows = ack.held.iter().map(|row| HeldChunks {
        chunks: row.chunks | 1,
        ..row
    });
    let (rows, mut packed) = (rows.collect::<Vec<_>>(), Vec::new());
    (!rows.is_empty()).then(|| {
        encode(&WorkerAck {
            held: Column::pack(&rows, &mut packed),
            ..ack.clone()
        })
    })
}

fn bend_usage(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut usage = decode::<Usage>(bytes).ok()?;
    (usage.sessions.len() > 1).then(|| {
        usage.sessions.remove(0);
        encode(&usage)
    })
}

/// Changes a placement that a leader reads.
fn bend_placement(mut reply: StoreReply) -> StoreReply {
    if let StoreReply::Entry {
        value: Some(value), ..
    } = &mut reply
        && let Some(mut placement) = unpack::<Placement>(value)
        && !placement.drained.is_empty()
    {
        placement.drained.clear();
        *value = pack(&placement);
    }
    reply
}

/// Changes a worker's heartbeat for a leader.
fn bend_beat(mutant: Mutant, mut beat: WorkerBeat) -> WorkerBeat {
    if mutant == Mutant::RefusesPlaces {
        beat.exclusive = true;
    } else if beat.exclusive {
        beat.group = Some(apart(&group_of(beat.group)));
        beat.exclusive = false;
    }
    beat
}

/// The separate group of exclusive workers that are treated as shared.
pub(crate) fn apart(group: &Tenant) -> Tenant {
    format!("{group}-apart").parse().expect("a valid name")
}

impl Node for Mutated {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        let input = self.bend_input(input);
        self.inner.handle(io, input);
        let mut bent = Vec::with_capacity(io.effects.len());
        for effect in std::mem::take(&mut io.effects) {
            let append = matches!(effect, NodeEffect::Store(_, StoreRequest::Append { .. }));
            if self.mutant == Mutant::AppendsLate && append {
                self.late.push_back((io.now + LATE, effect));
            } else {
                self.bend(effect, &mut bent);
            }
        }
        while self.late.front().is_some_and(|(at, _)| *at <= io.now) {
            bent.extend(self.late.pop_front().map(|(_, effect)| effect));
        }
        bent.extend(self.extra.take());
        io.effects = bent;
    }

    fn state(&self) -> &'static str {
        self.inner.state()
    }
}
