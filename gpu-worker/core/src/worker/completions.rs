//! The device's answers about slices, sessions and transfers.

use bus_schemas::{Compilation, OpNumber, ResultKind, SessionId};
use device::OpResult;

use super::results::Answers;
use super::turn::{Current, Turn};
use super::{Buffers, CompletedSlice, Worker};
use crate::dispatch;
use crate::meter::SliceUse;
use crate::resources;
use crate::sequencer::{CompletedEvent, Event};

impl<B: Buffers> Worker<B> {
    /// Handles the end of a slice. Its use is counted before it is reported.
    pub(super) fn on_completed(&mut self, turn: &mut Turn<'_, B>, mut slice: CompletedSlice) {
        let session = slice.session;
        let started = self
            .sessions
            .get_mut(session)
            .and_then(|entry| entry.started.pop_front());
        let ops = started.map_or((0, 0), |started| (started.first, started.last));
        self.count_use(turn, ops, &mut slice);
        let mut answers = self.answers(&mut slice);
        let sizes = answers.sizes();
        let compiled = self.take_compiled(session, ops.0);
        let scanned = started.map_or(0, |started| started.declared);
        let fault = slice.fault.as_ref();
        let event = CompletedEvent {
            position: slice.position,
            session,
            began: slice.began,
            device_ns: slice.device_ns,
            results: &sizes,
            compiled: &compiled,
            declared: slice.declared.unwrap_or(scanned),
            fault: fault.map(|(op, failure)| (*op, failure)),
        };
        let event = Event::Completed(event);
        self.decide(turn, event, &mut Current::Results(&mut answers));
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.results.complete(slice.device_ns, answers);
        }
        if self.dispatch.has_away() {
            self.dispatch(turn, dispatch::Event::Completed { session });
        }
        self.settle_images(turn, session);
        self.completed_at = turn.now;
    }

    /// Takes the compilations of the modules that a slice has loaded.
    fn take_compiled(&mut self, session: SessionId, first: OpNumber) -> Vec<Compilation> {
        let mut compiled = Vec::new();
        self.compiled.retain(|(of, op, compilation)| {
            let is_own = (*of, *op) == (session, first);
            compiled.extend(is_own.then_some(*compilation));
            !is_own
        });
        compiled
    }

    /// Counts the use of a slice, and the memory that its session holds now.
    fn count_use(&mut self, turn: &mut Turn<'_, B>, ops: (u64, u64), slice: &mut CompletedSlice) {
        self.resources.names(slice.names.drain(..));
        let used = SliceUse {
            session: slice.session,
            device_ns: slice.device_ns,
            launches: slice.launches,
            sm_ns: slice.sm_ns,
            kernels: &slice.kernels,
        };
        let completed = resources::MeteredSlice {
            first: ops.0,
            last: ops.1,
            resident: slice.resident,
            faulted: slice.fault.is_some(),
            used,
        };
        let answer = self.resources.completed(turn.now, [completed]);
        self.admit(turn, answer);
        self.changed = true;
    }

    /// Takes the answers of a slice to its client. What kernels have printed comes with the answer to a sync,
    /// or with the fault.
    fn answers(&self, slice: &mut CompletedSlice) -> Answers {
        if let Some(entry) = self.sessions.get(slice.session) {
            entry
                .results
                .bound_printed(&mut slice.results, &mut slice.printed);
        }
        if let (Some((op, _)), false) = (&slice.fault, slice.printed.is_empty()) {
            slice.results.push(OpResult {
                op: *op,
                kind: ResultKind::Printed,
                bytes: None,
                printed: std::mem::take(&mut slice.printed),
                device_ns: slice.device_ns,
            });
        }
        let results = std::mem::take(&mut slice.results);
        Answers::new(results, std::mem::take(&mut slice.events))
    }

    /// Handles a session that has left the device.
    pub(super) fn on_closed(&mut self, turn: &mut Turn<'_, B>, session: SessionId) {
        self.exports.closed(session);
        let answer = self.resources.close(turn.now, session);
        self.admit(turn, answer);
        self.changed = true;
        let event = Event::Closed { session };
        self.decide(turn, event, &mut Current::Nothing);
    }
}
