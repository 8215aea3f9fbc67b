//! A load for measuring the order core; whoever measures brings the clock.

use bus_schemas::{
    Chain, ClusterSettings, CostClass, CostRun, DoneReport, GrantKind, Incarnation, KernelKey,
    LeaderId, Outcome, SealAnswer, SealedSession, SessionId, Tenant, TenantSettings, WIRE_VERSION,
    Window, limits,
};

use crate::effect::Effect;
use crate::input::{Input, Profile, Rows, Takeover};
use crate::order::Order;
use crate::policy::ORDER_VERSION;

/// Kernels of the load, costing 20 to 50 microseconds.
const KERNELS: u64 = 16;
/// Ops a session announces at a time: four full batches of launches.
const ANNOUNCED: u32 = 4 * limits::BATCH_OPS;
const WORKER: Incarnation = Incarnation(1);

/// Sessions with endless work on one worker, ten to a tenant, and their order.
/// Announcing the work and reporting it done are part of the load.
#[derive(Debug)]
pub struct Load {
    order: Order,
    effects: Vec<Effect>,
    done: Input,
    intent: Input,
    /// Ops granted and announced of each session, by session.
    sessions: Vec<(u64, u64)>,
}

impl Load {
    /// A load of so many sessions.
    #[must_use]
    pub fn new(sessions: usize) -> Self {
        let mut load = Self {
            order: Order::new(),
            effects: Vec::new(),
            done: Input::Done {
                incarnation: WORKER,
                reports: Rows::default(),
            },
            intent: Input::Tick,
            sessions: vec![(0, 0); sessions],
        };
        let (takeover, sealed) = (takeover(sessions), sealed(sessions));
        load.order.apply(&takeover, &mut load.effects);
        load.order.apply(&sealed, &mut load.effects);
        load.effects.clear();
        for session in 0..sessions {
            load.announce(session);
        }
        load
    }

    /// One round: everything granted is reported done, what runs low announces more. Gives the
    /// grants decided.
    pub fn step(&mut self) -> usize {
        let Input::Done { reports, .. } = &mut self.done else {
            return 0;
        };
        reports.0.clear();
        let mut low = Vec::new();
        for effect in self.effects.drain(..) {
            if let Effect::Grant {
                position, grant, ..
            } = effect
                && grant.kind == GrantKind::Run
            {
                reports.0.push(DoneReport {
                    position,
                    session: grant.session,
                    measured: grant.cost,
                    received: grant.last,
                    outcome: Outcome::Ran,
                });
                let session = grant.session.0 as usize - 1;
                let (granted, announced) = &mut self.sessions[session];
                let was_low = *announced - *granted < u64::from(ANNOUNCED) / 2;
                *granted = grant.last;
                if !was_low && *announced - *granted < u64::from(ANNOUNCED) / 2 {
                    low.push(session);
                }
            }
        }
        let grants = reports.0.len();
        self.order.apply(&self.done, &mut self.effects);
        for session in low {
            self.announce(session);
        }
        grants
    }

    /// Announces the next ops of a session: runs of 64 launches of changing kernels.
    fn announce(&mut self, session: usize) {
        let (_, announced) = &mut self.sessions[session];
        let run = |index: u64| CostRun {
            key: KernelKey((*announced / 64 + index + session as u64) % KERNELS),
            bytes: 0,
            count: 64,
            class: CostClass::Launch,
        };
        self.intent = Input::Intent {
            session: SessionId(session as u64 + 1),
            first: *announced + 1,
            runs: Rows((0..u64::from(ANNOUNCED) / 64).map(run).collect()),
        };
        *announced += u64::from(ANNOUNCED);
        self.order.apply(&self.intent, &mut self.effects);
    }
}

fn tenant(session: usize) -> Tenant {
    let name = format!("tenant-{}", session / 10);
    name.parse().expect("a tenant's name")
}

fn takeover(sessions: usize) -> Input {
    let settings = |index: usize| TenantSettings {
        priority: 2,
        weight: 1 + index as u32 % 7,
        ..TenantSettings::default()
    };
    let tenants = (0..sessions).step_by(10);
    let entries = (0..KERNELS).map(|key| (KernelKey(key), 20_000 + key * 2_000));
    Input::Takeover(Box::new(Takeover {
        order_version: ORDER_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        settings: ClusterSettings {
            window_ns: 32_000_000,
            ..ClusterSettings::default()
        },
        tenants: tenants
            .map(|index| (tenant(index), settings(index)))
            .collect(),
        profile: Profile {
            version: 1,
            entries: entries.collect(),
        },
        ordinals: Vec::new(),
        held: false,
    }))
}

fn sealed(sessions: usize) -> Input {
    let session = |index: usize| SealedSession {
        session: SessionId(index as u64 + 1),
        tenant: tenant(index),
        ordinal: index as u64 % 10 + 1,
        window: Window {
            base: limits::ADDRESS_FIRST + index as u64 * (2 << 20),
            size: 2 << 20,
        },
        quota: 0,
        nonce: index as u64,
        accepted: 0,
        done: 0,
        received: 0,
        closing: false,
    };
    Input::WorkerSealed {
        incarnation: WORKER,
        answer: Box::new(SealAnswer {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LeaderId(1),
            gpu: 0,
            capacity: 16 << 30,
            position: 0,
            chain: Chain::default(),
            global: 0,
            reports: 0,
            sessions: (0..sessions).map(session).collect(),
            outstanding: Vec::new(),
            tail_epoch: 0,
            tail_recorded: 0,
            tail: Vec::new(),
            ordinals: Vec::new(),
            faults: Vec::new(),
        }),
    }
}
