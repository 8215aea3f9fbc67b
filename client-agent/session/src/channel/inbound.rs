//! The inbound half of a session's channel: messages, connection state, timers.

use std::task::Waker;

use async_nats::Client;
use bus::Outgoing;
use bus_schemas::subject::ToClient;
use bus_schemas::{LeaderBeat, Rejected, decode};
use bytes::Bytes;
use client_agent_core::{Event, Nanos, Requests};

use super::outbound::SessionChannel;
use crate::error::closed;

impl SessionChannel {
    /// Handles a message on a subject of the session.
    pub(crate) fn receive(&self, what: ToClient, payload: &Bytes) {
        let mut inner = self.lock();
        let event = match what {
            ToClient::Worker => match decode(payload) {
                Ok(ack) => {
                    self.handle(&mut inner, Event::WorkerAck(&ack));
                    return inner.asking.drain(..).for_each(Waker::wake);
                }
                Err(error) => Err(error),
            },
            ToClient::Leader => match decode(payload) {
                Ok(notice) => return self.handle(&mut inner, Event::LeaderNotice(&notice)),
                Err(error) => Err(error),
            },
            ToClient::Memory => match decode(payload) {
                Ok(answer) => return self.on_memory(&mut inner, &answer),
                Err(error) => Err(error),
            },
            ToClient::Ipc => match decode(payload) {
                Ok(answer) => return self.on_exchange(&mut inner, answer),
                Err(error) => Err(error),
            },
            ToClient::Result => decode(payload).map(|part| Event::Result(part, payload)),
            ToClient::Error => {
                decode(payload).map(|rejected: Rejected| Event::Error(rejected.failure))
            }
        };
        match event {
            Ok(event) => self.handle(&mut inner, event),
            Err(error) => tracing::debug!(%error, ?what, "not understood"),
        }
    }

    /// Handles the start of a leader's term.
    pub fn new_term(&self, beat: LeaderBeat) {
        self.handle(&mut self.lock(), Event::Term(beat));
    }

    /// Handles the loss of the connection.
    pub fn disconnected(&self) {
        self.handle(&mut self.lock(), Event::Disconnected);
    }

    /// Handles the return of the connection.
    pub fn reconnected(&self) {
        let mut inner = self.lock();
        self.handle(&mut inner, Event::Reconnected);
        let now = self.now();
        if let Some(commitment) = &mut inner.commitment {
            commitment.hurry(now);
        }
        inner.exchange.hurry(now);
        self.publish_memory(&mut inner);
        self.publish_exchange(&mut inner);
    }

    /// Waits until the session's task has work.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Handles the timer and delayed flushes of the task; returns the time of the next tick.
    pub(crate) fn tick(&self) -> Option<Nanos> {
        let mut inner = self.lock();
        // Events handled now need not wake the task: it sets its next wakeup below.
        inner.armed = 0;
        let flush = std::mem::take(&mut inner.lingering) && inner.outbox.wants_flush();
        let event = if flush { Event::Flush } else { Event::Tick };
        self.handle(&mut inner, event);
        self.publish_memory(&mut inner);
        self.publish_exchange(&mut inner);
        let now = self.now();
        self.publish_requests(&mut inner, Some(now));
        let memory = inner.commitment.as_ref().and_then(|it| it.next_wakeup());
        let memory = memory.into_iter().chain(inner.exchange.next_wakeup()).min();
        if memory.is_some() {
            // Threads that wait for the answer check their deadlines.
            inner.waiting.drain(..).for_each(Waker::wake);
        }
        let reports = inner.requests.as_ref().and_then(Requests::next_wakeup);
        let next = inner.outbox.next_wakeup().into_iter();
        let next = next.chain(memory).chain(reports).min();
        inner.armed = next.unwrap_or(Nanos::MAX);
        next
    }

    /// Nanoseconds since the channel began: the clock of its outbox.
    pub(crate) fn now(&self) -> Nanos {
        self.clock.elapsed().as_nanos() as Nanos
    }

    /// The next message of the backlog.
    pub(crate) fn next_kept(&self) -> Option<Outgoing> {
        self.lock().backlog.take_next()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Fails the session: it is no longer served.
    pub fn abandon(&self) {
        let mut inner = self.lock();
        inner.over.get_or_insert_with(closed);
        inner.ended = true;
        inner.wake_all();
    }
}
