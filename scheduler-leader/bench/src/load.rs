//! A load of the scheduler alone.

use bus_schemas::{
    Chain, ClusterSettings, CostClass, CostRun, DoneReport, GrantKind, Incarnation, KernelKey,
    LeaderId, Outcome, SealAnswer, SealedSession, SessionId, Tenant, TenantSettings, WIRE_VERSION,
    Window, limits,
};

use scheduler_leader_core::{Effect, Input, ORDER_VERSION, Profile, Rows, Scheduler, Takeover};

/// Number of kernels of the load, which cost 20 to 50 microseconds.
pub(crate) const KERNELS: u64 = 16;
/// Ops that a session announces at a time: four full batches of launches.
pub(crate) const ANNOUNCED: u32 = 4 * limits::BATCH_OPS;
/// The window of a single GPU that has all sessions.
const WIDE_NS: u64 = 32_000_000;
/// Number of sessions per tenant.
pub(crate) const TENANT: usize = 10;

/// Sessions with endless work, ten to a tenant, and their order. The announcements and the done
/// reports are part of the load.
#[derive(Debug)]
pub struct Load {
    scheduler: Scheduler,
    effects: Vec<Effect>,
    done: Input,
    intent: Input,
    /// Ops granted and announced, by session.
    sessions: Vec<(u64, u64)>,
    /// Grants of each GPU that are not reported.
    granted: Vec<Vec<DoneReport>>,
    /// The GPU that reports next.
    turn: usize,
}

impl Load {
    /// A load of this many sessions on one GPU with a wide window.
    #[must_use]
    pub fn new(sessions: usize) -> Self {
        let settings = ClusterSettings {
            window_ns: WIDE_NS,
            standing: false,
            ..ClusterSettings::default()
        };
        Self::on(sessions, 1, settings)
    }

    /// A load of this many sessions on this many GPUs, with a tenant's sessions on different ones
    /// and the default settings of clusters. A session that is alone waits for its grants as others
    /// do.
    #[must_use]
    pub fn fleet(sessions: usize, gpus: usize) -> Self {
        let settings = ClusterSettings {
            standing: false,
            ..ClusterSettings::default()
        };
        Self::on(sessions, gpus, settings)
    }

    fn on(sessions: usize, gpus: usize, settings: ClusterSettings) -> Self {
        let mut load = Self {
            scheduler: Scheduler::new(),
            effects: Vec::new(),
            done: Input::Tick,
            intent: Input::Tick,
            sessions: vec![(0, 0); sessions],
            granted: vec![Vec::new(); gpus],
            turn: 0,
        };
        let takeover = takeover(sessions, settings);
        load.scheduler.apply(&takeover, &mut load.effects);
        for gpu in 0..gpus {
            let sealed = sealed(sessions, gpu, gpus);
            load.scheduler.apply(&sealed, &mut load.effects);
        }
        load.effects.clear();
        for session in 0..sessions {
            load.announce(session);
        }
        load
    }

    /// One round: reports the next GPU's grants as done, and announces more for sessions that run
    /// low. Returns the number of done grants.
    pub fn step(&mut self) -> usize {
        let gpu = self.turn;
        self.turn = (self.turn + 1) % self.granted.len();
        let mut reports = match std::mem::replace(&mut self.done, Input::Tick) {
            Input::Done { reports, .. } => reports,
            _ => Rows::default(),
        };
        std::mem::swap(&mut reports.0, &mut self.granted[gpu]);
        self.granted[gpu].clear();
        let grants = reports.0.len();
        self.done = Input::Done {
            incarnation: incarnation(gpu),
            reports,
        };
        self.scheduler.apply(&self.done, &mut self.effects);
        for session in self.take() {
            self.announce(session);
        }
        grants
    }

    /// Notes the grants. Returns the sessions that run low.
    fn take(&mut self) -> Vec<usize> {
        let mut low = Vec::new();
        for effect in self.effects.drain(..) {
            if let Effect::Grant {
                incarnation,
                position,
                grant,
                ..
            } = effect
                && grant.kind == GrantKind::Run
            {
                self.granted[incarnation.0 as usize - 1].push(DoneReport {
                    position,
                    session: grant.session,
                    measured: grant.cost,
                    received: grant.last,
                    outcome: Outcome::Ran,
                    declared: 0,
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
        low
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
        self.scheduler.apply(&self.intent, &mut self.effects);
        // Only at the start can this be more than the sessions that were low already.
        let low = self.take();
        debug_assert!(
            low.is_empty(),
            "half of what is announced is more than a window"
        );
    }
}

pub(crate) fn tenant(session: usize) -> Tenant {
    let name = format!("tenant-{}", session / TENANT);
    name.parse().expect("a tenant's name")
}

pub(crate) fn incarnation(gpu: usize) -> Incarnation {
    Incarnation(gpu as u64 + 1)
}

fn takeover(sessions: usize, settings: ClusterSettings) -> Input {
    let tenant_settings = |index: usize| TenantSettings {
        priority: 2,
        weight: 1 + index as u32 % 7,
        ..TenantSettings::default()
    };
    let tenants = (0..sessions).step_by(TENANT);
    let entries = (0..KERNELS).map(|key| (KernelKey(key), 20_000 + key * 2_000));
    Input::Takeover(Box::new(Takeover {
        order_version: ORDER_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        settings,
        tenants: tenants
            .map(|index| (tenant(index), tenant_settings(index)))
            .collect(),
        profile: Profile::of(1, entries.collect()),
        ordinals: Vec::new(),
        held: false,
    }))
}

/// A worker with the sessions `gpu`, `gpu + gpus`, `gpu + 2 gpus` …
fn sealed(sessions: usize, gpu: usize, gpus: usize) -> Input {
    let session = |index: usize| SealedSession {
        session: SessionId(index as u64 + 1),
        tenant: tenant(index),
        ordinal: (index % TENANT) as u64 + 1,
        window: Window {
            base: limits::ADDRESS_FIRST + (index / gpus) as u64 * (2 << 20),
            size: 2 << 20,
        },
        quota: 0,
        nonce: index as u64,
        accepted: 0,
        done: 0,
        received: 0,
        closing: false,
    };
    let sessions = (gpu..sessions).step_by(gpus).map(session).collect();
    Input::WorkerSealed {
        incarnation: incarnation(gpu),
        answer: Box::new(answer(gpu, sessions, 16 << 30)),
    }
}

/// A GPU's worker's answer to a seal, with these sessions.
pub(crate) fn answer(gpu: usize, sessions: Vec<SealedSession>, capacity: u64) -> SealAnswer {
    SealAnswer {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        gpu: gpu as u32,
        capacity,
        position: 0,
        chain: Chain::default(),
        global: 0,
        reports: 0,
        sessions,
        outstanding: Vec::new(),
        tail_epoch: 0,
        tail_recorded: 0,
        tail: Vec::new(),
        ordinals: Vec::new(),
        faults: Vec::new(),
        named: Vec::new(),
        forgotten: None,
    }
}
