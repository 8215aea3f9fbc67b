//! The source of forged messages: its knowledge and its choices.

use bus_schemas::subject::Subjects;
use bus_schemas::{ExportKey, Incarnation, LeaderId, SessionId, Tenant};
use serde::{Deserialize, Serialize};
use workloads::SplitMix64;

/// Knowledge of others: everything that can be known, as the hostile tenant may have guessed it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Leader candidates.
    pub(super) leaders: Vec<LeaderId>,
    /// Workers.
    pub(super) workers: Vec<Incarnation>,
    /// Sessions of other tenants.
    pub(super) sessions: Vec<SessionId>,
    /// Connections of other tenants.
    pub(super) connections: Vec<String>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Forged {
    /// Its subject.
    pub(super) subject: String,
    /// The reply subject.
    pub(super) reply: Option<String>,
    /// Its bytes.
    pub(super) payload: Vec<u8>,
}

/// A source of forged messages.
pub(super) struct Forger {
    pub(super) subjects: Subjects,
    pub(super) tenant: Tenant,
    pub(super) others: Vec<Tenant>,
    facts: Facts,
    pub(super) key: ExportKey,
    pub(super) hashes: Vec<u8>,
    pub(super) random: SplitMix64,
    pub(super) sent: Vec<Forged>,
}

impl Forger {
    /// Makes a source for this tenant, aimed at the others.
    pub(super) fn new(
        subjects: Subjects,
        tenant: Tenant,
        others: Vec<Tenant>,
        (key, hashes): (ExportKey, Vec<u8>),
        seed: u64,
    ) -> Self {
        Self {
            subjects,
            tenant,
            others,
            facts: Facts::default(),
            key,
            hashes,
            random: SplitMix64::new(seed),
            sent: Vec::new(),
        }
    }

    /// Replaces the known facts.
    pub(super) fn learn(&mut self, facts: Facts) {
        self.facts = facts;
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let bound = u32::try_from(of.len()).ok().filter(|bound| *bound > 0)?;
        of.get(self.random.below(bound) as usize).cloned()
    }

    pub(super) fn session(&mut self) -> SessionId {
        let random = SessionId(self.random.bits());
        let known = self.facts.sessions.clone();
        let guesses = self.random.below(4) == 0;
        self.pick(&known).filter(|_| !guesses).unwrap_or(random)
    }

    pub(super) fn worker(&mut self) -> Incarnation {
        let random = Incarnation(self.random.bits());
        let known = self.facts.workers.clone();
        self.pick(&known).unwrap_or(random)
    }

    pub(super) fn other(&mut self) -> Tenant {
        let others = self.others.clone();
        self.pick(&others).unwrap_or_else(|| self.tenant.clone())
    }

    /// Names of other connections: if the broker believed the claim, each would end one of them.
    pub(super) fn names(&self) -> Vec<String> {
        let leaders = self.facts.leaders.iter();
        let leaders =
            leaders.flat_map(|id| [format!("leader-{id}"), format!("leader-{id}-events")]);
        let workers = self.facts.workers.iter().map(|id| format!("worker-{id}"));
        let others = self.facts.connections.iter().cloned();
        let fixed = ["administrator".to_owned(), "controller".to_owned()];
        leaders.chain(workers).chain(others).chain(fixed).collect()
    }
}
