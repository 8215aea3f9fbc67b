//! What a channel hears, its timer, and what its outbox asks for.

use bus_schemas::{Intent, LeaderBeat, Rejected, ResultKind, decode};
use client_agent_core::Action;

use super::*;

impl SessionChannel {
    /// Takes what arrived on a subject of the session's.
    pub(crate) fn hear(&self, what: ToClient, payload: &Bytes) {
        let mut inner = self.lock();
        let event = match what {
            ToClient::Worker => match decode(payload) {
                Ok(ack) => return self.tell(&mut inner, Event::WorkerAck(&ack)),
                Err(error) => Err(error),
            },
            ToClient::Leader => match decode(payload) {
                Ok(notice) => return self.tell(&mut inner, Event::LeaderNotice(&notice)),
                Err(error) => Err(error),
            },
            ToClient::Result => decode(payload).map(|part| Event::Result(part, payload)),
            ToClient::Error => {
                decode(payload).map(|rejected: Rejected| Event::Error(rejected.failure))
            }
        };
        match event {
            Ok(event) => self.tell(&mut inner, event),
            Err(error) => tracing::debug!(%error, ?what, "not understood"),
        }
    }

    /// A leader began to reign.
    pub fn reign(&self, beat: LeaderBeat) {
        self.tell(&mut self.lock(), Event::Reign(beat));
    }

    /// The connection is gone.
    pub fn disconnected(&self) {
        self.tell(&mut self.lock(), Event::Disconnected);
    }

    /// The connection is back.
    pub fn reconnected(&self) {
        self.tell(&mut self.lock(), Event::Reconnected);
    }

    /// The session's task has something to look at.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The task looks at the clock and at what was left to it; answers when to look again.
    pub(crate) fn tick(&self) -> Option<Nanos> {
        let mut inner = self.lock();
        // Whatever is told now need not wake the task: it asks when to wake itself below.
        inner.armed = 0;
        let flush = std::mem::take(&mut inner.lingering) && inner.outbox.wants_flush();
        let event = if flush { Event::Flush } else { Event::Tick };
        self.tell(&mut inner, event);
        let next = inner.outbox.next_wakeup();
        inner.armed = next.unwrap_or(Nanos::MAX);
        next
    }

    /// Nanoseconds since the channel began: the clock of its outbox.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.elapsed().as_nanos() as Nanos
    }

    /// The next message of the backlog.
    pub(crate) fn next_kept(&self) -> Option<Outgoing> {
        self.lock().backlog.next()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Nobody serves the session any more.
    pub fn abandon(&self) {
        let mut inner = self.lock();
        inner.over.get_or_insert_with(closed);
        inner.ended = true;
        wake_all(&mut inner);
    }

    pub(super) fn tell(&self, inner: &mut Inner, event: Event<'_>) {
        let mut actions = std::mem::take(&mut inner.actions);
        inner.outbox.handle(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.act(inner, action);
        }
        inner.actions = actions;
        let outbox = &inner.outbox;
        if !inner.waiting.is_empty() && outbox.has_room() && outbox.has_staging_room() {
            inner.waiting.drain(..).for_each(Waker::wake);
        }
        if let Some(next) = inner.outbox.next_wakeup()
            && next < inner.armed
        {
            inner.armed = next;
            self.wake.notify_one();
        }
    }

    fn act(&self, inner: &mut Inner, action: Action) {
        let to = &self.addressees;
        match action {
            Action::PublishBatch {
                bytes,
                first,
                last,
                again,
            } => {
                if !again {
                    inner.observer.submitted(&self.opened, first, last);
                }
                self.publish(inner, &to.batch, bytes, Some(first));
            }
            Action::PublishIntent { bytes } => {
                // The action does not say which ops; the message does, for those who want to know.
                let traced = inner.observer.traced();
                let intent = traced.then(|| decode::<Intent<'_>>(&bytes).ok()).flatten();
                let first = intent.map(|intent| intent.first);
                self.publish(inner, &to.intent, bytes, first);
            }
            Action::PublishState { bytes } => self.publish(inner, &to.state, bytes, None),
            Action::PublishChunk {
                transfer,
                offset,
                len,
            } => {
                if let Some(chunk) = inner.outbox.chunk(transfer, offset, len) {
                    self.publish(inner, &to.data, chunk, None);
                }
            }
            Action::PublishClose { bytes } => {
                let message = Outgoing {
                    subject: to.close.clone(),
                    reply: Some(to.notice.clone()),
                    headers: None,
                    bytes,
                };
                self.hand_over(inner, message);
            }
            Action::Part { op, offset, bytes } => {
                if let Some(slot) = inner.slots.get_mut(&op) {
                    slot.parts.push((offset, bytes));
                    slot.wake();
                }
            }
            Action::Result {
                kind: ResultKind::Printed,
                bytes,
                ..
            } => inner.printed = bytes,
            Action::Result {
                op, bytes, events, ..
            } => {
                if !events.is_empty() {
                    inner.observer.timed(&events);
                }
                inner.observer.answered(op, &self.opened);
                // Nobody waits for it any more if there is no slot.
                if let Some(slot) = inner.slots.get_mut(&op) {
                    slot.done = Some(bytes);
                    slot.wake();
                }
            }
            Action::Image { transfer, refused } => {
                if let Some(verdict) = inner.images.get_mut(&transfer)
                    && let Verdict::Waiting(wakers) =
                        std::mem::replace(verdict, Verdict::Said(refused))
                {
                    wakers.into_iter().for_each(Waker::wake);
                }
            }
            Action::Failed { failure, .. } => {
                inner.observer.failed(&failure, &self.opened);
                inner.over = Some(failure);
                wake_all(inner);
            }
            Action::Ended => {
                inner.over.get_or_insert_with(closed);
                inner.ended = true;
                wake_all(inner);
            }
        }
    }

    /// Publishes a message; `op` is the first op in one that belongs to a request.
    fn publish(&self, inner: &mut Inner, subject: &Subject, bytes: Bytes, op: Option<OpNumber>) {
        let traced = op.filter(|_| inner.observer.traced());
        let message = Outgoing {
            subject: subject.clone(),
            reply: None,
            headers: traced.and_then(|op| inner.observer.headers(op)),
            bytes,
        };
        self.hand_over(inner, message);
    }

    fn hand_over(&self, inner: &mut Inner, message: Outgoing) {
        if inner.backlog.publish(&self.client, message) {
            self.wake.notify_one();
        }
    }
}
