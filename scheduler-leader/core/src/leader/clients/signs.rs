//! Signs of the clients' life that outlast a term: the connection of each session, and the closed
//! connections. A candidate notes what it hears, and a leader hands on what it knows.

use std::collections::BTreeMap;

use bus_schemas::subject::Author;
use bus_schemas::{Alive, SessionId, Tenant};

use crate::leader::config::LeaderConfig;
use crate::time::Nanos;

/// Maximum number of sessions for which a candidate notes signs.
const NOTED: usize = 65_536;
/// Maximum number of sessions of one tenant: a flood of made-up sessions pushes out none of another
/// tenant's.
const NOTED_OF_ONE: usize = NOTED / 4;
/// Time that a client has to speak up after a takeover: the previous leader's note may be older
/// than the client's last message.
const MERCY: Nanos = 1_000_000_000;

/// The last sign of a session's client.
#[derive(Debug)]
pub(in crate::leader) struct Sign {
    pub(super) connection: Option<String>,
    pub(super) deadline: Nanos,
    pub(super) closed: Option<Nanos>,
}

/// Signs of sessions that no worker has reported yet.
#[derive(Debug, Default)]
pub(in crate::leader) struct Signs {
    noted: BTreeMap<(Tenant, SessionId), Sign>,
    of_tenant: BTreeMap<Tenant, usize>,
    /// Sessions with connections that were closed under the previous leader, and the times at which
    /// they end.
    closings: BTreeMap<SessionId, Nanos>,
    prune_at: Nanos,
}

impl Signs {
    /// Notes that a client lists its live sessions; candidates hear that too.
    pub(in crate::leader) fn alive(
        &mut self,
        now: Nanos,
        tenant: &Tenant,
        alive: &Alive,
        config: &LeaderConfig,
    ) {
        if now >= self.prune_at {
            self.prune(now);
            self.prune_at = now.saturating_add(config.expiry);
        }
        for session in &alive.sessions {
            self.note(
                (tenant.clone(), *session),
                Sign {
                    connection: Some(alive.connection.clone()),
                    deadline: now.saturating_add(config.expiry),
                    closed: None,
                },
            );
        }
    }

    /// Notes a sign, in place of an older one, while there is room.
    pub(super) fn note(&mut self, whose: (Tenant, SessionId), sign: Sign) {
        if let Some(noted) = self.noted.get_mut(&whose) {
            *noted = sign;
            return;
        }
        let own = self.of_tenant.entry(whose.0.clone()).or_default();
        if self.noted.len() < NOTED && *own < NOTED_OF_ONE {
            *own += 1;
            self.noted.insert(whose, sign);
        }
    }

    /// Forgets sessions with clients that were silent for long: they have ended.
    fn prune(&mut self, now: Nanos) {
        self.noted.retain(|_, sign| sign.deadline > now);
        self.of_tenant.clear();
        for (tenant, _) in self.noted.keys() {
            *self.of_tenant.entry(tenant.clone()).or_default() += 1;
        }
    }

    /// Notes that a client's connection was closed.
    pub(in crate::leader) fn connection_closed(
        &mut self,
        now: Nanos,
        name: &str,
        author: &Author,
        config: &LeaderConfig,
    ) {
        let deadline = now.saturating_add(config.connection_lost);
        for ((tenant, _), sign) in &mut self.noted {
            if sign.connection.as_deref() == Some(name) && author.speaks_for(tenant) {
                sign.deadline = sign.deadline.min(deadline);
                sign.closed = Some(now);
            }
        }
    }

    /// Notes that our connection is up again: no client counts as silent before now.
    pub(in crate::leader) fn connected(&mut self, now: Nanos, config: &LeaderConfig) {
        let deadline = now.saturating_add(config.expiry);
        for sign in self.noted.values_mut() {
            sign.deadline = sign.deadline.max(deadline);
        }
    }

    /// Extends all deadlines by a time in which we stood still and heard no client.
    pub(in crate::leader) fn stood_still(&mut self, by: Nanos) {
        for sign in self.noted.values_mut() {
            sign.deadline = sign.deadline.saturating_add(by);
        }
    }

    /// Takes in the previous leader's note of sessions with closed connections, with their ends in
    /// nanoseconds since 1970. Signs that were heard here are newer.
    pub(in crate::leader) fn inherit(
        &mut self,
        now: Nanos,
        closing: &[(SessionId, Nanos)],
        config: &LeaderConfig,
    ) {
        let soon = now.saturating_add(MERCY);
        let latest = now.saturating_add(config.connection_lost).max(soon);
        for (session, at) in closing {
            let at = at.saturating_sub(config.clock_zero).clamp(soon, latest);
            self.closings.insert(*session, at);
        }
        for sign in self.noted.values_mut() {
            sign.deadline = sign.deadline.max(soon);
        }
    }

    /// Takes out the sign of a session that a worker reported.
    pub(super) fn take(&mut self, now: Nanos, whose: (Tenant, SessionId)) -> Option<Sign> {
        let closing = self.closings.remove(&whose.1);
        let noted = self.noted.remove(&whose);
        noted.or_else(|| {
            Some(Sign {
                connection: None,
                deadline: closing?,
                closed: Some(now),
            })
        })
    }

    /// Sessions with closed connections that no worker has reported yet, and the times at which
    /// they end.
    pub(super) fn closings(&self) -> impl Iterator<Item = (SessionId, Nanos)> + '_ {
        let noted = self.noted.iter().filter(|(_, sign)| sign.closed.is_some());
        let noted = noted.map(|((_, session), sign)| (*session, sign.deadline));
        noted.chain(self.closings.iter().map(|(session, at)| (*session, *at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenants_made_up_sessions_leave_room_for_others() {
        let config = LeaderConfig::new("lab".parse().unwrap());
        let mut signs = Signs::default();
        let alive = |sessions: std::ops::Range<u64>| Alive {
            v: bus_schemas::WIRE_VERSION,
            connection: "client-1".into(),
            sessions: sessions.map(SessionId).collect(),
            workers: Vec::new(),
            gpus: Vec::new(),
        };
        let (mallory, chat): (Tenant, Tenant) =
            ("mallory".parse().unwrap(), "chat".parse().unwrap());
        signs.alive(0, &mallory, &alive(0..2 * NOTED as u64), &config);
        assert_eq!(signs.noted.len(), NOTED_OF_ONE);
        signs.alive(1, &chat, &alive(0..9), &config);
        assert_eq!(signs.noted.len(), NOTED_OF_ONE + 9);
        // Sessions that are silent for long are forgotten.
        signs.alive(config.expiry, &chat, &alive(0..1), &config);
        assert_eq!(signs.noted.len(), 9);
        assert!(signs.take(0, (mallory, SessionId(1))).is_none());
    }
}
