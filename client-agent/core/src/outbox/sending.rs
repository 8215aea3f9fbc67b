//! Sending: batches, announcements and transfers, each repeated until it is answered.

use bus_schemas::{Batch, CloseReason, WIRE_VERSION};

use super::{Outbox, RESENT, Sent, State};
use crate::event::{Action, Nanos};

impl Outbox {
    /// True if the pending ops must not wait for more: they are twice the ops that the worker may
    /// not have received. So the first ops of a burst arrive at once, and batches grow from then
    /// on. A device that needs twice as long to run ops as the program needs to push them never
    /// waits for more.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let under_way = self.sent_through - self.received;
        self.columns.ops() as u64 >= 2 * under_way || self.is_full_or_urgent()
    }

    #[inline]
    pub(super) fn is_full_or_urgent(&self) -> bool {
        self.sent_through < self.urgent
            || self.columns.ops() >= self.settings.flush_ops as usize
            || self.columns.bytes() >= self.settings.flush_bytes
    }

    /// Resends the messages that are due.
    pub(super) fn resend(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let mut tell = false;
        if self.to_worker.fire(now) {
            actions.extend(
                self.sent
                    .iter()
                    .take(RESENT)
                    .map(|sent| Action::PublishBatch {
                        bytes: sent.bytes.clone(),
                        first: sent.first,
                        last: sent.last,
                        again: true,
                    }),
            );
            self.transfers.rewind();
            self.ask_for_content(true, actions);
            self.ask_for_images(actions);
            // The lost message may have been credit.
            tell |= self.sent.is_empty();
        }
        if self.to_leader.fire(now) {
            if self.announced > self.queued {
                self.runs.seek(self.queued + 1);
            } else if self.failure.is_none() && self.announceable() > self.queued {
                // The lost message may have been credit; a repeated op asks for it.
                self.runs.seek(self.queued.max(1));
                self.announce(self.queued.max(1), actions);
            }
            if let State::Asked(reason) = self.state {
                self.publish_close(reason, actions);
            }
        }
        tell |= self.from_worker.fire(now);
        tell |= self.tell_results.fire(now);
        if tell {
            self.publish_state(actions);
        }
    }

    /// Sends all that may be sent and begins to wait for the answers.
    pub(super) fn advance(&mut self, now: Nanos, flush: bool, actions: &mut Vec<Action>) {
        let mut more = false;
        if self.failure.is_none() {
            let start = actions.len();
            self.send_batches(flush, actions);
            let batches = actions.len() - start;
            let through = self.announceable().min(self.queue_through);
            if !self.gathers(now, through) {
                self.announce(through, actions);
            }
            if !self.alone {
                // The leader's path to the worker is the longer one, so its message goes first.
                let new = actions.get_mut(start..).unwrap_or_default();
                new.rotate_left(batches);
            }
            self.ask_for_content(false, actions);
            while let Some(chunk) = self.transfers.next_chunk() {
                more = true;
                actions.push(Action::PublishChunk {
                    transfer: chunk.transfer,
                    offset: chunk.offset,
                    len: chunk.len,
                });
            }
        } else {
            self.gathering = None;
        }
        if let State::Closing(reason) = self.state {
            // The worker forgets results with the session, so the results come first.
            let waits = reason == CloseReason::Asked && self.results.first_waiting().is_some();
            if !waits {
                self.state = State::Asked(reason);
                self.publish_close(reason, actions);
            }
        }
        self.wait(now, more);
    }

    /// Starts, continues or ends the wait for answers; `more` if chunks of transfers were sent.
    fn wait(&mut self, now: Nanos, more: bool) {
        let blocked = self.last > self.sent_through && self.is_due();
        self.starved &= !self.has_staging_room();
        let busy = self.transfers.is_busy() || self.transfers.has_images();
        let moving = !self.sent.is_empty() || busy;
        let worker = moving || blocked || self.starved;
        let closing = matches!(self.state, State::Asked(_));
        let leader = closing || self.announceable() > self.queued;
        let waiting = self.results.first_waiting();
        let results = waiting.is_some_and(|op| op <= self.sent_through);
        let untold = self.results.delivered() > self.results_told;
        let live = self.failure.is_none();
        // Megabytes that wait in the broker are not lost; if resent, they would wait there twice.
        let transit = self.transfers.on_the_way() * self.settings.byte_ns;
        self.to_worker.allow(now, transit, more);
        self.to_worker.arm(now, live && worker);
        self.to_leader.arm(now, closing || live && leader);
        let missing = self.failing.is_some();
        self.from_worker.arm(now, live && (results || missing));
        self.tell_results.arm(now, live && untold);
    }

    fn send_batches(&mut self, flush: bool, actions: &mut Vec<Action>) {
        while self.last > self.sent_through && (flush || self.is_due()) {
            let credit = self.send_through.saturating_sub(self.sent_through);
            let ops = credit.min(u64::from(self.settings.flush_ops)) as usize;
            let cut = self.columns.front(ops, self.settings.flush_bytes);
            if cut.count == 0 {
                break;
            }
            let (descriptors, blob) = self.columns.slices(&cut);
            let size = descriptors.len() + blob.len();
            let first = self.sent_through + 1;
            let last = self.sent_through + u64::from(cut.count);
            let message = Batch {
                v: WIRE_VERSION,
                first,
                count: cut.count,
                results: self.results.delivered(),
                descriptors,
                blob,
            };
            let bytes = self.batches.encode(&message, size);
            self.columns.remove(&cut);
            self.results_told = self.results.delivered();
            self.sent_through = last;
            self.unreceived += size;
            self.sent.push_back(Sent {
                bytes: bytes.clone(),
                first,
                last,
                size,
            });
            actions.push(Action::PublishBatch {
                bytes,
                first,
                last,
                again: false,
            });
        }
    }
}
