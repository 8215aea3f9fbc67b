//! The life of clients: closed connections, the expiry of silent clients, and the state that
//! outlasts the term.

use bus_schemas::subject::Author;
use bus_schemas::{CloseReason, SessionId};

use super::signs::{Sign, Signs};
use super::{CLOSINGS, Clients};
use crate::input::Input;
use crate::leader::config::LeaderConfig;
use crate::leader::context::Context;
use crate::time::Nanos;

impl Clients {
    /// The known signs of life of the clients, for the next term. A silent client stays silent, for
    /// epochs may be shorter than a session's expiry.
    pub(in crate::leader) fn signs(&mut self) -> Signs {
        let mut signs = std::mem::take(&mut self.signs);
        for (session, client) in std::mem::take(&mut self.sessions) {
            // A session with a decided close may have to be closed again.
            let expired = client.deadline == Nanos::MAX;
            let sign = Sign {
                connection: client.connection,
                deadline: if expired { 0 } else { client.deadline },
                closed: client.closed,
            };
            signs.note((client.tenant, session), sign);
        }
        signs
    }

    /// Continues with the signs known before this term.
    pub(in crate::leader) fn go_on(&mut self, signs: Signs) {
        self.signs = signs;
    }

    /// Takes in the sessions that the previous leader wrote as ending, if they are read only now.
    pub(in crate::leader) fn inherit(&mut self, closing: &[(SessionId, Nanos)], cx: &Context<'_>) {
        let unknown = closing
            .iter()
            .filter(|(session, _)| !self.sessions.contains_key(session));
        let unknown: Vec<_> = unknown.copied().collect();
        self.signs.inherit(cx.now, &unknown, cx.config);
    }

    /// Drops the remaining signs: all workers are sealed, so there are no other sessions.
    pub(in crate::leader) fn settle(&mut self) {
        self.closings_changed |= self.signs.closings().next().is_some();
        self.signs = Signs::default();
        self.claims
            .drop_met(|session| self.sessions.contains_key(session));
    }

    /// The sessions that end because their connections were closed, with the end in nanoseconds
    /// since 1970, if they changed. The next leader uses them.
    pub(in crate::leader) fn changed_closings(
        &mut self,
        config: &LeaderConfig,
    ) -> Option<Vec<(SessionId, Nanos)>> {
        if !std::mem::take(&mut self.closings_changed) {
            return None;
        }
        let closed = self.sessions.iter();
        let closed = closed.filter(|(_, client)| client.closed.is_some());
        let closed = closed.map(|(session, client)| (*session, client.deadline));
        let closings = closed.chain(self.signs.closings()).take(CLOSINGS);
        let since_1970 =
            |(session, at): (SessionId, Nanos)| (session, at.saturating_add(config.clock_zero));
        Some(closings.map(since_1970).collect())
    }

    /// Notes that a client's connection was closed: its sessions live on for a short while. Its
    /// waiting open requests are dropped: a client that connects again asks again. Sessions of
    /// tenants other than the owner of the connection's login are not concerned.
    pub(in crate::leader) fn connection_closed(
        &mut self,
        name: &str,
        author: &Author,
        cx: &Context<'_>,
    ) {
        self.waiting.retain(|(tenant, _), waiting| {
            waiting.connection != name || !author.speaks_for(tenant)
        });
        let deadline = cx.now.saturating_add(cx.config.connection_lost);
        for client in self.sessions.values_mut() {
            if client.connection.as_deref() == Some(name) && author.speaks_for(&client.tenant) {
                client.deadline = client.deadline.min(deadline);
                client.closed = Some(cx.now);
                self.closings_changed = true;
            }
        }
    }

    /// Notes that our connection is up again. No client counts as silent before now, and one with a
    /// closed connection may have come back meanwhile.
    pub(in crate::leader) fn connected(&mut self, cx: &Context<'_>) {
        let deadline = cx.now.saturating_add(cx.config.expiry);
        let clients = self.sessions.values_mut();
        clients.for_each(|client| client.deadline = client.deadline.max(deadline));
        self.signs.connected(cx.now, cx.config);
        self.claims.connected(cx.now);
    }

    /// Extends all deadlines by a time in which we stood still and heard no client.
    pub(in crate::leader) fn stood_still(&mut self, by: Nanos) {
        for client in self.sessions.values_mut() {
            client.deadline = client.deadline.saturating_add(by);
        }
        self.signs.stood_still(by);
        self.claims.stood_still(by);
    }

    /// The inputs that end the sessions of clients that were silent for too long.
    pub(in crate::leader) fn expired(&mut self, now: Nanos) -> Vec<Input> {
        let late = self
            .sessions
            .iter_mut()
            .filter(|(_, client)| client.deadline <= now);
        let inputs = late.map(|(session, client)| {
            client.deadline = Nanos::MAX;
            Input::SessionClose {
                session: *session,
                after: 0,
                reason: CloseReason::Expired,
            }
        });
        inputs.collect()
    }
}
