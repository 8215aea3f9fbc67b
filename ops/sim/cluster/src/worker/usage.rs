//! Ends of work on the device, and the reports of its use.

use bus_schemas::{SessionId, encode};
use gpu_worker_core::ledger::Cut;
use gpu_worker_core::worker::{CompletedSlice, Event};

use super::device::{Ended, SimDevice, SliceEnd};
use super::{REPORT, Reports, WorkerNode};
use crate::MILLI;
use crate::fact::WorkerFact;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    /// Handles the end of a piece of work on the device.
    pub(super) fn ended(&mut self, io: &mut Io) {
        match self.device.ended(io) {
            Some(Ended::Opened(session)) => self.event(io, None, Event::Opened(session, None)),
            Some(Ended::Closed(session)) => self.closed(io, session),
            Some(Ended::Slice(end)) => self.completed(io, *end),
            None => {}
        }
        let gone = self.device.take_gone();
        if !gone.is_empty() {
            for export in gone.iter().copied() {
                self.fact(io, WorkerFact::ExportForgotten { export });
            }
            self.event(io, None, Event::ExportsGone(gone));
        }
    }

    fn completed(&mut self, io: &mut Io, end: SliceEnd) {
        let session = end.start.session;
        if let Reports::WhileUsed(every) = self.options.reports
            && !self.measuring
        {
            self.measuring = true;
            io.later(io.now + every, REPORT);
        }
        let resident = self.device.held(session);
        let slice = CompletedSlice {
            position: end.start.position,
            session,
            began: Some(io.now.saturating_sub(end.device_ns)),
            device_ns: end.device_ns,
            launches: end.kernels.len() as u64,
            sm_ns: end.sm_ns,
            kernels: end.kernels,
            resident,
            results: end.answers,
            fault: end.fault,
            declared: end.declared,
            ..CompletedSlice::default()
        };
        let fact = WorkerFact::Used {
            session,
            launches: slice.launches,
            device_ns: slice.device_ns,
            sm_ns: slice.sm_ns,
        };
        self.fact(io, fact);
        let fact = WorkerFact::Held {
            session,
            most: resident,
            resident: Some(resident),
        };
        self.fact(io, fact);
        self.event(io, None, Event::Completed(slice));
    }

    /// Handles a session that has left the device. It has no memory left to move.
    fn closed(&mut self, io: &mut Io, session: SessionId) {
        self.moves.drop_of(session);
        let fact = WorkerFact::Held {
            session,
            most: 0,
            resident: Some(0),
        };
        self.fact(io, fact);
        // Until now the session kept its memory and its window.
        let open = false;
        self.fact(io, WorkerFact::Device { session, open });
        self.event(io, None, Event::Closed(session));
    }

    /// Handles the time of a report.
    pub(super) fn report_again(&mut self, io: &mut Io) {
        match self.options.reports {
            Reports::Always(every) => {
                self.report(io);
                io.later(io.now + every, REPORT);
            }
            Reports::WhileUsed(every) => {
                self.measuring = self.report_measured(io);
                if self.measuring {
                    io.later(io.now + every, REPORT);
                }
            }
        }
    }

    fn report_measured(&mut self, io: &mut Io) -> bool {
        let measured = self.worker.resources_mut().measured();
        if let Some(measured) = &measured {
            let subject = self.subjects.measured(self.options.identity.incarnation);
            io.publish(subject, encode(measured));
        }
        measured.is_some()
    }

    /// Publishes the measurements and the use.
    pub(super) fn report(&mut self, io: &mut Io) {
        self.report_measured(io);
        let cut = Cut {
            at_ms: io.now / MILLI,
            last: false,
        };
        for block in self.worker.resources_mut().cut(io.now, &cut) {
            let block = Box::new(block);
            self.fact(io, WorkerFact::UsageCut { block });
        }
        let usage = self.worker.resources().usage(io.now);
        let subject = self.subjects.usage(self.options.identity.incarnation);
        io.publish(subject, encode(&usage));
    }
}
