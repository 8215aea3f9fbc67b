//! Events of the device on their way to the worker core.

use std::time::Duration;

use actix::{Context, Handler};
use bus_schemas::Compilation;
use device::{Completion, Moved, SwapUse};
use gpu_worker_core::worker::{CompletedSlice, Event};

use super::actor::GpuWorker;
use super::device_command::Command as DeviceCommand;
use super::device_event::{DeviceEvent, EventsReady};
use super::names::Module;
use super::stager::Checked;

/// Maximum time that the actor polls for the end of a small slice before it serves the bus again.
const POLL: Duration = Duration::from_micros(30);

impl Handler<EventsReady> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: EventsReady, ctx: &mut Context<Self>) {
        let events = self.device.events();
        self.on_device_events(events);
        self.settle(ctx);
    }
}

impl Handler<Checked> for GpuWorker {
    type Result = ();

    fn handle(&mut self, checked: Checked, ctx: &mut Context<Self>) {
        self.handle_event(Event::Image(checked.0));
        self.settle(ctx);
    }
}

impl GpuWorker {
    fn on_device_events(&mut self, events: Vec<DeviceEvent>) {
        for event in events {
            self.on_device_event(event);
        }
    }

    fn on_device_event(&mut self, event: DeviceEvent) {
        match event {
            DeviceEvent::Completed(completion) => {
                self.slice_times.completed(&completion);
                let slice = self.completed(completion);
                self.handle_event(Event::Completed(slice));
            }
            DeviceEvent::Exchanged(session, came) => {
                self.handle_event(Event::Exchanged(session, came));
            }
            DeviceEvent::ExportsGone(gone) => self.handle_event(Event::ExportsGone(gone)),
            DeviceEvent::Lost(why) => self.lost = Some(why),
            DeviceEvent::Recharged(changed, saved) => {
                self.handle_event(Event::Recharged(&changed, saved));
            }
            DeviceEvent::Moved(moves, used) => self.on_moved(moves, used),
            DeviceEvent::Prepared(hash, answer) => {
                if answer.is_err() {
                    // The compiler may have seen that the device is lost, which its thread reports.
                    self.device.command(DeviceCommand::Wake);
                }
                let compiled = answer.as_ref().ok().and_then(|info| info.compiled);
                let compilation = compiled.map(|(began, ended)| Compilation {
                    began: self.at(began),
                    ended: self.at(ended),
                });
                let answer = answer.map(|info| {
                    let bytes = info.bytes;
                    (Module::new(hash, info).into(), bytes)
                });
                self.handle_event(Event::Prepared(hash, answer, compilation));
            }
            DeviceEvent::Compiled(tenant, took) => {
                self.handle_event(Event::Compiled(&tenant, super::nanos_of(took)));
            }
            DeviceEvent::Closed(session) => self.handle_event(Event::Closed(session)),
            DeviceEvent::Opened(session, failure) => {
                self.handle_event(Event::Opened(session, failure));
            }
        }
    }

    fn completed(&self, completion: Completion) -> CompletedSlice {
        let keys = completion.kernels.iter().map(|kernel| kernel.key);
        CompletedSlice {
            names: self.worker.buffers().names().take(keys),
            position: completion.position,
            session: completion.session,
            began: completion.began.map(|at| self.at(at)),
            device_ns: completion.device_ns,
            launches: completion.launches,
            sm_ns: completion.sm_ns,
            kernels: completion.kernels,
            resident: completion.resident,
            results: completion.results,
            events: completion.events,
            printed: completion.printed,
            fault: completion.fault,
            declared: None,
        }
    }

    fn on_moved(&mut self, moves: Vec<Moved>, used: SwapUse) {
        for moved in &moves {
            let session = moved.session;
            if let Some(failure) = &moved.failure {
                tracing::warn!(%session, out = moved.out, %failure, "its memory could not be moved");
            } else {
                let (out, bytes, took) = (moved.out, moved.bytes, moved.took);
                tracing::debug!(%session, out, bytes, ?took, "its memory has moved");
                self.slice_times.moved(moved);
            }
        }
        self.handle_event(Event::Moved(moves, Some(used)));
    }

    /// Polls for the end of a small slice that is the only work. Polling is faster than waiting,
    /// because a wake-up takes longer than the slice.
    pub(super) fn poll_device(&mut self) {
        let (running, behind) = self.core().load();
        if !std::mem::take(&mut self.small) || running != 1 || behind {
            return;
        }
        let events = self.device.poll(POLL);
        self.on_device_events(events);
    }
}
