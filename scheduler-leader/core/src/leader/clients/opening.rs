//! Open requests: they wait for a worker, are answered once the open grant is accepted, and are
//! recognized after a failover.

use std::sync::Arc;

use bus_schemas::{
    CloseReason, Code, Failure, GpuPosition, Incarnation, OpNumber, OpenAnswer, OpenRequest,
    Opened, SessionId, Tenant, encode, limits,
};

use super::{Client, Clients, Refused, WAITING, Waiting, refuse};
use crate::effect::Placed;
use crate::input::Input;
use crate::leader::context::Context;
use crate::leader::grant_stream::GrantStream;
use crate::leader::publisher::Publisher;
use crate::queue::QueueOpening;
use crate::time::Nanos;

impl Clients {
    /// Handles an open request. Returns its input, if the request is new.
    pub(in crate::leader) fn open(
        &mut self,
        tenant: &Tenant,
        request: OpenRequest,
        reply: Option<&str>,
        workers: bool,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        let reply: Option<Arc<str>> = reply.map(Into::into);
        let devices = request.devices;
        if !(1..=limits::DEVICES).contains(&devices) {
            let detail = format!("1 to {} devices can be asked for", limits::DEVICES);
            let failure = Failure::new(Code::Malformed, detail);
            refuse(reply.as_ref(), failure, publisher, cx.actions);
            return None;
        }
        if let Some(first) = self.known(tenant, request.nonce, devices, &request.connection) {
            let client = self.sessions.get_mut(&first)?;
            client.reply = reply;
            self.answer(first, publisher, cx);
            return None;
        }
        if self.is_crowded(tenant) {
            let failure = Failure::new(Code::SessionLimit, "too many open requests wait");
            refuse(reply.as_ref(), failure, publisher, cx.actions);
            return None;
        }
        let key = (tenant.clone(), request.nonce);
        let new = !self.waiting.contains_key(&key);
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            reply: None,
            connection: request.connection,
            since: cx.now,
            devices,
            refusal: None,
        });
        if let Some(refusal) = waiting.refusal {
            // A client that asks again while its request waits learns the reason.
            refuse(
                reply.as_ref(),
                refusal.failure(tenant),
                publisher,
                cx.actions,
            );
        }
        waiting.reply = reply;
        let nonce = request.nonce;
        let tenant = tenant.clone();
        (new && workers).then_some(Input::SessionOpen {
            tenant,
            nonce,
            devices,
            wide: true,
        })
    }

    /// Returns true if the maximum number of requests waits, of all tenants or of this one. So no
    /// tenant takes all the room.
    fn is_crowded(&self, tenant: &Tenant) -> bool {
        const OWN: usize = WAITING / 4;
        let own = (tenant.clone(), 0)..=(tenant.clone(), u64::MAX);
        let waiting = self.waiting.len();
        waiting >= WAITING || (waiting >= OWN && self.waiting.range(own).count() >= OWN)
    }

    /// The first session of a request that has all its sessions; notes the client's connection. If
    /// some are missing, the request counts as new. Once it has other sessions, these have no owner
    /// and expire.
    fn known(
        &mut self,
        tenant: &Tenant,
        nonce: u64,
        devices: u32,
        connection: &str,
    ) -> Option<SessionId> {
        let found = (0..u64::from(devices)).map(|device| {
            let key = (tenant.clone(), nonce.wrapping_add(device));
            self.requests.get(&key).copied()
        });
        let found = found.collect::<Option<Vec<_>>>()?;
        let (first, others) = found.split_first()?;
        if !self.are_apart(&found) {
            return None;
        }
        for session in &found {
            let client = self.sessions.get_mut(session)?;
            client.connection = Some(connection.to_owned());
            client.first = *first;
        }
        self.sessions.get_mut(first)?.others = others.to_vec();
        Some(*first)
    }

    /// Returns true if sessions are on different workers and at different addresses. Successive
    /// leaders, none of which knew all of them, may have placed them independently.
    fn are_apart(&self, sessions: &[SessionId]) -> bool {
        let opened = |session: &SessionId| self.sessions.get(session)?.opened.as_ref();
        let opened: Vec<&Opened> = sessions.iter().filter_map(opened).collect();
        opened.iter().enumerate().all(|(at, one)| {
            opened.iter().take(at).all(|other| {
                let (a, b) = (one.window, other.window);
                one.incarnation != other.incarnation && (a.end() <= b.base || b.end() <= a.base)
            })
        })
    }

    /// Answers the request that waits for a session of an earlier leader, if all its sessions are
    /// known now.
    fn complete(
        &mut self,
        tenant: &Tenant,
        nonce: u64,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        if self.waiting.is_empty() {
            return;
        }
        let waits = (0..u64::from(limits::DEVICES)).find_map(|device| {
            let key = (tenant.clone(), nonce.wrapping_sub(device));
            let waiting = self.waiting.get(&key)?;
            (device < u64::from(waiting.devices)).then_some(key)
        });
        let Some(key) = waits else { return };
        let Some(waiting) = self.waiting.remove(&key) else {
            return;
        };
        match self.known(&key.0, key.1, waiting.devices, &waiting.connection) {
            Some(first) => {
                if let Some(client) = self.sessions.get_mut(&first) {
                    client.reply = waiting.reply;
                }
                self.answer(first, publisher, cx);
            }
            None => {
                self.waiting.insert(key, waiting);
            }
        }
    }

    /// Answers the request with this first session, once all its sessions are accepted.
    fn answer(&self, first: SessionId, publisher: &Publisher, cx: &mut Context<'_>) {
        let Some(client) = self.sessions.get(&first) else {
            return;
        };
        let Some(reply) = &client.reply else { return };
        let all = std::iter::once(&first).chain(&client.others);
        let all = all.map(|session| self.sessions.get(session));
        let ready = all.map(|client| client.filter(|client| client.opening.is_none()));
        let devices = ready.map(|client| client?.opened(cx));
        if let Some(devices) = devices.collect::<Option<Vec<_>>>() {
            let answer = encode(&OpenAnswer::of(&devices));
            publisher.publish(reply.clone(), answer, cx.actions);
        }
    }

    /// Returns true if the sessions of a request wait for one of them to be accepted: the client
    /// has none of them.
    pub(super) fn is_opening(&self, first: SessionId, others: &[SessionId]) -> bool {
        let opens = |session: &SessionId| {
            let client = self.sessions.get(session);
            client.is_some_and(|client| client.opening.is_some())
        };
        let head = self.sessions.get(&first);
        let others = head.map_or(others, |client| &client.others);
        opens(&first) || others.iter().any(opens)
    }

    /// Ends the other sessions of a request after one of them ended before the answer: all or none.
    pub(super) fn abandon(
        &mut self,
        session: SessionId,
        first: SessionId,
        others: &[SessionId],
        refusal: Failure,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        let mut rest = others.to_vec();
        if session != first
            && let Some(client) = self.sessions.get_mut(&first)
        {
            refuse(client.reply.take().as_ref(), refusal, publisher, cx.actions);
            rest = std::mem::take(&mut client.others);
            rest.push(first);
        }
        for session in rest {
            if let Some(client) = self.sessions.get_mut(&session) {
                client.first = session;
                if let Some(nonce) = client.nonce.take() {
                    self.requests.remove(&(client.tenant.clone(), nonce));
                }
                self.orphans.push(session);
            }
        }
    }

    /// The inputs that end sessions without an owner, and those of requests for which there may be
    /// a place now.
    pub(in crate::leader) fn second_thoughts(&mut self) -> Vec<Input> {
        let orphans = std::mem::take(&mut self.orphans);
        let ends = orphans.into_iter().map(|session| Input::SessionClose {
            session,
            after: 0,
            reason: CloseReason::Killed,
        });
        let mut inputs: Vec<_> = ends.collect();
        if std::mem::take(&mut self.vacated) {
            inputs.extend(self.waiting_opens());
        }
        inputs
    }

    /// The inputs of requests that have found no worker yet.
    pub(in crate::leader) fn waiting_opens(&self) -> Vec<Input> {
        let inputs = self.waiting.iter().map(|((tenant, nonce), waiting)| {
            let (tenant, nonce, devices) = (tenant.clone(), *nonce, waiting.devices);
            Input::SessionOpen {
                tenant,
                nonce,
                devices,
                wide: true,
            }
        });
        inputs.collect()
    }

    /// Takes in a placed session. If it is new, its open grant is to be accepted at position
    /// `opening`. If it is an earlier leader's, its ops through `queued` need no intent any more.
    /// The client of the latter may not know that the session was opened, and asks again. If it
    /// asked before the worker was sealed, it may have another session by now, and this one
    /// expires.
    pub(in crate::leader) fn placed(
        &mut self,
        placed: Placed,
        opening: Option<GpuPosition>,
        queued: OpNumber,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) -> QueueOpening {
        let ahead = self.ahead_of(&placed);
        let (session, tenant, nonce) = (placed.session, placed.tenant, placed.nonce);
        let (epoch, leader) = (publisher.epoch, publisher.leader);
        let request = (tenant.clone(), nonce);
        let waiting = match opening {
            Some(_) => self.waiting.remove(&request),
            None => None,
        };
        let (reply, connection) = match waiting {
            Some(waiting) => (waiting.reply, Some(waiting.connection)),
            None => (None, None),
        };
        let ahead = ahead.and_then(|first| Some((first, self.sessions.get_mut(&first)?)));
        let (of, connection) = match ahead {
            Some((first, client)) => {
                client.others.push(session);
                (first, client.connection.clone())
            }
            None => (session, connection),
        };
        let named = self.name(request, session, opening.is_some());
        let opened = Opened {
            session,
            ordinal: placed.ordinal,
            incarnation: placed.incarnation,
            gpu: placed.gpu,
            window: placed.window,
            quota: placed.quota,
            epoch,
            leader,
            properties: None,
            traced: cx.config.traced,
        };
        let mut client = Client {
            opened: Some(opened),
            opening,
            reply,
            nonce: named.then_some(nonce),
            connection,
            ..Client::new(tenant.clone(), of, placed.incarnation, cx)
        };
        if let Some(sign) = self.signs.take(cx.now, (tenant.clone(), session)) {
            self.closings_changed |= sign.closed.is_some();
            (client.connection, client.closed) = (sign.connection, sign.closed);
            client.deadline = sign.deadline;
        }
        self.sessions.insert(session, Box::new(client));
        match opening {
            Some(_) => self.opening.push(session),
            None => self.complete(&tenant, nonce, publisher, cx),
        }
        QueueOpening {
            session,
            tenant,
            epoch,
            queued,
        }
    }

    /// The first session of the request of which this session is a further device. Further devices
    /// follow right behind the first, with the numbers after its nonce.
    fn ahead_of(&self, placed: &Placed) -> Option<SessionId> {
        let nonce = placed.nonce.wrapping_sub(u64::from(placed.device));
        let first = || self.requests.get(&(placed.tenant.clone(), nonce)).copied();
        (placed.device > 0).then(first).flatten()
    }

    /// Notes the session of a request; a new session replaces an old one. Returns true if the
    /// request now names this session.
    fn name(&mut self, request: (Tenant, u64), session: SessionId, new: bool) -> bool {
        if !new {
            return *self.requests.entry(request).or_insert(session) == session;
        }
        let before = self.requests.insert(request, session);
        let before = before.and_then(|session| self.sessions.get_mut(&session));
        if let Some(before) = before {
            before.nonce = None;
        }
        true
    }

    /// Handles a refusal by the order. A place may still come while the request is young.
    pub(in crate::leader) fn refused(
        &mut self,
        tenant: Tenant,
        nonce: u64,
        why: Refused,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        let key = (tenant, nonce);
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        let young = cx.now < waiting.since.saturating_add(cx.config.open_wait);
        if why.code.is_placement() && young {
            waiting.refusal = Some(why);
            return;
        }
        let failure = why.failure(&key.0);
        refuse(waiting.reply.as_ref(), failure, publisher, cx.actions);
        self.waiting.remove(&key);
    }

    /// Refuses the requests that have waited for a worker for too long.
    pub(in crate::leader) fn refuse_waiting(
        &mut self,
        publisher: &Publisher,
        began: Nanos,
        cx: &mut Context<'_>,
    ) {
        let late = cx.now.saturating_sub(cx.config.open_wait);
        self.waiting.retain(|(tenant, _), waiting| {
            let keep = waiting.since.max(began) > late;
            if !keep {
                let failure = waiting
                    .refusal
                    .unwrap_or(Refused::NO_WORKER)
                    .failure(tenant);
                refuse(waiting.reply.as_ref(), failure, publisher, cx.actions);
            }
            keep
        });
    }

    /// Answers the requests with accepted open grants.
    pub(in crate::leader) fn accepted(
        &mut self,
        worker: Incarnation,
        stream: &GrantStream,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        let mut firsts = Vec::new();
        let sessions = &mut self.sessions;
        self.opening.retain(|session| {
            let Some(client) = sessions.get_mut(session) else {
                return false;
            };
            let accepted = client
                .opening
                .is_none_or(|position| position <= stream.accepted);
            let ready = client.incarnation == worker && accepted;
            if ready {
                client.opening = None;
                firsts.push(client.first);
            }
            !ready
        });
        for first in firsts {
            self.answer(first, publisher, cx);
        }
    }
}
