//! The state of a session's channel, under its lock.

use std::collections::HashMap;
use std::task::Waker;

use async_nats::Subject;
use bus::Backlog;
use bus_schemas::{Failure, OpNumber};
use bytes::Bytes;
use client_agent_core::{Action, Addresses, Commitment, Exchange, Nanos, Outbox, Requests};

use super::places::Places;
use crate::observer::Observer;

/// The subjects of a session's messages.
pub(super) struct Addressees {
    pub(super) batch: Subject,
    pub(super) data: Subject,
    pub(super) state: Subject,
    pub(super) memory: Subject,
    pub(super) offer: Subject,
    pub(super) ipc: Subject,
    pub(super) intent: Subject,
    pub(super) close: Subject,
    pub(super) notice: Subject,
    pub(super) requests: Subject,
}

/// An op that gets a result.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) waker: Option<Waker>,
    /// Parts of a copy to the host that are not taken yet, with their offsets in it.
    pub(super) parts: Vec<(u64, Bytes)>,
    /// The complete answer: no more parts come.
    pub(super) done: Option<Vec<u8>>,
}

impl Slot {
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

pub(super) struct Inner {
    pub(super) outbox: Outbox,
    pub(super) addresses: Addresses,
    /// The worker's commitment; `None` if the worker is of a build that is not asked.
    pub(super) commitment: Option<Commitment>,
    /// Requests about memory of other sessions.
    pub(super) exchange: Exchange,
    pub(super) actions: Vec<Action>,
    pub(super) slots: HashMap<OpNumber, Slot>,
    /// Images by transfer.
    pub(super) images: HashMap<u64, ImageState>,
    /// Threads that wait for room, or for the end.
    pub(super) waiting: Vec<Waker>,
    /// Threads that wait for the worker's answer to an offered copy.
    pub(super) asking: Vec<Waker>,
    /// Destination addresses of large copies.
    pub(super) places: Places,
    pub(super) backlog: Backlog,
    /// The time at which the session's task checks the clock next; `Nanos::MAX` is never.
    pub(super) armed: Nanos,
    /// True if the task must flush.
    pub(super) lingering: bool,
    pub(super) observer: Box<dyn Observer>,
    /// The requests, if the cluster traces.
    pub(super) requests: Option<Requests>,
    /// The output of kernels before the session failed.
    pub(super) printed: Vec<u8>,
    pub(super) over: Option<Failure>,
    pub(super) ended: bool,
}

/// The worker's verdict on an image.
pub(super) enum ImageState {
    Waiting(Vec<Waker>),
    Known(Option<Failure>),
}

impl Inner {
    /// Says whether the worker must be asked before the session holds `bytes` more.
    #[inline]
    pub(super) fn lacks(&self, bytes: u64) -> bool {
        let held = self.addresses.held();
        let lacks = |it: &Commitment| bytes > 0 && !it.has_room(held, bytes);
        self.commitment.as_ref().is_some_and(lacks)
    }

    /// Adds to the answer of an op, unless no thread waits for it any more.
    pub(super) fn answer(&mut self, op: OpNumber, add: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots.get_mut(&op) {
            add(slot);
            slot.wake();
        }
    }

    /// Stores the worker's verdict on an image.
    pub(super) fn answer_image(&mut self, transfer: u64, refused: Option<Failure>) {
        let known = ImageState::Known(refused);
        if let Some(image) = self.images.get_mut(&transfer)
            && let ImageState::Waiting(wakers) = std::mem::replace(image, known)
        {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes all threads that wait for room, for an answer or for the end.
    pub(super) fn wake_all(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
        self.asking.drain(..).for_each(Waker::wake);
        for image in self.images.values_mut() {
            if let ImageState::Waiting(wakers) = image {
                wakers.drain(..).for_each(Waker::wake);
            }
        }
        self.slots.values_mut().for_each(Slot::wake);
    }
}
