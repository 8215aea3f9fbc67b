//! The clients' life: connections that were closed, when silent ones expire, and what of it outlasts the term.

use bus_schemas::subject::Author;
use bus_schemas::{CloseReason, SessionId};

use super::signs::{Sign, Signs};
use super::{CLOSINGS, Clients};
use crate::input::Input;
use crate::leader::config::Config;
use crate::leader::context::Context;
use crate::time::Nanos;

impl Clients {
    /// What is known of the clients' life, for the term after this one: who is silent stays so, for
    /// epochs may be shorter than a session's expiry.
    pub(in crate::leader) fn signs(&mut self) -> Signs {
        let mut signs = std::mem::take(&mut self.signs);
        for (session, client) in std::mem::take(&mut self.sessions) {
            // Whose close was decided for it may have to be closed again.
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

    /// Goes on with what was known before this term.
    pub(in crate::leader) fn go_on(&mut self, signs: Signs) {
        self.signs = signs;
    }

    /// The leader before wrote which sessions are to end, and it is read only now.
    pub(in crate::leader) fn inherit(&mut self, closing: &[(SessionId, Nanos)], cx: &Context<'_>) {
        let unknown = closing
            .iter()
            .filter(|(session, _)| !self.sessions.contains_key(session));
        let unknown: Vec<_> = unknown.copied().collect();
        self.signs.inherit(cx.now, &unknown, cx.config);
    }

    /// All workers are sealed: other sessions there are none.
    pub(in crate::leader) fn settle(&mut self) {
        self.closings_changed |= self.signs.closings().next().is_some();
        self.signs = Signs::default();
        self.claims
            .drop_met(|session| self.sessions.contains_key(session));
    }

    /// The sessions that are to end for their closed connections and when, in nanoseconds since 1970,
    /// if that is news: the leader after this one goes by it.
    pub(in crate::leader) fn changed_closings(
        &mut self,
        config: &Config,
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

    /// A client's connection was closed: its sessions live on for a short while. Its open requests that
    /// wait are dropped: a client that is connected again asks again. Sessions of a tenant whose login
    /// it was not made with have nothing to do with it.
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

    /// Our connection is up again: no client was silent before now, and one whose connection was closed
    /// may have come back meanwhile.
    pub(in crate::leader) fn connected(&mut self, cx: &Context<'_>) {
        let deadline = cx.now.saturating_add(cx.config.expiry);
        let clients = self.sessions.values_mut();
        clients.for_each(|client| client.deadline = client.deadline.max(deadline));
        self.signs.connected(cx.now, cx.config);
        self.claims.connected(cx.now);
    }

    /// We stood still for so long, and heard no client.
    pub(in crate::leader) fn stood_still(&mut self, by: Nanos) {
        for client in self.sessions.values_mut() {
            client.deadline = client.deadline.saturating_add(by);
        }
        self.signs.stood_still(by);
        self.claims.stood_still(by);
    }

    /// The inputs that end those not heard from for too long.
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
