//! Completions of the device, on their way to the sequencer, the client and the pager.

use std::time::Duration;

use actix::{Context, Handler};
use bus_schemas::{Parcel, ResultKind, limits};
use device::{Completion, KernelTime, OpResult, Recharged};
use gpu_worker_core::dispatch;
use gpu_worker_core::ledger::KernelRan;
use gpu_worker_core::pager::Charge;
use gpu_worker_core::sequencer::{CompletedEvent, Event};

use super::actor::{Answers, GpuWorker, Incoming};
use super::device_event::DeviceEvent;
use super::device_event::EventsReady;
use super::pager::{PagerMessage, SliceUsage};
use super::session_buffers::StartedSlice;

/// Maximum time that the actor polls for the end of a small slice before it serves the bus again.
const POLL: Duration = Duration::from_micros(30);
/// Maximum bytes of printed text kept for a client that does not fetch it.
const PRINTED_HELD: usize = 4 * limits::PRINTED_BYTES;

impl Handler<EventsReady> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: EventsReady, ctx: &mut Context<Self>) {
        let events = self.device.events();
        self.on_device_events(events);
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// Drops printed text if the client has left too much unfetched. A program still gets a result
    /// for each sync; a full buffer loses text, as on a GPU.
    fn bound_printed(&mut self, completion: &mut Completion) {
        if completion
            .results
            .iter()
            .all(|result| result.printed.is_empty())
            && completion.printed.is_empty()
        {
            return;
        }
        let held = self.held.get(&completion.session);
        let answers = held.iter().flat_map(|held| &held.results);
        let mut held: usize = answers
            .filter(|answer| matches!(answer.kind, ResultKind::Sync | ResultKind::Printed))
            .map(|answer| answer.total as usize)
            .sum();
        for result in &mut completion.results {
            held += result.printed.len();
            if held > PRINTED_HELD {
                result.printed = Vec::new();
            }
        }
        if held + completion.printed.len() > PRINTED_HELD {
            completion.printed = Vec::new();
        }
    }

    fn on_completed(&mut self, mut completion: Completion) -> SliceUsage {
        self.bound_printed(&mut completion);
        let failed = completion.fault.as_ref().map(|(op, _)| *op);
        if let (Some(op), false) = (failed, completion.printed.is_empty()) {
            completion.results.push(OpResult {
                op,
                kind: ResultKind::Printed,
                bytes: None,
                printed: std::mem::take(&mut completion.printed),
                device_ns: completion.device_ns,
            });
        }
        self.spans.completed(&completion);
        let sizes: Vec<u64> = completion.results.iter().map(result_bytes).collect();
        let held = self.held.get_mut(&completion.session);
        let started = held.and_then(|held| held.started.pop_front());
        let StartedSlice {
            first,
            last,
            declared,
            ..
        } = started.unwrap_or_default();
        let event = CompletedEvent {
            position: completion.position,
            session: completion.session,
            began: completion.began.map(|at| self.at(at)),
            device_ns: completion.device_ns,
            results: &sizes,
            declared,
            fault: completion
                .fault
                .as_ref()
                .map(|(op, failure)| (*op, failure)),
        };
        let mut answers = Answers {
            results: completion.results,
            events: completion.events.into(),
            reported_ns: 0,
        };
        let mut incoming = Incoming::Results(&mut answers);
        self.handle_event(Event::Completed(event), &mut incoming);
        if let Some(held) = self.held.get_mut(&completion.session) {
            held.since_ns += completion.device_ns.saturating_sub(answers.reported_ns);
            held.events.add(answers.events);
        }
        self.settle_images(completion.session);
        if self.dispatch.has_away() {
            let session = completion.session;
            self.dispatch.handle(dispatch::Event::Completed { session });
        }
        self.completed_at = self.now();
        let kernels = completion.kernels.iter();
        SliceUsage {
            first,
            last,
            session: completion.session,
            resident: completion.resident,
            faulted: completion.fault.is_some(),
            device_ns: completion.device_ns,
            launches: completion.launches,
            sm_ns: completion.sm_ns,
            names: self.names.take(completion.kernels.iter().map(|k| k.key)),
            kernels: kernels.map(ran).collect(),
        }
    }

    fn on_device_events(&mut self, events: Vec<DeviceEvent>) {
        let mut uses = Vec::new();
        for event in events {
            match event {
                DeviceEvent::Completed(completion) => uses.push(self.on_completed(completion)),
                DeviceEvent::Exchanged(session, came) => {
                    let next = self.exports.done(session, came);
                    self.exchange(next);
                }
                DeviceEvent::ExportsGone(gone) => {
                    gone.into_iter()
                        .for_each(|export| self.exports.freed(export));
                }
                DeviceEvent::Lost(why) => self.lost = Some(why),
                DeviceEvent::Recharged(changed, saved) => {
                    // The pager uses the last value of each session, so the order must be kept.
                    self.send_uses(&mut uses);
                    let charges = changed.iter().map(charge).collect();
                    self.pager.do_send(PagerMessage::Recharged(charges, saved));
                }
                DeviceEvent::Moved(moves, used) => {
                    self.send_uses(&mut uses);
                    self.on_moved(moves, used);
                }
                DeviceEvent::Prepared(hash, answer) => {
                    self.on_prepared(hash, answer);
                }
                DeviceEvent::Compiled(tenant, took) => {
                    self.pager.do_send(PagerMessage::Compiled(tenant, took))
                }
                DeviceEvent::Closed(session) => {
                    self.exports.closed(session);
                    self.pager.do_send(PagerMessage::Close { session });
                    let closed = Event::Closed { session };
                    self.handle_event(closed, &mut Incoming::Nothing);
                }
                DeviceEvent::Opened(session, failure) => {
                    let opened = Event::Opened {
                        session,
                        failure: failure.as_ref(),
                    };
                    self.handle_event(opened, &mut Incoming::Nothing);
                }
            }
        }
        self.send_uses(&mut uses);
    }

    fn send_uses(&mut self, uses: &mut Vec<SliceUsage>) {
        if !uses.is_empty() {
            let reports = self.core.reports();
            let uses = std::mem::take(uses);
            self.pager.do_send(PagerMessage::Completed(uses, reports));
        }
    }

    /// Polls for the end of a small slice that is the only work. Polling is faster than waiting,
    /// because a wake-up takes longer than the slice.
    pub(super) fn poll_device(&mut self) {
        let (running, behind) = self.core.load();
        if !std::mem::take(&mut self.small) || running != 1 || behind {
            return;
        }
        let events = self.device.poll(POLL);
        if !events.is_empty() {
            self.on_device_events(events);
            self.handle_dispatch(dispatch::Event::Changed);
        }
    }
}

fn ran(kernel: &KernelTime) -> KernelRan {
    KernelRan {
        key: kernel.key,
        launches: kernel.count,
        device_ns: kernel.total_ns,
        sm_ns: kernel.sm_ns,
        least_ns: kernel.least_ns,
        most_ns: kernel.most_ns,
    }
}

/// Returns the bytes that a result adds to those held for its client.
fn result_bytes(result: &OpResult) -> u64 {
    let bytes = result.bytes.as_ref().map(Parcel::len);
    bytes.unwrap_or(result.printed.len()) as u64
}

fn charge(recharged: &Recharged) -> Charge {
    Charge {
        session: recharged.session,
        charged: recharged.charged,
        saved: recharged.saved,
    }
}
