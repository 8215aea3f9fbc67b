//! Sessions as their clients see them: requested, answered, alive, closed.

mod claims;
mod life;
mod opening;
mod refusal;
mod signs;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bus_schemas::{
    Alive, CloseReason, CloseRequest, Code, Failure, GpuPosition, Incarnation, OpenAnswer, Opened,
    SessionId, Tenant, encode,
};

use self::claims::Claims;
pub(super) use self::claims::Named;
pub(super) use self::refusal::Refused;
pub(super) use self::signs::Signs;
use super::context::Context;
use super::event::Action;
use super::publisher::Publisher;
use crate::effect::EndCause;
use crate::input::Input;
use crate::time::Nanos;

/// Number of ended sessions for which a client can still learn the reason.
const REMEMBERED: usize = 4_096;
/// Maximum number of sessions of one sign of life that are looked at, and of sessions not here of
/// which the client is told. The client names the others again. A message has room for a million,
/// and each answer takes the leader's time and memory.
const NAMED: usize = 65_536;
const TOLD: usize = 1_024;
/// Maximum number of waiting open requests.
const WAITING: usize = 4_096;

/// Maximum number of sessions with closed connections that are passed to the next leader.
const CLOSINGS: usize = 4_096;

/// Time for which messages of a closed connection may still arrive: they are no sign that the
/// client lives.
const ON_THE_WAY: Nanos = 500_000_000;

type Request = (Tenant, u64);

/// An open request that has no session yet.
#[derive(Debug)]
struct Waiting {
    reply: Option<Arc<str>>,
    connection: String,
    since: Nanos,
    /// Number of requested devices.
    devices: u32,
    /// The reason why it has no place yet.
    refusal: Option<Refused>,
}

/// One session.
#[derive(Debug)]
struct Client {
    tenant: Tenant,
    incarnation: Incarnation,
    /// Name of its client's connection, once known.
    connection: Option<String>,
    /// Time at which it expires, unless its client is heard.
    deadline: Nanos,
    /// Time at which its connection was closed, as far as is known.
    closed: Option<Nanos>,
    /// Time at which it last announced ops.
    announced: Nanos,
    /// True if its close was asked for.
    asked: bool,
    /// Reply subjects of requests that wait for its end.
    replies: Vec<Arc<str>>,
    failure: Option<Failure>,
    /// True if its fault is recorded.
    faulted: bool,
    nonce: Option<u64>,
    /// The answer to its client once the worker has accepted the open grant, without the device's
    /// properties.
    opened: Option<Opened>,
    /// The open grant's position, until it is accepted.
    opening: Option<GpuPosition>,
    reply: Option<Arc<str>>,
    /// The session of the request's first device.
    first: SessionId,
    /// Sessions of the request's other devices, in order; set only on the first device's session.
    others: Vec<SessionId>,
}

/// All sessions of a term.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Each client is boxed: a leaf of a tree that grows at its end is half empty.
    sessions: BTreeMap<SessionId, Box<Client>>,
    requests: BTreeMap<Request, SessionId>,
    waiting: BTreeMap<Request, Waiting>,
    /// Sessions with an open grant that is not accepted.
    opening: Vec<SessionId>,
    ended: BTreeMap<SessionId, Failure>,
    ended_order: VecDeque<SessionId>,
    /// Sessions of requests that could not get another session: they are to end.
    orphans: Vec<SessionId>,
    /// True if sessions have ended: there may be a place for waiting requests.
    vacated: bool,
    /// The claims of clients to sessions that are not here.
    claims: Claims,
    /// Signs from before this term of sessions that no worker has reported yet.
    signs: Signs,
    /// True if the ending sessions of closed connections changed since they were last written.
    closings_changed: bool,
}

impl Clients {
    /// Handles a close request. Returns its input, if the request is new.
    pub(super) fn close(
        &mut self,
        tenant: Option<&Tenant>,
        request: &CloseRequest,
        reply: Option<&str>,
        sure: (bool, &[Incarnation]),
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) -> Option<Input> {
        let session = request.session;
        let client = self.sessions.get_mut(&session);
        let client = client.filter(|client| tenant.is_none_or(|tenant| *tenant == client.tenant));
        let Some(client) = client else {
            if let Some(reply) = reply {
                self.send_gone(tenant, Ok(&reply.into()), session, sure, publisher, actions);
            }
            return None;
        };
        if let Some(reply) = reply
            && !client.replies.iter().any(|known| **known == *reply)
        {
            client.replies.truncate(15);
            client.replies.push(reply.into());
        }
        let reason = match request.reason {
            CloseReason::Fault => CloseReason::Killed,
            reason => reason,
        };
        let news = !client.asked || reason != CloseReason::Asked;
        client.asked = true;
        news.then_some(Input::SessionClose {
            session,
            after: request.after,
            reason,
        })
    }

    /// Handles a client's list of its live sessions and their workers.
    pub(super) fn alive(
        &mut self,
        tenant: &Tenant,
        alive: &Alive,
        (settled, lost): (bool, &[Incarnation]),
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        let (mut workers, mut gpus) = (alive.workers.iter(), alive.gpus.iter());
        let mut told = 0;
        for session in alive.sessions.iter().take(NAMED) {
            let (worker, gpu) = (workers.next(), gpus.next());
            match self.sessions.get_mut(session) {
                Some(client) if client.tenant == *tenant => {
                    client.connection = Some(alive.connection.clone());
                    self.closings_changed |= client.closed.take().is_some();
                    client.deadline = cx.now.saturating_add(cx.config.expiry);
                }
                _ if told == TOLD => {}
                other => {
                    told += 1;
                    if let (None, Some(worker)) = (other, worker) {
                        let place = (*worker, gpu.copied());
                        self.claims.note(cx.now, (tenant, *session), place);
                    }
                    let to = Err((tenant, *session));
                    let sure = (settled, lost);
                    self.send_gone(Some(tenant), to, *session, sure, publisher, cx.actions);
                }
            }
        }
    }

    /// Answers a session that is not here and goes on sending. Its fate is known only once its
    /// client has named its worker: the session may have ended with one that was lost before this
    /// term.
    pub(super) fn stray(
        &self,
        (tenant, session): (&Tenant, SessionId),
        sure: (bool, &[Incarnation]),
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        let is_claimed = self.claims.get(tenant, session).is_some();
        if is_claimed || self.ended.contains_key(&session) {
            let to = Err((tenant, session));
            self.send_gone(Some(tenant), to, session, sure, publisher, actions);
        }
    }

    /// Tells the clients with claims to sessions on gone workers.
    pub(super) fn bereave(
        &mut self,
        is_gone: impl Fn(Incarnation) -> bool,
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        let why = failure(EndCause::Lost);
        for (tenant, session) in self.claims.bereave(is_gone) {
            publisher.ended(Err((tenant, session)), 0, &why, actions);
        }
    }

    /// The claims of clients to sessions that are not here.
    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Tells a client that a session has ended, if that is sure. It is sure if the session's worker
    /// is among those `lost`, or once all workers are sealed.
    fn send_gone(
        &self,
        tenant: Option<&Tenant>,
        to: Result<&Arc<str>, (&Tenant, SessionId)>,
        session: SessionId,
        (settled, lost): (bool, &[Incarnation]),
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        let claim = tenant.and_then(|tenant| self.claims.get(tenant, session));
        let is_lost = claim.is_some_and(|claim| claim.is_bereaved(lost));
        let known = self.ended.get(&session).cloned();
        let known = known.or_else(|| is_lost.then(|| failure(EndCause::Lost)));
        if known.is_none() && (!settled || self.sessions.contains_key(&session)) {
            return;
        }
        let gone = || Failure::new(Code::SessionGone, "the session has ended or never was");
        publisher.ended(to, 0, &known.unwrap_or_else(gone), actions);
    }

    /// Notes an activity of a session's client.
    pub(super) fn active(&mut self, session: SessionId, cx: &Context<'_>) {
        let Some(client) = self.sessions.get_mut(&session) else {
            return;
        };
        client.announced = cx.now;
        if client
            .closed
            .is_none_or(|closed| cx.now >= closed.saturating_add(ON_THE_WAY))
        {
            self.closings_changed |= client.closed.take().is_some();
            client.deadline = cx.now.saturating_add(cx.config.expiry);
        }
    }

    /// The sessions that announced ops since then.
    pub(super) fn at_work(&self, since: Nanos) -> impl Iterator<Item = SessionId> + '_ {
        let clients = self.sessions.iter();
        let at_work = clients.filter(move |(_, client)| client.announced >= since.max(1));
        at_work.map(|(session, _)| *session)
    }

    /// Notes the failure of a session, to be reported when the session has ended.
    pub(super) fn failed(&mut self, session: SessionId, failure: Failure) {
        if let Some(client) = self.sessions.get_mut(&session) {
            client.failure.get_or_insert(failure);
        }
    }

    /// Notes that a session's fault is recorded. Returns true for the first one.
    pub(super) fn record_fault(&mut self, session: SessionId) -> bool {
        let client = self.sessions.get_mut(&session);
        client.is_some_and(|it| !std::mem::replace(&mut it.faulted, true))
    }

    /// Ends a session: tells its queue, and the clients that wait for its end.
    pub(super) fn ended(
        &mut self,
        session: SessionId,
        cause: EndCause,
        publisher: &Publisher,
        cx: &mut Context<'_>,
    ) {
        let Some(client) = self.sessions.remove(&session) else {
            return;
        };
        if let Some(nonce) = client.nonce {
            self.requests.remove(&(client.tenant.clone(), nonce));
        }
        let failure = client.failure.unwrap_or_else(|| failure(cause));
        self.vacated = true;
        self.closings_changed |= client.closed.is_some();
        if client.opening.is_some() || self.is_opening(client.first, &client.others) {
            // Its client never had it: another worker may take the request.
            let refusal = match cause {
                EndCause::Lost => Failure::new(Code::NoWorker, "the worker chosen for it is gone"),
                EndCause::Closed(_) => failure.clone(),
            };
            refuse(
                client.reply.as_ref(),
                refusal.clone(),
                publisher,
                cx.actions,
            );
            self.abandon(
                session,
                client.first,
                &client.others,
                refusal,
                publisher,
                cx,
            );
        }
        for reply in &client.replies {
            publisher.ended(Ok(reply), 0, &failure, cx.actions);
        }
        self.ended.insert(session, failure.clone());
        self.ended_order.push_back(session);
        if self.ended_order.len() > REMEMBERED
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        cx.actions.push(Action::QueueEnd { session, failure });
    }
}

impl Client {
    fn new(tenant: Tenant, first: SessionId, incarnation: Incarnation, cx: &Context<'_>) -> Self {
        Self {
            first,
            others: Vec::new(),
            tenant,
            incarnation,
            connection: None,
            deadline: cx.now.saturating_add(cx.config.expiry),
            closed: None,
            announced: 0,
            asked: false,
            replies: Vec::new(),
            failure: None,
            faulted: false,
            nonce: None,
            opened: None,
            opening: None,
            reply: None,
        }
    }

    /// The answer to its client.
    fn opened(&self, cx: &Context<'_>) -> Option<Opened> {
        let device = cx.members.get(self.incarnation);
        let opened = self.opened.clone()?;
        Some(Opened {
            properties: device.and_then(|member| member.properties.clone()),
            ..opened
        })
    }
}

/// The failure that a client is told when its session ends.
fn failure(cause: EndCause) -> Failure {
    let (code, detail) = match cause {
        EndCause::Lost => (Code::DeviceLost, "the worker that held the session is gone"),
        EndCause::Closed(CloseReason::Asked) => (Code::SessionGone, "closed as asked"),
        EndCause::Closed(CloseReason::Expired) => {
            (Code::Expired, "the client was not heard from for too long")
        }
        EndCause::Closed(CloseReason::Fault) => (Code::Device, "the session failed"),
        EndCause::Closed(CloseReason::Killed) => (Code::Killed, "ended by an administrator"),
    };
    Failure::new(code, detail)
}

/// Answers an open request with a failure.
fn refuse(
    reply: Option<&Arc<str>>,
    failure: Failure,
    publisher: &Publisher,
    actions: &mut Vec<Action>,
) {
    if let Some(reply) = reply {
        let answer = OpenAnswer::refusal(failure);
        publisher.publish(reply.clone(), encode(&answer), actions);
    }
}
