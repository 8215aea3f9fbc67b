//! The checker of the messages that a hostile tenant receives, and of the destinations of its answers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bus_schemas::subject::Subjects;
use bus_schemas::{Incarnation, SessionId};

use sim_cluster::{NodeId, Packet};

use super::{NAME, Overheard, tenant};
use crate::check::{CheckResult, Violation};

/// State of the checker.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Its node.
    node: NodeId,
    overheard: Rc<RefCell<Overheard>>,
    /// Prefix of all subjects that it may receive.
    inbound: String,
    /// Inboxes of others that it named for its answers and that no other node used.
    forged: BTreeSet<Rc<str>>,
    asked: BTreeSet<Rc<str>>,
    /// Number of messages that it has published.
    said: u64,
}

impl Listener {
    /// Makes a checker for a hostile tenant's node.
    #[must_use]
    pub(crate) fn new(
        node: NodeId,
        subjects: &Subjects,
        overheard: Rc<RefCell<Overheard>>,
    ) -> Self {
        let inbound = subjects.tenant_inbound(&tenant());
        Self {
            node,
            overheard,
            inbound: inbound.trim_end_matches('>').to_owned(),
            forged: BTreeSet::new(),
            asked: BTreeSet::new(),
            said: 0,
        }
    }

    /// Number of messages that it has published.
    #[must_use]
    pub(crate) fn harm(&self) -> u64 {
        self.said
    }

    /// True if a packet is the hostile tenant's.
    #[must_use]
    pub(crate) fn sent(&self, packet: &Packet) -> bool {
        packet.from == self.node
    }

    /// Checks a message that a node publishes.
    pub(crate) fn published(&mut self, subjects: &Subjects, packet: &Packet) -> CheckResult {
        let reply = packet.reply.as_ref();
        if self.sent(packet) {
            self.said += 1;
            let elsewhere =
                |to: &&Rc<str>| !to.starts_with(&self.inbound) && !self.asked.contains(*to);
            self.forged.extend(reply.filter(elsewhere).cloned());
            return Ok(());
        }
        self.asked.extend(reply.cloned());
        if self.forged.contains(&packet.subject) {
            let what = format!("its request was answered on {}", packet.subject);
            return Err(Violation::new(NAME, what));
        }
        self.overheard.borrow_mut().hear(subjects, packet);
        Ok(())
    }

    /// Notes a session that a leader opened.
    pub(crate) fn opened(&self, session: SessionId, worker: Incarnation) {
        self.overheard.borrow_mut().opened(session, worker);
    }

    /// Checks a message that a node receives.
    pub(crate) fn heard(&self, to: NodeId, packet: &Packet) -> CheckResult {
        if to != self.node || packet.subject.starts_with(&self.inbound) {
            return Ok(());
        }
        let what = format!("it hears {}", packet.subject);
        Err(Violation::new(NAME, what))
    }
}
