//! The whole state of the order: queues, virtual times, windows, budgets. It lets an operator see
//! why the order decided as it did.

use std::fmt;

use bus_schemas::{
    Epoch, GlobalPosition, GpuId, GpuPosition, Incarnation, InputNumber, OpNumber, SessionId,
    Tenant,
};
use serde::{Serialize, Serializer};

use super::apply::Scheduler;
use super::state::{Flow, Life, SessionState, WorkerState};
use crate::policy::{ABSENT, whole_ns};
use crate::slots::{FlowSlot, SessionSlot};

/// The whole order at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The epoch.
    pub epoch: Epoch,
    /// The last input.
    pub input: InputNumber,
    /// The last global position.
    pub global: GlobalPosition,
    /// True if grants are held.
    pub held: bool,
    /// Charged nanoseconds that a GPU may have granted and not done, for each priority with those
    /// above.
    pub window_ns: u64,
    /// A slice is cut when its cost reaches this, nanoseconds.
    pub quantum_ns: u64,
    /// Percent of a GPU's granted work that each priority keeps beside higher ones.
    pub floors: [u8; 5],
    /// Every worker that is not lost, by incarnation.
    pub workers: Vec<WorkerInspection>,
    /// Every tenant, by name.
    pub tenants: Vec<TenantInspection>,
    /// Every session that is not closed, by id.
    pub sessions: Vec<SessionInspection>,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerInspection {
    /// Its device.
    pub gpu: GpuId,
    /// The worker.
    #[serde(serialize_with = "shown")]
    pub incarnation: Incarnation,
    /// Last position granted.
    pub position: GpuPosition,
    /// True if it takes no new sessions.
    pub draining: bool,
    /// Charged nanoseconds granted and not done, by priority.
    pub outstanding_ns: [u64; 5],
    /// Virtual time, by priority: the start tag of the last granted flow.
    pub virtual_ns: [u64; 5],
    /// Nanoseconds that each floor is behind.
    pub owed_ns: [u64; 5],
    /// The tenants that have, or had, sessions here.
    pub flows: Vec<FlowInspection>,
}

/// A tenant on one worker: the unit that takes turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowInspection {
    /// The tenant.
    pub tenant: Tenant,
    /// Its priority.
    pub priority: u8,
    /// Its weight.
    pub weight: u32,
    /// True if it has work that could be granted.
    pub eligible: bool,
    /// True if it is held back by its tenant's bound on outstanding work, by its cap, or for the
    /// target of a tenant of higher priority.
    pub blocked: bool,
    /// True if it is set aside: its next slice is too long for a target of a higher priority.
    pub aside: bool,
    /// Virtual time at which its next slice starts.
    pub virtual_ns: u64,
    /// Nanoseconds that its work took beyond its charge; negative if it took less.
    pub balance_ns: i64,
    /// Nanoseconds that its cap leaves it; `None` without a cap.
    pub budget_ns: Option<i64>,
    /// Ops queued here and not granted.
    pub queued: u64,
}

/// One tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantInspection {
    /// The tenant.
    pub tenant: Tenant,
    /// True if it is set, and not removed.
    pub known: bool,
    /// Its priority.
    pub priority: u8,
    /// Its weight.
    pub weight: u32,
    /// Maximum percent of each device's time that it may use; 0 is no cap.
    pub cap: u8,
    /// Charged nanoseconds that may be granted and not done; 0 is no bound.
    pub bound_ns: u64,
    /// The target of its requests' 99th percentile, nanoseconds; 0 is none.
    pub slo_ns: u64,
    /// Charged nanoseconds granted and not done.
    pub outstanding_ns: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Ops granted in this epoch.
    pub granted: u64,
    /// Charged nanoseconds granted in this epoch.
    pub granted_ns: u64,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInspection {
    /// The session.
    #[serde(serialize_with = "shown")]
    pub session: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// Its device.
    pub gpu: GpuId,
    /// Its worker.
    #[serde(serialize_with = "shown")]
    pub incarnation: Incarnation,
    /// Ops queued without a gap.
    pub queued: OpNumber,
    /// Ops granted.
    pub granted: OpNumber,
    /// Ops done.
    pub done: OpNumber,
    /// Last op of its next slice, as far as it is known; `None` if no ops are queued.
    pub next: Option<OpNumber>,
    /// Charge of that slice.
    pub next_ns: u64,
    /// True if that slice may be granted as it is.
    pub eligible: bool,
    /// Its tag among its tenant's sessions.
    pub virtual_ns: u64,
    /// True if it is granted only ops that the worker reports as received.
    pub doubted: bool,
    /// True if its close was asked for, or is decided.
    pub closing: bool,
    /// True if its memory is not on the device: it is granted nothing before it has returned.
    pub away: bool,
    /// True if it has work, and waits for its memory.
    pub waiting: bool,
}

/// Writes an id as everywhere else, not as a number: few JSON readers can hold that.
fn shown<S: Serializer>(id: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

impl Scheduler {
    /// Grants nothing beyond this global position from now on.
    pub(crate) fn stop_at(&mut self, global: GlobalPosition) {
        self.stop = Some(global);
    }

    /// The whole state of the order.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let workers = self.present().into_iter();
        let slots = self.session_index.values();
        let sessions = slots.filter_map(|slot| Some((*slot, self.sessions[*slot].as_ref()?)));
        Inspection {
            epoch: self.epoch,
            input: self.input,
            global: self.global,
            held: self.held,
            window_ns: self.settings.window_ns,
            quantum_ns: self.settings.quantum_ns,
            floors: self.settings.floors,
            workers: workers.map(|worker| self.inspect_worker(worker)).collect(),
            tenants: self.inspect_tenants(),
            sessions: sessions
                .map(|(slot, session)| self.inspect_session(slot, session))
                .collect(),
        }
    }

    fn inspect_worker(&self, worker: &WorkerState) -> WorkerInspection {
        let flows = worker.flows.values();
        let mut flows: Vec<_> = flows.map(|flow| self.inspect_flow(worker, *flow)).collect();
        flows.sort_by(|a, b| (a.priority, &a.tenant).cmp(&(b.priority, &b.tenant)));
        WorkerInspection {
            gpu: worker.gpu,
            incarnation: worker.incarnation,
            position: worker.position,
            draining: worker.draining || worker.cordoned,
            outstanding_ns: worker.lanes.outstanding(),
            virtual_ns: [0, 1, 2, 3, 4].map(|priority| whole_ns(worker.lanes.now(priority))),
            owed_ns: worker.lanes.owed(),
            flows,
        }
    }

    fn inspect_flow(&self, worker: &WorkerState, id: FlowSlot) -> FlowInspection {
        let flow: &Flow = &self.flows[id];
        let tenant = &self.tenants[flow.tenant];
        let sessions = self.sessions.iter().flatten();
        let here = sessions.filter(|session| session.flow == id);
        // A flow outside its heap starts no earlier than the virtual time of its priority.
        let now = worker.lanes.now(flow.priority);
        let inside = self.flow_places[id] != ABSENT;
        FlowInspection {
            tenant: tenant.name.clone(),
            priority: flow.priority,
            weight: tenant.settings.weight,
            eligible: inside,
            blocked: flow.blocked || flow.aside,
            aside: flow.aside,
            virtual_ns: whole_ns(if inside { flow.tag } else { flow.tag.max(now) }),
            balance_ns: flow.balance.ns(),
            budget_ns: (tenant.settings.cap > 0).then(|| flow.budget.ns()),
            queued: here
                .map(|session| session.queue.queued() - session.queue.granted())
                .sum(),
        }
    }

    /// Names of all tenants.
    pub fn tenant_names(&self) -> impl Iterator<Item = &Tenant> {
        let indices = self.tenant_index.values();
        let tenants = indices.map(|index| &self.tenants[*index]);
        tenants
            .filter(|tenant| tenant.known)
            .map(|tenant| &tenant.name)
    }

    fn inspect_tenants(&self) -> Vec<TenantInspection> {
        let indices = self.tenant_index.values();
        let tenants = indices.map(|index| &self.tenants[*index]);
        tenants
            .map(|tenant| TenantInspection {
                tenant: tenant.name.clone(),
                known: tenant.known,
                priority: tenant.settings.priority,
                weight: tenant.settings.weight,
                cap: tenant.settings.cap,
                bound_ns: tenant.settings.outstanding_ns,
                slo_ns: tenant.settings.slo_ns,
                outstanding_ns: tenant.outstanding,
                sessions: tenant.sessions,
                granted: tenant.granted,
                granted_ns: tenant.granted_ns,
            })
            .collect()
    }

    fn inspect_session(&self, slot: SessionSlot, session: &SessionState) -> SessionInspection {
        let worker = &self.workers[session.worker];
        let (queue, next) = (&session.queue, session.queue.next());
        SessionInspection {
            session: session.id,
            tenant: self.tenants[session.tenant].name.clone(),
            ordinal: session.ordinal,
            gpu: worker.gpu,
            incarnation: worker.incarnation,
            queued: queue.queued(),
            granted: queue.granted(),
            done: queue.done(),
            next: (next.last > queue.granted()).then_some(next.last),
            next_ns: next.cost,
            eligible: session.is_eligible(),
            virtual_ns: whole_ns(session.tag),
            doubted: session.doubted,
            closing: session.life != Life::Open,
            away: session.away,
            waiting: self.is_waiting(slot),
        }
    }
}
