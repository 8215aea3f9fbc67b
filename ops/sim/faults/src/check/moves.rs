//! I10 for swapped memory: the moves and the swapped-out memory in a worker's blocks are the actual ones,
//! tenant by tenant.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, MoveTotals, SessionId, Tenant, UsageBlock};

use super::{CheckResult, Violation};
use crate::hostile;
use sim_cluster::Nanos;

/// One tenant's moves on one device.
#[derive(Debug, Default)]
struct Sum {
    moves: MoveTotals,
    out_byte_ns: u128,
}

/// One incarnation.
#[derive(Debug, Default)]
struct Worker {
    at: Nanos,
    /// Resident bytes of each session, as the device last reported them.
    resident: BTreeMap<SessionId, u64>,
    /// Tenant and bytes of each session with swapped-out memory.
    out: BTreeMap<SessionId, (Tenant, u64)>,
    sums: BTreeMap<Tenant, Sum>,
    said: BTreeMap<Tenant, MoveTotals>,
}

impl Worker {
    fn pass(&mut self, now: Nanos) {
        let passed = u128::from(now.saturating_sub(self.at));
        self.at = now.max(self.at);
        for (tenant, bytes) in self.out.values() {
            let sum = self.sums.entry(tenant.clone()).or_default();
            sum.out_byte_ns += u128::from(*bytes) * passed;
        }
    }
}

/// All workers' moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    workers: BTreeMap<Incarnation, Worker>,
    /// Number of compared blocks with moves.
    pub compared: u64,
}

impl Moves {
    /// Sets the resident bytes of a session from now on.
    pub(crate) fn resident(&mut self, worker: Incarnation, session: SessionId, bytes: u64) {
        let worker = self.workers.entry(worker).or_default();
        worker.resident.insert(session, bytes);
    }

    /// Notes that a move of a session's memory has ended: its bytes have left the device, or are back.
    pub(crate) fn moved(
        &mut self,
        now: Nanos,
        worker: Incarnation,
        (session, tenant): (SessionId, &Tenant),
        (out, moved): (bool, u64),
    ) {
        let worker = self.workers.entry(worker).or_default();
        worker.pass(now);
        let sums = worker.sums.entry(tenant.clone()).or_default();
        let (times, bytes) = match out {
            true => (&mut sums.moves.outs, &mut sums.moves.out_bytes),
            false => (&mut sums.moves.ins, &mut sums.moves.in_bytes),
        };
        *times += 1;
        *bytes += moved;
        let resident = if out { 0 } else { moved };
        let held = worker.resident.insert(session, resident).unwrap_or(0);
        match out {
            true => worker.out.insert(session, (tenant.clone(), held)),
            false => worker.out.remove(&session),
        };
    }

    /// Notes that a session has left its device.
    pub(crate) fn closed(&mut self, now: Nanos, worker: Incarnation, session: SessionId) {
        let worker = self.workers.entry(worker).or_default();
        worker.pass(now);
        worker.out.remove(&session);
        worker.resident.remove(&session);
    }

    /// Checks a block that a worker cut. The last of several blocks cut together contains all moves until
    /// now. `unsent` has, by tenant, the least and the most bytes that it need not have sent.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        block: &UsageBlock,
        unsent: &BTreeMap<Tenant, (u64, u64)>,
    ) -> CheckResult {
        let worker = self.workers.entry(block.incarnation).or_default();
        worker.pass(now);
        for row in &block.moves {
            worker
                .said
                .entry(row.tenant.clone())
                .or_default()
                .add(&row.moves);
        }
        if block.reports.is_none() {
            return Ok(());
        }
        self.compared += u64::from(!block.moves.is_empty());
        let hostile = hostile::tenant();
        let tenants = unsent.keys().chain(worker.said.keys());
        for tenant in tenants.filter(|tenant| **tenant != hostile) {
            let said = worker.said.get(tenant).copied().unwrap_or_default();
            let (least, most) = unsent.get(tenant).copied().unwrap_or_default();
            if !(least..=most).contains(&said.unsent_bytes) {
                let what =
                    format!("{tenant} did not send {least} to {most} bytes, blocks have {said:?}");
                return Err(Violation::new("I10", what));
            }
        }
        for (tenant, sum) in &worker.sums {
            let said = worker.said.get(tenant).copied().unwrap_or_default();
            let is = MoveTotals {
                swapped_byte_ms: u64::try_from(sum.out_byte_ns / 1_000_000).unwrap_or(u64::MAX),
                // The wait for room is not visible from outside, and no equal memory is shared here.
                waited_ns: said.waited_ns,
                unsent_bytes: said.unsent_bytes,
                ..sum.moves
            };
            if said != is {
                let what = format!("{tenant} moved {is:?}, blocks have {said:?}");
                return Err(Violation::new("I10", what));
            }
            if said.ins > 0 && said.waited_ns == 0 {
                let what = format!("{tenant} came back {} times without a wait", said.ins);
                return Err(Violation::new("I10", what));
            }
        }
        let unknown = worker.said.iter().find(|(tenant, said)| {
            !worker.sums.contains_key(tenant)
                && MoveTotals {
                    waited_ns: 0,
                    unsent_bytes: 0,
                    ..**said
                } != MoveTotals::default()
        });
        match unknown {
            None => Ok(()),
            Some((tenant, said)) => {
                let what = format!("{tenant} moved nothing, blocks have {said:?}");
                Err(Violation::new("I10", what))
            }
        }
    }

    /// Removes a dead worker with all its memory.
    pub(crate) fn worker_died(&mut self, worker: Incarnation) {
        self.workers.remove(&worker);
    }
}
