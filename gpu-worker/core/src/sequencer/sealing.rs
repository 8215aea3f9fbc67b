//! Seals: a new leader takes the worker over, and gets all its state.
//!
//! The part that the record may lack (the tail) can exceed a message. Then the answer to a seal is a page of
//! it, and the leader asks again for the grants behind the page, until the rest fits into the answer itself.
//! Between the first page and the answer the worker accepts nothing, so that the tail does not change.

use std::collections::BTreeMap;

use bus_schemas::{
    GpuPosition, Row, Seal, SealAnswer, SealPage, SealReply, SealedGrant, SealedName, SessionId,
    WIRE_VERSION, limits,
};

use super::obeyed::Standpoint;
use super::pending::KeptGrant;
use super::session::Phase;
use super::{Action, Sequencer};
use crate::Nanos;

/// Maximum bytes of a session, of a grant with the name of its session, and of everything else in an encoded
/// seal answer. The tail takes the remaining room of the message.
const SEALED_SESSION: usize = 240;
const SEALED_GRANT: usize = SealedGrant::SIZE + SealedName::SIZE;
const SEALED_REST: usize = 128 << 10;

impl Sequencer {
    pub(super) fn on_seal(&mut self, now: Nanos, seal: &Seal, actions: &mut Vec<Action>) {
        let mut reply = SealReply {
            v: WIRE_VERSION,
            sealed: None,
            refused: None,
            page: None,
        };
        match self.obeyed.standpoint(seal.epoch, seal.leader) {
            Standpoint::Stale => reply.refused = Some(self.obeyed.refusal()),
            standpoint => {
                let before = (self.obeyed.epoch(), self.tail.recorded());
                if standpoint == Standpoint::Unsealed {
                    self.obey(now, seal, actions);
                }
                reply.page = seal.after.and_then(|after| self.seal_page(after));
                if reply.page.is_none() {
                    reply.sealed = Some(self.seal_answer(before, seal.after.unwrap_or(0)));
                }
            }
        }
        actions.push(Action::SealReply(Box::new(reply)));
    }

    /// Begins the epoch of this leader.
    fn obey(&mut self, now: Nanos, seal: &Seal, actions: &mut Vec<Action>) {
        self.close_standing(now, actions);
        self.standings.begin_epoch();
        self.obeyed.begin(seal);
        self.ahead.clear();
        self.tail.begin_epoch();
        self.departure.begin_epoch();
        self.sessions.trust();
        self.reports.acknowledge(self.reports.made());
        self.times.begin_epoch();
    }

    /// Number of grants of the tail that fit into a message beside `taken` bytes.
    fn tail_room(&self, taken: usize) -> usize {
        let room = limits::MESSAGE_BYTES.saturating_sub(SEALED_REST + taken) / SEALED_GRANT;
        room.min(self.config.seal_rows)
    }

    /// Number of grants of the tail that fit into the answer to a seal.
    fn answer_room(&self) -> usize {
        let sessions = self.sessions.len() * SEALED_SESSION;
        self.tail_room(sessions + self.pending.len() * SEALED_GRANT)
    }

    /// Returns a page of the tail behind a position, if the answer does not hold all of it.
    fn seal_page(&self, after: GpuPosition) -> Option<SealPage> {
        let rest = self.tail.behind(after);
        if rest.len() <= self.answer_room() {
            return None;
        }
        let page = rest.take(self.tail_room(0).max(1));
        let (epoch, leader) = self.obeyed.id();
        Some(SealPage {
            epoch,
            leader,
            after,
            tail: page.clone().map(|kept| kept.sealed).collect(),
            // Names open sessions too: they may be closed when the answer arrives.
            named: names(page),
        })
    }

    /// Returns the worker's state, with the latest grants of the tail behind a position that fit.
    fn seal_answer(
        &self,
        (tail_epoch, tail_recorded): (u64, u64),
        after: GpuPosition,
    ) -> SealAnswer {
        let open = |phase: Phase| !matches!(phase, Phase::Closed(_));
        let sessions = self.sessions.iter().filter(|entry| open(entry.phase));
        let outstanding = self.pending.iter().filter(|accepted| !accepted.ended);
        let tail = self.tail.last_behind(after, self.answer_room());
        let listed = |session: SessionId| {
            let entry = self.sessions.get(session);
            entry.is_some_and(|entry| open(entry.phase))
        };
        let unlisted = tail
            .clone()
            .filter(|kept| !listed(kept.sealed.grant.session));
        let (epoch, leader) = self.obeyed.id();
        SealAnswer {
            v: WIRE_VERSION,
            epoch,
            leader,
            gpu: self.identity.gpu,
            capacity: self.identity.capacity,
            position: self.chain_end.position(),
            chain: self.chain_end.chain(),
            global: self.chain_end.global(),
            reports: self.reports.made(),
            sessions: sessions
                .map(|entry| entry.sealed(self.accepted_ops(entry)))
                .collect(),
            outstanding: outstanding
                .map(|accepted| SealedGrant {
                    position: accepted.position,
                    grant: self.sealed_grant(accepted),
                })
                .collect(),
            tail_epoch,
            tail_recorded,
            tail: tail.map(|kept| kept.sealed).collect(),
            ordinals: self.sessions.ordinals(),
            faults: self.faults(usize::MAX),
            named: names(unlisted),
            forgotten: self.tail.forgotten(),
        }
    }
}

/// Returns the tenants and ordinals of the sessions of these grants.
fn names<'a>(grants: impl Iterator<Item = &'a KeptGrant>) -> Vec<SealedName> {
    let mut names = BTreeMap::new();
    for kept in grants {
        let session = kept.sealed.grant.session;
        names.entry(session).or_insert_with(|| SealedName {
            tenant: kept.tenant.clone(),
            session,
            ordinal: kept.ordinal,
        });
    }
    names.into_values().collect()
}
