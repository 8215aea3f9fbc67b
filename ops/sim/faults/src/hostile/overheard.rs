//! A hostile tenant's knowledge of others.

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::subject::{ConnectionName, Subjects};
use bus_schemas::{Incarnation, LeaderBeat, OpenRequest, SessionId, WorkerBeat, decode};

use sim_cluster::{Packet, Random};

/// Maximum number of entries of each kind, overheard or sent.
const KEPT: usize = 64;

/// The last few of a kind.
#[derive(Debug)]
pub(super) struct Last<T>(VecDeque<T>);

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: PartialEq> Last<T> {
    pub(super) fn push(&mut self, one: T) {
        if self.0.contains(&one) {
            return;
        }
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(one);
    }

    /// All entries, the newest first.
    pub(super) fn newest(&self) -> impl Iterator<Item = &T> {
        self.0.iter().rev()
    }

    pub(super) fn any(&self, random: &mut Random) -> Option<&T> {
        (!self.0.is_empty()).then(|| &self.0[random.index(self.0.len())])
    }
}

/// A tenant's message: its subject below the tenant's prefix, and the bytes.
pub(super) type Said = (String, Rc<[u8]>);

/// A hostile tenant's knowledge of the cluster, from whatever source.
#[derive(Debug, Default)]
pub(crate) struct Overheard {
    pub(super) sessions: Last<(SessionId, Incarnation)>,
    pub(super) workers: Last<Incarnation>,
    pub(super) names: Last<String>,
    pub(super) nonces: Last<u64>,
    pub(super) inboxes: Last<Rc<str>>,
    pub(super) said: Last<Said>,
}

impl Overheard {
    /// Notes a session that a leader opened on a worker.
    pub(crate) fn opened(&mut self, session: SessionId, worker: Incarnation) {
        self.sessions.push((session, worker));
    }

    /// Notes another node's message.
    pub(crate) fn hear(&mut self, subjects: &Subjects, packet: &Packet) {
        let subject = &*packet.subject;
        if let Some(reply) = &packet.reply {
            self.inboxes.push(reply.clone());
        }
        if subject == subjects.leader_beat() {
            if let Ok(beat) = decode::<LeaderBeat>(&packet.bytes) {
                self.names
                    .push(ConnectionName::Leader(beat.leader).to_string());
            }
        } else if let Ok(beat) = decode::<WorkerBeat>(&packet.bytes)
            && subject == subjects.worker_beat(beat.incarnation)
        {
            let worker = beat.incarnation;
            self.workers.push(worker);
            self.names.push(ConnectionName::Worker(worker).to_string());
        } else if let Some((_, what)) = subject.split_once(".up.") {
            if what == "l.open"
                && let Ok(open) = decode::<OpenRequest>(&packet.bytes)
            {
                self.names.push(open.connection);
                self.nonces.push(open.nonce);
            }
            self.said.push((what.to_owned(), packet.bytes.clone()));
        }
    }
}
