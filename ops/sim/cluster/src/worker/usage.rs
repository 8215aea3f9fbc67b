//! The real resources at work: memory that sessions hold, and time that they use.

use bus_schemas::{SessionId, encode};
use gpu_worker_core::ledger::Cut;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::resources::CompletedSlice;

use super::device::{SimDevice, SliceEnd};
use super::{REPORT, Reports, WorkerNode};
use crate::MILLI;
use crate::fact::WorkerFact;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    /// Accounts for an ended slice: its use, and the memory that its session holds now.
    pub(super) fn count_usage(&mut self, io: &mut Io, end: &SliceEnd) {
        let session = end.start.session;
        let resident = self.device.held(session);
        let used = SliceUse {
            session,
            device_ns: end.device_ns,
            launches: end.kernels.len() as u64,
            sm_ns: end.sm_ns,
            kernels: &end.kernels,
        };
        let slice = CompletedSlice {
            first: end.start.first,
            last: end.start.last,
            resident,
            faulted: end.fault.is_some(),
            used,
        };
        let answer = self.resources.completed(io.now, [slice]);
        if let Reports::WhileUsed(every) = self.reports
            && !self.measuring
        {
            self.measuring = true;
            io.later(io.now + every, REPORT);
        }
        let fact = WorkerFact::Used {
            session,
            launches: used.launches,
            device_ns: used.device_ns,
            sm_ns: used.sm_ns,
        };
        self.fact(io, fact);
        let fact = WorkerFact::Held {
            session,
            most: resident,
            resident: Some(resident),
        };
        self.fact(io, fact);
        self.admitted(io, answer);
    }

    /// Removes a session that has left the device.
    pub(super) fn vacate(&mut self, io: &mut Io, session: SessionId) {
        let answer = self.resources.close(io.now, session);
        // It has no memory left to move.
        self.moves.moves.retain(|it| it.session != session);
        let fact = WorkerFact::Held {
            session,
            most: 0,
            resident: Some(0),
        };
        self.fact(io, fact);
        // Until now the session kept its memory and its window.
        let open = false;
        self.fact(io, WorkerFact::Device { session, open });
        self.admitted(io, answer);
    }

    /// Handles the time of a report.
    pub(super) fn report_again(&mut self, io: &mut Io) {
        match self.reports {
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
        let measured = self.resources.measured();
        if let Some(measured) = &measured {
            let subject = self.subjects.measured(self.identity.incarnation);
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
        for block in self.resources.cut(io.now, &cut) {
            let block = Box::new(block);
            self.fact(io, WorkerFact::UsageCut { block });
        }
        let usage = self.resources.usage(io.now);
        let subject = self.subjects.usage(self.identity.incarnation);
        io.publish(subject, encode(&usage));
    }
}
