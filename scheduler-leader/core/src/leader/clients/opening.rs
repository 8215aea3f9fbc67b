//! Open requests: they wait for a worker, are answered once the open grant is accepted, and are known
//! again after a failover.

use std::sync::Arc;

use bus_schemas::{Code, Failure, GpuPosition, Incarnation, OpNumber, OpenRequest, Opened, Tenant};

use super::{Client, Clients, WAITING, Waiting, refuse};
use crate::effect::Placed;
use crate::input::Input;
use crate::leader::config::Nanos;
use crate::leader::event::Action;
use crate::leader::link::Link;
use crate::leader::reign::Context;
use crate::leader::voice::Voice;

impl Clients {
    /// An open request. Gives the input it makes, if it is new.
    pub(in crate::leader) fn open(
        &mut self,
        tenant: &Tenant,
        request: OpenRequest,
        reply: Option<&str>,
        workers: bool,
        voice: &Voice,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        let key = (tenant.clone(), request.nonce);
        let reply: Option<Arc<str>> = reply.map(Into::into);
        if let Some(session) = self.requests.get(&key) {
            let client = self.sessions.get_mut(session)?;
            client.reply = reply;
            client.connection = Some(request.connection);
            if client.opening.is_none() {
                client.answer(voice, cx);
            }
            return None;
        }
        if self.waiting.len() >= WAITING {
            let failure = Failure::new(Code::SessionLimit, "too many open requests wait");
            refuse(reply.as_ref(), failure, voice, cx.actions);
            return None;
        }
        let new = !self.waiting.contains_key(&key);
        let waiting = self.waiting.entry(key).or_insert_with(|| Waiting {
            reply: None,
            connection: request.connection,
            since: cx.now,
        });
        waiting.reply = reply;
        let nonce = request.nonce;
        let tenant = tenant.clone();
        (new && workers).then_some(Input::SessionOpen { tenant, nonce })
    }

    /// The inputs of requests that found no worker so far.
    pub(in crate::leader) fn waiting_opens(&self) -> Vec<Input> {
        let inputs = self.waiting.keys().map(|(tenant, nonce)| {
            let (tenant, nonce) = (tenant.clone(), *nonce);
            Input::SessionOpen { tenant, nonce }
        });
        inputs.collect()
    }

    /// A session has a place: a new one, whose open grant is to be accepted at position `opening`, or
    /// one of an earlier leader, of which `queued` ops need no intent any more. The client of that one
    /// may not have heard that it was opened, and asks again; where it asked before the worker was
    /// sealed, it has another session by now, and this one ends when nobody speaks for it.
    pub(in crate::leader) fn placed(
        &mut self,
        placed: Placed,
        opening: Option<GpuPosition>,
        queued: OpNumber,
        voice: &Voice,
        cx: &mut Context<'_>,
    ) {
        let (session, tenant) = (placed.session, placed.tenant);
        let (epoch, leader) = (voice.epoch, voice.leader);
        let request = (tenant.clone(), placed.nonce);
        let (reply, connection) = match self.waiting.remove(&request) {
            Some(waiting) => (waiting.reply, Some(waiting.connection)),
            None => (None, None),
        };
        let first = *self.requests.entry(request).or_insert(session) == session;
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
        };
        let client = Client {
            opened: Some(opened),
            opening,
            reply,
            nonce: first.then_some(placed.nonce),
            connection,
            ..Client::new(tenant.clone(), placed.incarnation, cx)
        };
        if opening.is_some() {
            self.opening.push(session);
        } else {
            client.answer(voice, cx);
        }
        self.sessions.insert(session, client);
        cx.actions.push(Action::QueueOpen {
            session,
            tenant,
            epoch,
            queued,
        });
    }

    /// The order refused a request. While the reign is young a worker may still come.
    pub(in crate::leader) fn refused(
        &mut self,
        tenant: Tenant,
        nonce: u64,
        code: Code,
        voice: &Voice,
        cx: &mut Context<'_>,
    ) {
        let key = (tenant, nonce);
        let Some(waiting) = self.waiting.get(&key) else {
            return;
        };
        if code == Code::NoWorker && cx.now < waiting.since.saturating_add(cx.config.open_wait) {
            return;
        }
        let detail = match code {
            Code::UnknownTenant => format!("there is no tenant {}: create it first", key.0),
            Code::SessionLimit => {
                format!("tenant {} has as many sessions as it may have", key.0)
            }
            Code::NoWorker => "no worker has room for the session".to_owned(),
            _ => "the session cannot be opened".to_owned(),
        };
        refuse(
            waiting.reply.as_ref(),
            Failure::new(code, detail),
            voice,
            cx.actions,
        );
        self.waiting.remove(&key);
    }

    /// Refuses what waited for a worker for too long.
    pub(in crate::leader) fn refuse_waiting(
        &mut self,
        voice: &Voice,
        began: Nanos,
        cx: &mut Context<'_>,
    ) {
        let late = cx.now.saturating_sub(cx.config.open_wait);
        self.waiting.retain(|_, waiting| {
            let keep = waiting.since.max(began) > late;
            if !keep {
                let failure = Failure::new(Code::NoWorker, "no worker can take the session now");
                refuse(waiting.reply.as_ref(), failure, voice, cx.actions);
            }
            keep
        });
    }

    /// Answers the requests whose open grants are accepted.
    pub(in crate::leader) fn accepted(
        &mut self,
        worker: Incarnation,
        link: &Link,
        voice: &Voice,
        cx: &mut Context<'_>,
    ) {
        let sessions = &mut self.sessions;
        self.opening.retain(|session| {
            let Some(client) = sessions.get_mut(session) else {
                return false;
            };
            let accepted = client
                .opening
                .is_none_or(|position| position <= link.accepted);
            let ready = client.incarnation == worker && accepted;
            if ready {
                client.opening = None;
                client.answer(voice, cx);
            }
            !ready
        });
    }
}
