//! The real pager and meter at work: what sessions hold and use.

use gpu_worker_core::ledger::{Cut, KernelRan};
use gpu_worker_core::meter::SliceUse;

use super::*;

impl WorkerNode {
    /// A slice has ended: what it used, and what its session holds now.
    pub(super) fn account(&mut self, io: &mut Io, start: &StartAction, run: &SliceRun) {
        let (session, incarnation) = (start.session, self.identity.incarnation);
        let resident = self.device.get(&session).map_or(0, DeviceSession::held);
        let faulted = run.fault.is_some();
        self.pager
            .completed(io.now, start.first, session, resident, faulted);
        let launches = run.launches.iter();
        let kernels: Vec<_> = launches
            .map(|(key, time, sm_ns)| KernelRan {
                key: *key,
                launches: 1,
                device_ns: *time,
                sm_ns: *sm_ns,
                least_ns: *time,
                most_ns: *time,
            })
            .collect();
        let used = SliceUse {
            session,
            device_ns: run.device_ns,
            launches: run.launches.len() as u64,
            sm_ns: run.sm_ns,
            kernels: &kernels,
        };
        self.meter.completed(io.now, &used);
        io.fact(Fact::Used {
            incarnation,
            session,
            launches: used.launches,
            device_ns: used.device_ns,
            sm_ns: used.sm_ns,
        });
        io.fact(Fact::Held {
            incarnation,
            session,
            most: resident,
            resident: Some(resident),
        });
    }

    /// A session has left the device.
    pub(super) fn vacate(&mut self, io: &mut Io, session: SessionId) {
        let byte_ms = self.pager.close(io.now, session);
        self.meter.close(session, byte_ms);
        if let Some(window) = self.windows.remove(&session) {
            clear(&mut self.cells, window.base, window.size);
        }
        let incarnation = self.identity.incarnation;
        io.fact(Fact::Held {
            incarnation,
            session,
            most: 0,
            resident: Some(0),
        });
        // Until now its memory and its window were its own.
        io.fact(Fact::Device {
            incarnation,
            session,
            open: false,
        });
    }

    /// Publishes what was measured and what was used.
    pub(super) fn report(&mut self, io: &mut Io) {
        let incarnation = self.identity.incarnation;
        if let Some(measured) = self.meter.measured() {
            io.publish(self.subjects.measured(incarnation), encode(&measured));
        }
        let cut = Cut {
            at_ms: io.now / MILLI,
            last: false,
        };
        for block in self.meter.cut(io.now, &self.pager, &cut) {
            io.fact(Fact::Accounted {
                block: Box::new(block),
            });
        }
        let usage = self.meter.usage(io.now, &self.pager);
        io.publish(self.subjects.usage(incarnation), encode(&usage));
    }
}
