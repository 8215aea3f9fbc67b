//! A model of everything around the order: workers that run their grants, clients that submit, and
//! a naive view of the rules to check the order against.

mod ahead;
mod away;
mod memory;
mod rules;
mod standing;
mod targets;
mod worker;
mod working;

use std::collections::BTreeMap;

use bus_schemas::{
    ClusterSettings, CostClass, CostRun, Grant, Incarnation, KernelKey, LeaderId, OpNumber,
    SessionId, Tenant, TenantSettings,
};
use scheduler_leader_core::{Effect, Input, ORDER_VERSION, Profile, Rows, Scheduler, Takeover};

pub(crate) use worker::{Session, Worker};

/// Costs of kernels 0, 1, 2 … in the model's profile.
pub(crate) const COSTS: [u64; 6] = [1_000, 7_000, 20_000, 90_000, 333_333, 1_200_000];

pub(crate) fn tenant(index: usize) -> Tenant {
    format!("t{index}").parse().unwrap()
}

pub(crate) fn launches(kernel: usize, count: u32) -> CostRun {
    CostRun {
        key: KernelKey(kernel as u64),
        bytes: 0,
        count,
        class: CostClass::Launch,
    }
}

pub(crate) fn sync() -> CostRun {
    CostRun {
        key: KernelKey(0),
        bytes: 0,
        count: 1,
        class: CostClass::Sync,
    }
}

/// Cost of one op of a run, by the rules.
pub(crate) fn cost(run: &CostRun) -> u64 {
    match run.class {
        // A kernel outside the profile costs the default.
        CostClass::Launch => COSTS.get(run.key.0 as usize).copied().unwrap_or(20_000),
        CostClass::Copy | CostClass::Sync => 500 + run.bytes / 8,
        CostClass::Light => 500,
    }
}

pub(crate) fn takeover(
    epoch: u64,
    settings: ClusterSettings,
    tenants: &[TenantSettings],
    ordinals: Vec<(Tenant, u64)>,
) -> Input {
    let tenants = tenants.iter().enumerate();
    let entries = COSTS.iter().enumerate();
    Input::Takeover(Box::new(Takeover {
        order_version: ORDER_VERSION,
        epoch,
        leader: LeaderId(epoch),
        settings,
        tenants: tenants
            .map(|(index, settings)| (tenant(index), settings.clone()))
            .collect(),
        profile: Profile::of(
            1,
            entries
                .map(|(key, cost)| (KernelKey(key as u64), *cost))
                .collect(),
        ),
        ordinals,
        held: false,
    }))
}

/// The whole model.
pub(crate) struct Model {
    pub(crate) scheduler: Scheduler,
    /// Gets the same inputs and must decide the same.
    pub(crate) twin: Scheduler,
    pub(crate) settings: ClusterSettings,
    pub(crate) tenants: Vec<TenantSettings>,
    pub(crate) workers: BTreeMap<Incarnation, Worker>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) epoch: u64,
    pub(crate) grants: Vec<(Incarnation, u64, Grant)>,
    pub(crate) nonce: u64,
    /// All inputs so far.
    pub(crate) inputs: Vec<Input>,
    /// The time that a slice takes.
    pub(crate) measure: Box<dyn Fn(&Grant) -> u64>,
    /// True if grants are checked against the naive view of the rules, which knows no changing
    /// profiles and no lost workers.
    pub(crate) judged: bool,
    /// True if slices are checked not to cross a cut point: while no leader changed.
    pub(crate) check_cuts: bool,
    /// The known state of tenants with a target.
    targets: targets::Targets,
    /// The known state of sessions' memory.
    memory: memory::Memory,
}

impl Model {
    pub(crate) fn new(
        settings: ClusterSettings,
        tenants: Vec<TenantSettings>,
        workers: u32,
    ) -> Self {
        let mut model = Self {
            scheduler: Scheduler::new(),
            twin: Scheduler::new(),
            settings,
            tenants,
            workers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            epoch: 0,
            grants: Vec::new(),
            nonce: 0,
            inputs: Vec::new(),
            measure: Box::new(|grant| grant.cost),
            judged: true,
            check_cuts: true,
            targets: targets::Targets::default(),
            memory: memory::Memory::default(),
        };
        for gpu in 0..workers {
            let incarnation = Incarnation(u64::from(gpu) + 100);
            model.workers.insert(incarnation, Worker::new(gpu));
        }
        model.take_over();
        model
    }

    /// Starts a new leader, which seals all workers.
    pub(crate) fn take_over(&mut self) {
        self.epoch += 1;
        let ordinals = self.scheduler.ordinals();
        (self.scheduler, self.twin) = (Scheduler::new(), Scheduler::new());
        let input = takeover(self.epoch, self.settings.clone(), &self.tenants, ordinals);
        self.apply(input);
        let workers: Vec<_> = self.workers.keys().copied().collect();
        for incarnation in workers {
            self.close_standing(incarnation);
            self.workers.get_mut(&incarnation).unwrap().told.clear();
            let answer = Box::new(self.seal(incarnation));
            self.apply(Input::WorkerSealed {
                incarnation,
                answer,
            });
        }
        self.check_cuts &= self.epoch == 1;
    }

    /// Applies an input to both orders; checks that they agree and that each grant obeys the rules.
    pub(crate) fn apply(&mut self, input: Input) -> Vec<Effect> {
        let bytes = rmp_serde::to_vec_named(&input).unwrap();
        let again: Input = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(again, input, "inputs survive the record");
        let (mut effects, mut twins) = (Vec::new(), Vec::new());
        self.scheduler.apply(&input, &mut effects);
        self.twin.apply(&again, &mut twins);
        assert_eq!(effects, twins, "same inputs, same effects");
        if self.judged {
            self.observe(&input);
        }
        self.observe_memory(&input);
        self.inputs.push(input);
        for effect in &effects {
            self.take(effect);
        }
        self.check_standing();
        effects
    }

    fn take(&mut self, effect: &Effect) {
        match effect {
            Effect::Grant {
                incarnation,
                position,
                grant,
                open,
            } => {
                if let Some(open) = open {
                    let taken = self.sessions.values();
                    let same = taken.filter(|other| other.worker == *incarnation && !other.closed);
                    for other in same {
                        let apart = other.window.end() <= open.window.base
                            || open.window.end() <= other.window.base;
                        assert!(apart && open.window.is_valid(), "windows are disjoint");
                    }
                    self.sessions
                        .insert(open.session, Session::new(*incarnation, open));
                }
                self.close_standing(*incarnation);
                self.check_memory(*incarnation, *position, grant);
                if self.judged {
                    self.check(*incarnation, *position, grant);
                    self.check_ahead(*incarnation, grant);
                }
                self.accept(*incarnation, *position, grant);
                self.grants.push((*incarnation, *position, *grant));
            }
            Effect::Lied { session } => panic!("{session} did not lie"),
            Effect::Ended { session, .. } => {
                assert!(self.sessions[session].closed, "ended after its close");
            }
            _ => {}
        }
    }

    /// Opens a session of a tenant.
    pub(crate) fn open(&mut self, index: usize) -> Option<SessionId> {
        self.open_all(index, 1).pop()
    }

    /// Opens sessions of a tenant on this many devices: all or none.
    pub(crate) fn open_all(&mut self, index: usize, devices: u32) -> Vec<SessionId> {
        self.nonce += 1;
        let (tenant, nonce) = (tenant(index), self.nonce);
        let effects = self.apply(Input::SessionOpen {
            tenant,
            nonce,
            devices,
            wide: true,
        });
        self.nonce += u64::from(devices) - 1;
        let opened = effects.into_iter().filter_map(|effect| match effect {
            Effect::Opened { placed, .. } => Some(placed.session),
            _ => None,
        });
        opened.collect()
    }

    /// Suspends a tenant, or resumes it.
    pub(crate) fn suspend(&mut self, index: usize, suspended: bool) -> Vec<Effect> {
        self.tenants[index].suspended = suspended;
        let settings = Some(self.tenants[index].clone());
        let tenant = tenant(index);
        self.apply(Input::TenantSet { tenant, settings })
    }

    /// A client submits ops; the worker gets them at once if `send`.
    pub(crate) fn submit(&mut self, id: SessionId, runs: &[CostRun], send: bool) {
        let session = self.sessions.get_mut(&id).unwrap();
        for run in runs {
            let one = CostRun { count: 1, ..*run };
            session.ops.extend((0..run.count).map(|_| one));
        }
        if send {
            session.received = session.ops.len() as u64;
        }
    }

    /// Announces ops that the leader does not know yet, at most `most`.
    pub(crate) fn announce(&mut self, id: SessionId, most: usize) {
        let Some(view) = self.scheduler.session(id) else {
            return;
        };
        let session = self.sessions.get_mut(&id).unwrap();
        let from = view.queued as usize;
        let to = session.ops.len().min(from + most);
        if from >= to {
            return;
        }
        let alike = session.ops[from..to].chunk_by(|op, next| op == next);
        let runs = alike.map(|ops| CostRun {
            count: ops.len() as u32,
            ..ops[0]
        });
        let runs = runs.collect();
        session.announced = session.announced.max(to as u64);
        let first = view.queued + 1;
        self.apply(Input::Intent {
            session: id,
            first,
            runs: Rows(runs),
        });
    }

    /// Sends, announces and runs all submitted ops.
    pub(crate) fn settle(&mut self) {
        let ids: Vec<_> = self.sessions.keys().copied().collect();
        for id in &ids {
            let session = self.sessions.get_mut(id).unwrap();
            session.received = session.ops.len() as u64;
        }
        let workers: Vec<_> = self.workers.keys().copied().collect();
        // Ticks after which a capped tenant has paid the debt of any slice, and no target is active.
        let held = |tenant: &TenantSettings| tenant.cap > 0 || tenant.slo_ns > 0;
        let patience = match self.tenants.iter().any(held) {
            true => 12,
            false => 0,
        };
        let mut ticks = patience;
        for round in 0.. {
            assert!(round < 100_000, "it never settles");
            let mut moved = 0;
            for id in &ids {
                self.tell_received(*id);
                let before = self.scheduler.session(*id).map(|view| view.queued);
                self.announce(*id, usize::MAX / 2);
                moved += usize::from(before != self.scheduler.session(*id).map(|view| view.queued));
            }
            for worker in &workers {
                moved += self.run(*worker, 3);
            }
            match (moved, ticks) {
                (0, 0) => break,
                (0, _) => {
                    ticks -= 1;
                    self.apply(Input::Tick);
                }
                _ => ticks = patience,
            }
        }
        for (id, session) in &self.sessions {
            let all = session.ops.len() as OpNumber;
            assert!(
                session.closed || session.done == all,
                "I1, I4: {id} ran {} of {all}",
                session.done
            );
        }
    }
}
