//! The messages of modelled GPUs and clients, sent and received while the leader's part is not
//! measured.

use std::sync::Arc;

use bus_schemas::subject::{LeaderSubject, ToLeader};
use bus_schemas::{
    Chain, Column, CostClass, CostRun, Done, DoneReport, DoneTimes, GrantBatch, Intent, KernelKey,
    Outcome, ReportTimes, WIRE_VERSION, decode, encode, limits,
};
use scheduler_leader_core::Action;

use crate::fleet::Fleet;
use crate::load::{ANNOUNCED, KERNELS, incarnation};
use crate::models::{Message, gpu_of};

/// Base of the workers' clocks, nanoseconds.
const CLOCK: u64 = 1 << 50;

impl Fleet {
    /// Prepares an intent with a session's next ops.
    pub(crate) fn announce(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let run = |run: u64| CostRun {
            key: KernelKey((client.announced / 64 + run + index as u64) % KERNELS),
            bytes: 0,
            count: 64,
            class: CostClass::Launch,
        };
        let runs: Vec<_> = (0..u64::from(limits::BATCH_OPS) / 64).map(run).collect();
        for _ in 0..ANNOUNCED / limits::BATCH_OPS {
            let mut packed = Vec::new();
            let intent = encode(&Intent {
                v: WIRE_VERSION,
                first: client.announced + 1,
                count: limits::BATCH_OPS,
                runs: Column::pack(&runs, &mut packed),
            });
            client.announced += u64::from(limits::BATCH_OPS);
            let what = ToLeader::Intent(client.id);
            let subject = LeaderSubject::Tenant(client.tenant.clone(), what);
            self.prepared.push(Message::Bus(subject, intent));
        }
    }

    /// Prepares a report of a GPU's done grants.
    pub(crate) fn report(&mut self, gpu: usize) {
        let state = &mut self.gpus[gpu];
        let mut packed = Vec::new();
        // As a worker reports them, one behind the other.
        let row = |ago: u64| ReportTimes {
            accepted: CLOCK - ago * 1_000_000 - 900_000,
            begun: CLOCK - ago * 1_000_000 - 500_000,
            lacked: 0,
            started: CLOCK - ago * 1_000_000 - 490_000,
            ended: CLOCK - ago * 1_000_000,
        };
        let times = DoneTimes {
            clock: CLOCK,
            rows: (0..state.reports.len() as u64).rev().map(row).collect(),
            compiled: Vec::new(),
        };
        let times = times.encode();
        let done = encode(&Done {
            v: WIRE_VERSION,
            epoch: self.leader.epoch().unwrap_or(0),
            accepted: state.position,
            chain: Chain::default(),
            first: state.first + 1,
            reports: Column::pack(&state.reports, &mut packed),
            received: Column::default(),
            faults: Column::default(),
            details: "",
            times: &times,
        });
        self.grants += state.reports.len();
        self.total += state.reports.len() as u64;
        state.first += state.reports.len() as u64;
        state.reports = Vec::new();
        let subject = LeaderSubject::Done(incarnation(gpu));
        self.prepared.push(Message::Bus(subject, done));
    }

    /// Receives the leader's messages. Returns the sessions that run low.
    pub(crate) fn take(&mut self) -> Vec<usize> {
        let mut low = Vec::new();
        let mut sent = std::mem::take(&mut self.sent);
        for action in sent.drain(..) {
            match action {
                Action::Publish { subject, bytes, .. } => self.receive(&subject, &bytes, &mut low),
                Action::Append {
                    epoch,
                    number,
                    bytes,
                } => {
                    self.bytes += bytes.len() as u64;
                    self.prepared.push(Message::Recorded { epoch, number });
                }
                _ => {}
            }
        }
        self.sent = sent;
        low
    }

    fn receive(&mut self, subject: &Arc<str>, bytes: &[u8], low: &mut Vec<usize>) {
        let Some(gpu) = gpu_of(subject) else {
            return;
        };
        let Ok(order) = decode::<GrantBatch<'_>>(bytes) else {
            return;
        };
        let state = &mut self.gpus[gpu];
        for (position, grant) in (order.first..).zip(order.grants.iter()) {
            if position != state.position + 1 {
                continue;
            }
            state.position = position;
            state.reports.push(DoneReport {
                position,
                session: grant.session,
                measured: grant.cost,
                received: grant.last,
                outcome: Outcome::Ran,
                declared: 0,
            });
            let first = *self.first_id.get_or_insert(grant.session.0);
            let index = (grant.session.0 - first) as usize;
            let client = &mut self.clients[index];
            client.id = grant.session;
            let half = u64::from(ANNOUNCED) / 2;
            let was_low = client.announced - client.granted < half;
            client.granted = grant.last;
            if !was_low && client.announced - client.granted < half {
                low.push(index);
            }
        }
    }
}
