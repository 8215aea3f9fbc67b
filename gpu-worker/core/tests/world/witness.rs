//! A witness of the sequencer that checks each of its actions against the invariants.

use bus_schemas::{ChainEntry, Epoch, GpuPosition, GrantKind, OpNumber, Outcome};
use gpu_worker_core::sequencer::{Action, StartAction};

use super::World;
use super::leader::tenant;

impl World {
    /// Checks that accepted grants are the leader's own, chained.
    pub(super) fn note_accepted(&mut self, before: GpuPosition, after: GpuPosition) {
        for position in before + 1..=after {
            let mut grant = self.offered[&position];
            if grant.kind == GrantKind::Standing {
                grant.first = self.first(position);
                let last = self.parts.get(&position).copied();
                grant.last = last.unwrap_or(grant.first - 1);
            }
            self.chain = self.chain.then(&ChainEntry {
                position,
                tenant: &tenant(),
                ordinal: grant.session.0,
                kind: grant.kind,
                first: grant.first,
                last: grant.last,
            });
            self.accepted.insert(position, grant);
        }
        assert_eq!(self.core.accepted(), (after, self.chain));
    }

    /// The first op of a standing grant; without one, it goes on at the end of the session's last.
    fn first(&self, position: GpuPosition) -> OpNumber {
        let grant = self.offered[&position];
        if grant.first > 0 {
            return grant.first;
        }
        let mut before = self.offered.range(..position).rev();
        let last = before
            .find(|(_, other)| other.kind == GrantKind::Standing && other.session == grant.session);
        let (at, _) = last.expect("one to go on from");
        let part = self.parts.get(at);
        part.map_or_else(|| self.first(*at), |last| last + 1)
    }

    pub(super) fn begin(&mut self, position: GpuPosition, epoch: Epoch) {
        for between in self.begun + 1..position {
            let kind = self.accepted[&between].kind;
            assert!(
                matches!(kind, GrantKind::Close | GrantKind::Standing),
                "I2: position {between} was passed over"
            );
        }
        assert!(epoch >= self.begun_epoch, "I3: epochs do not fall");
        self.begun = position;
        self.begun_epoch = epoch;
    }

    /// Notes that a part of the open standing grant starts.
    fn part(&mut self, start: &StartAction) {
        let granted = self.offered[&start.position];
        assert_eq!(granted.kind, GrantKind::Standing);
        let first = self.first(start.position);
        let next = match self.parts.insert(start.position, start.last) {
            Some(last) => last + 1,
            None => {
                assert!(start.position > self.begun, "I2: positions begin in order");
                self.begin(start.position, granted.epoch);
                first
            }
        };
        let open = self.core.accepted().0 + 1;
        assert_eq!((start.position, start.first), (open, next), "it is open");
        assert_eq!(granted.session, start.session);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    pub(super) fn see(&mut self, action: Action) {
        match action {
            Action::Open(open) => {
                assert!(open.position > self.begun, "I2: positions begin in order");
                self.begin(open.position, self.accepted[&open.position].epoch);
                self.ran.insert(open.session.0, 0);
                self.opening.push_back(open.session.0);
            }
            Action::Start(start) => {
                if start.declared.is_some() {
                    assert!(start.position > self.begun, "I2: positions begin in order");
                    let granted = self.accepted[&start.position];
                    let range = (granted.session, granted.first, granted.last);
                    assert_eq!(range, (start.session, start.first, start.last));
                    self.begin(start.position, granted.epoch);
                } else {
                    self.part(&start);
                }
                let session = start.session.0;
                let before = self.kept.get(&session).copied().unwrap_or(0);
                assert!(
                    start.last <= before,
                    "I1: an op that is not here was started"
                );
                let running = self.device.iter().rev().find(|slice| slice.1 == session);
                let last = running.map_or(self.ran[&session], |slice| slice.3);
                let broken = self.clients.get(&session).is_some_and(|c| c.failed);
                assert!(!broken, "a failed session was started");
                assert_eq!(
                    start.first,
                    last + 1,
                    "I1: ops run once, in order, without a gap"
                );
                self.device
                    .push_back((start.position, session, start.first, start.last));
            }
            Action::Close { session } => {
                assert!(!self.device.iter().any(|slice| slice.1 == session.0));
                self.closing.push_back(session.0);
            }
            Action::Keep {
                session,
                first,
                count,
                ..
            } => {
                let kept = self.kept.entry(session.0).or_default();
                assert_eq!(first, *kept + 1, "kept without gaps or overlaps");
                *kept += u64::from(count);
            }
            Action::Settled(settled) => {
                let accepted = self.accepted[&settled.position];
                if settled.position > self.begun {
                    self.begin(settled.position, accepted.epoch);
                }
                if settled.kind == GrantKind::Standing && !settled.failed {
                    assert_eq!(settled.last, accepted.last);
                }
                self.voids += u64::from(settled.outcome == Outcome::Void);
                let again = self.settled.insert(settled.position, settled);
                assert!(again.is_none(), "a position ends once");
            }
            Action::SendAck(ack) if self.dice.roll(4) > 0 => {
                if let Some(client) = self.clients.get_mut(&ack.session.0) {
                    client.received = client.received.max(ack.received);
                    client.results = client.results.max(ack.results);
                }
            }
            Action::SendDone(done) if self.dice.roll(4) > 0 => {
                for leader in self.leaders.iter_mut().filter(|l| l.epoch == done.epoch) {
                    if !leader.sealed {
                        continue;
                    }
                    leader.accepted = leader.accepted.max(done.accepted);
                    leader.hear(done.first, &done.reports, &self.accepted);
                    for row in &done.received {
                        if let Some(doubted) = leader.doubted.get_mut(&row.session.0) {
                            *doubted = row.received.max(*doubted);
                        }
                    }
                    for fault in &done.faults {
                        let closed = leader.closed.entry(fault.session.0).or_default();
                        if !std::mem::replace(closed, true) {
                            leader.grant(GrantKind::Close, fault.session.0, 0, 0);
                        }
                    }
                }
            }
            Action::SealReply(reply) => match (reply.sealed, reply.refused) {
                (Some(answer), None) => {
                    assert_eq!((answer.position, answer.chain), self.core.accepted());
                    assert_eq!(self.core.sealed(), (answer.epoch, answer.leader));
                    if self.dice.roll(3) > 0 {
                        let id = answer.leader;
                        let leader = self.leaders.iter_mut().find(|leader| leader.id == id);
                        leader.unwrap().start_from(&answer);
                    }
                }
                (None, Some(refusal)) => {
                    assert_eq!(self.core.sealed(), (refusal.epoch, refusal.leader));
                }
                other => panic!("a seal reply of both or neither kind: {other:?}"),
            },
            _ => {}
        }
    }
}
