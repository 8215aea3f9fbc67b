//! Nodes with a flaw, to show that the checkers see it.

mod kind;
mod record;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::{
    Chain, Code, Column, Done, Drain, Epoch, GpuPosition, GrantBatch, GrantKind, Incarnation,
    LeaderId, LeaderNotice, Leave, OpenAnswer, Outcome, SealReply, Status, StatusRequest, Tenant,
    Usage, WorkerBeat, decode, encode,
};

use scheduler_leader_core::Placement;
use sim_cluster::wire::{pack, unpack};
use sim_cluster::{
    Effect, Fact, Input, Io, MILLI, Nanos, Node, Packet, StoreReply, StoreRequest, WorkerFact,
};

pub use kind::Flaw;

use self::record::bend_gaps;
use crate::variety::group_of;

/// By how much blocks are appended too late.
const LATE: Nanos = 300 * MILLI;

/// A node with a flaw.
pub(crate) struct Flawed {
    inner: Box<dyn Node>,
    flaw: Flaw,
    sealed: Option<(Epoch, LeaderId)>,
    held: Option<Fact>,
    seen: BTreeMap<&'static str, u64>,
    /// The reign of the orders that it sent last.
    reign: Option<(Epoch, LeaderId)>,
    /// Workers that it is to drain.
    drained: BTreeSet<Incarnation>,
    /// Positions that open a session.
    opens: BTreeSet<GpuPosition>,
    /// What it says beside.
    extra: Option<Effect>,
    /// What it appends later, and when.
    late: VecDeque<(Nanos, Effect)>,
}

impl Flawed {
    /// Gives a node a flaw.
    #[must_use]
    pub(crate) fn new(inner: Box<dyn Node>, flaw: Flaw) -> Self {
        Self {
            inner,
            flaw,
            sealed: None,
            held: None,
            seen: BTreeMap::new(),
            reign: None,
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

    fn bend_input(&mut self, input: Input) -> Input {
        match (self.flaw, input) {
            (Flaw::IgnoresDrains | Flaw::DismissesAtOnce, Input::Message(packet))
                if packet.subject.ends_with(".ctl.drain") =>
            {
                Input::Message(self.bend_drain(packet))
            }
            (flaw @ (Flaw::SharesExclusive | Flaw::RefusesPlaces), Input::Message(mut packet)) => {
                if packet.subject.contains(".l.worker.")
                    && let Ok(beat) = decode::<WorkerBeat>(&packet.bytes)
                {
                    packet.bytes = encode(&bend_beat(flaw, beat)).into();
                }
                Input::Message(packet)
            }
            (Flaw::ForgetsDrains, Input::Store(token, reply)) => {
                Input::Store(token, bend_placement(reply))
            }
            (Flaw::ForgetsDrains, Input::Placement(reply)) => {
                Input::Placement(bend_placement(reply))
            }
            (Flaw::MisreportsOpens, Input::Message(packet)) => {
                if packet.subject.ends_with(".order")
                    && let Ok(order) = decode::<GrantBatch<'_>>(&packet.bytes)
                {
                    let grants = (order.first..).zip(order.grants.iter());
                    let opens = grants.filter(|(_, grant)| grant.kind == GrantKind::Open);
                    self.opens.extend(opens.map(|(position, _)| position));
                }
                Input::Message(packet)
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
        if self.flaw == Flaw::DismissesAtOnce {
            let leave = self.reign.filter(|_| drain.draining);
            self.extra = leave.map(|(epoch, leader)| Effect::Publish {
                subject: format!("{within}.w.{worker}.leave").into(),
                reply: None,
                bytes: encode(&Leave {
                    noted: false,
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

    fn bend_order(&self, input: Input) -> Input {
        let (Input::Message(mut packet), Some((epoch, leader))) = (input.clone(), self.sealed)
        else {
            return input;
        };
        if self.flaw != Flaw::IgnoresEpochs || !packet.subject.ends_with(".order") {
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
        Input::Message(packet)
    }

    fn bend(&mut self, effect: Effect, out: &mut Vec<Effect>) {
        match (self.flaw, effect) {
            (Flaw::RunsTwice, Effect::Fact(fact @ Fact::Worker(_, WorkerFact::Ran { .. }))) => {
                let twice = self.nth("ran") == 40;
                out.extend(twice.then(|| Effect::Fact(fact.clone())));
                out.push(Effect::Fact(fact));
            }
            (Flaw::SkipsAnOp, Effect::Fact(fact @ Fact::Worker(_, WorkerFact::Ran { .. }))) => {
                let skipped = self.nth("ran") == 40;
                out.extend((!skipped).then_some(Effect::Fact(fact)));
            }
            (
                Flaw::SwapsStarts,
                Effect::Fact(fact @ Fact::Worker(_, WorkerFact::Started { .. })),
            ) => match self.held.take() {
                Some(held) => out.extend([fact, held].map(Effect::Fact)),
                None if self.nth("started") == 5 => self.held = Some(fact),
                None => out.push(Effect::Fact(fact)),
            },
            (
                flaw @ (Flaw::HidesGaps | Flaw::NamesTooLittle | Flaw::GivesNoReason),
                Effect::Store(token, StoreRequest::Append { subject, id, bytes }),
            ) => {
                let bytes = bend_gaps(&bytes, flaw);
                let request = StoreRequest::Append { subject, id, bytes };
                out.push(Effect::Store(token, request));
            }
            (
                flaw,
                Effect::Publish {
                    subject,
                    reply,
                    bytes,
                },
            ) => {
                if let Some(bytes) = self.bend_message(flaw, &subject, bytes) {
                    out.push(Effect::Publish {
                        subject,
                        reply,
                        bytes,
                    });
                }
            }
            (_, effect) => out.push(effect),
        }
    }

    /// Says of positions that it was told open sessions that these were gone.
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

    fn bend_message(&mut self, flaw: Flaw, subject: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if let Ok(reply) = decode::<SealReply>(&bytes)
            && let Some(mut answer) = reply.sealed
        {
            self.sealed = Some((answer.epoch, answer.leader));
            if matches!(flaw, Flaw::ForgetsNames | Flaw::ForgetsTail) {
                answer.named.clear();
                if flaw == Flaw::ForgetsTail {
                    answer.tail.clear();
                }
                let sealed = Some(answer);
                return Some(encode(&SealReply { sealed, ..reply }));
            }
        }
        if flaw == Flaw::IgnoresDrains
            && subject.ends_with(".administrator")
            && let Ok(mut status) = decode::<Status>(&bytes)
        {
            for worker in &mut status.workers {
                worker.draining |= self.drained.contains(&worker.incarnation);
            }
            return Some(encode(&status));
        }
        if flaw == Flaw::DismissesAtOnce
            && subject.ends_with(".order")
            && let Ok(order) = decode::<GrantBatch<'_>>(&bytes)
        {
            self.reign = Some((order.epoch, order.leader));
        }
        if matches!(flaw, Flaw::LosesADevice | Flaw::RepeatsADevice)
            && subject.contains(".dn.inbox.")
            && let Ok(mut answer) = decode::<OpenAnswer>(&bytes)
            && let (Some(first), Some(mut last)) = (&answer.opened, answer.others.pop())
        {
            if flaw == Flaw::RepeatsADevice {
                last.incarnation = first.incarnation;
                answer.others.push(last);
            }
            return Some(encode(&answer));
        }
        if flaw == Flaw::BlamesDevices
            && subject.ends_with(".leader")
            && let Ok(mut notice) = decode::<LeaderNotice>(&bytes)
            && let Some(why) = &mut notice.ended
        {
            why.code = Code::DeviceLost;
            return Some(encode(&notice));
        }
        if flaw == Flaw::ForgetsUse
            && subject.contains(".s.usage.")
            && let Ok(mut usage) = decode::<Usage>(&bytes)
            && usage.sessions.len() > 1
        {
            usage.sessions.remove(0);
            return Some(encode(&usage));
        }
        if subject.contains(".l.done.") {
            if flaw == Flaw::NeverReports {
                return None;
            }
            if let Ok(mut done) = decode::<Done<'_>>(&bytes)
                && flaw == Flaw::WrongChain
                && done.accepted > 3
            {
                done.chain = Chain::default();
                return Some(encode(&done));
            }
            if flaw == Flaw::MisreportsOpens
                && let Ok(done) = decode::<Done<'_>>(&bytes)
            {
                return Some(self.bend_opens(&done));
            }
        }
        if flaw == Flaw::InventsOps
            && subject.ends_with(".order")
            && let Ok(order) = decode::<GrantBatch<'_>>(&bytes)
        {
            let rows: Vec<_> = order
                .grants
                .iter()
                .map(|mut grant| {
                    grant.last += if grant.last > 0 { 1_000_000 } else { 0 };
                    grant
                })
                .collect();
            let mut packed = Vec::new();
            let grants = Column::pack(&rows, &mut packed);
            return Some(encode(&GrantBatch {
                grants,
                ..order.clone()
            }));
        }
        Some(bytes)
    }
}

/// What a leader reads of a placement.
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

/// What a leader takes a worker for.
fn bend_beat(flaw: Flaw, mut beat: WorkerBeat) -> WorkerBeat {
    if flaw == Flaw::RefusesPlaces {
        beat.exclusive = true;
    } else if beat.exclusive {
        beat.group = Some(apart(&group_of(beat.group)));
        beat.exclusive = false;
    }
    beat
}

/// The group that exclusive workers of a group are in where they are taken for shared ones.
pub(crate) fn apart(group: &Tenant) -> Tenant {
    format!("{group}-apart").parse().expect("a valid name")
}

impl Node for Flawed {
    fn handle(&mut self, io: &mut Io, input: Input) {
        let input = self.bend_input(input);
        self.inner.handle(io, input);
        let mut bent = Vec::with_capacity(io.effects.len());
        for effect in std::mem::take(&mut io.effects) {
            let append = matches!(effect, Effect::Store(_, StoreRequest::Append { .. }));
            if self.flaw == Flaw::AppendsLate && append {
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
