//! Inputs of every kind from a small random number generator. Tenants are added and removed,
//! settings change, kernels take any time, workers are lost, and leaders die.

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, CloseReason, ClusterSettings, Code, CostClass, CostRun, Groups, Incarnation, KernelKey,
    SessionId, TenantSettings, WeightSample,
};
use scheduler_leader_core::{Input, Profile, Rows, WorkerReport};

use crate::model::{COSTS, Model, Worker, launches, sync, tenant};

const TENANTS: usize = 6;
const SESSIONS: usize = 20;
/// Inputs between two takeovers.
const TERM: usize = 1_700;

/// A random number generator (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

struct Play {
    model: Model,
    chance: Chance,
    sessions: Vec<SessionId>,
    /// The profile.
    estimates: BTreeMap<KernelKey, u64>,
    held: bool,
    lost: u64,
    kinds: Kinds,
}

/// The set of kinds of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Kinds that existed when the first golden record was made.
    First,
    /// The first kinds and later ones: cordoned workers, workers that leave, chains of gone
    /// workers, weights that workers hold, tenants bound to groups, and removed tenants.
    Later,
}

/// Returns `count` inputs.
pub(super) fn inputs(count: usize, kinds: Kinds) -> Vec<Input> {
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let tenants = (0..TENANTS).map(|_| settings(&mut chance)).collect();
    let mut model = Model::new(ClusterSettings::default(), tenants, 3);
    model.judged = false;
    // A slice's time has little to do with its charge.
    model.measure = Box::new(|grant| {
        let mixed = grant.global.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let tenths = if mixed % 50 == 0 { 300 } else { 2 + mixed % 25 };
        // Rounded, to keep the file small.
        (grant.cost * tenths / 10) >> 14 << 14
    });
    let mut play = Play {
        model,
        chance,
        sessions: Vec::new(),
        estimates: estimates(),
        held: false,
        lost: 0,
        kinds,
    };
    let mut terms = 1;
    while play.model.inputs.len() < count {
        if play.model.inputs.len() > terms * TERM {
            terms += 1;
            (play.held, play.estimates) = (false, estimates());
            play.model.take_over();
        }
        play.step();
    }
    play.model.inputs.truncate(count);
    play.model.inputs
}

/// The estimates of a takeover's profile.
fn estimates() -> BTreeMap<KernelKey, u64> {
    let costs = (0..).zip(COSTS);
    costs.map(|(key, ns)| (KernelKey(key), ns)).collect()
}

/// Possible settings of a tenant.
fn settings(chance: &mut Chance) -> TenantSettings {
    TenantSettings {
        priority: chance.pick(&[0, 1, 2, 2, 2, 3, 4]),
        weight: 1 + chance.below(5) as u32,
        outstanding_ns: chance.pick(&[0, 0, 0, 1_500_000]),
        cap: chance.pick(&[0, 0, 0, 40]),
        slo_ns: chance.pick(&[0, 0, 0, 2_000_000]),
        ..TenantSettings::default()
    }
}

/// Possible samples of a worker's weights.
fn weights(chance: &mut Chance) -> Rows<WeightSample> {
    let samples = (0..chance.below(4)).map(|_| WeightSample {
        tenant: tenant(chance.below(TENANTS as u64) as usize),
        fingerprint: chance.below(5),
        bytes: chance.pick(&[0, 1 << 20, 64 << 20]),
    });
    Rows(samples.collect())
}

impl Play {
    fn step(&mut self) {
        // No number is drawn for later kinds: the first record stays the same.
        if self.kinds == Kinds::Later && self.chance.below(40) == 0 {
            return self.later();
        }
        match self.chance.below(1_000) {
            0..240 => self.submit(),
            240..370 => self.catch_up(),
            370..450 => drop(self.model.apply(Input::Tick)),
            450..480 => self.open(),
            480..492 => self.close(),
            492..510 => self.set(),
            510..518 => self.hold(),
            518..524 => self.drain(),
            524..525 => self.lose(),
            525..531 => self.report(),
            _ => {
                let worker = self.worker();
                let count = 1 + self.chance.below(4) as usize;
                self.model.run(worker, count);
            }
        }
        // Grants are not held for long.
        if self.held && self.chance.below(30) == 0 {
            self.hold();
        }
    }

    fn worker(&mut self) -> Incarnation {
        let workers: Vec<_> = self.model.workers.keys().copied().collect();
        self.chance.pick(&workers)
    }

    /// An open session, if there is one.
    fn session(&mut self) -> Option<SessionId> {
        let order = &self.model.scheduler;
        self.sessions.retain(|id| order.session(*id).is_some());
        (!self.sessions.is_empty()).then(|| self.chance.pick(&self.sessions))
    }

    fn submit(&mut self) {
        let Some(id) = self.session() else {
            return self.open();
        };
        let kernel = self.chance.below(7);
        let copy = CostRun {
            key: KernelKey(0),
            bytes: self.chance.pick(&[1 << 10, 1 << 14, 1 << 20]),
            count: 1 + self.chance.below(3) as u32,
            class: CostClass::Copy,
        };
        let mut work = launches(0, 1 + self.chance.below(6) as u32);
        // The profile does not know the last kernel.
        work.key = KernelKey(if kernel == 6 { 99 } else { kernel });
        let runs = [copy, work, sync()];
        let (from, to) = self.chance.pick(&[(0, 3), (1, 2), (1, 2), (1, 3), (0, 2)]);
        let sent = self.chance.below(40) > 0;
        self.model.submit(id, &runs[from..to], sent);
        let most = 1 + self.chance.below(400) as usize;
        self.model.announce(id, most);
    }

    /// Sends a worker the ops that it lacks of a session.
    fn catch_up(&mut self) {
        if let Some(id) = self.session() {
            let session = self.model.sessions.get_mut(&id).unwrap();
            session.received = session.ops.len() as u64;
            self.model.tell_received(id);
            self.model.announce(id, 1_000);
        }
    }

    fn open(&mut self) {
        self.session();
        if self.sessions.len() < SESSIONS {
            let tenant = self.chance.below(TENANTS as u64) as usize;
            let devices = self.chance.pick(&[1, 1, 1, 2]);
            let opened = self.model.open_all(tenant, devices);
            self.sessions.extend(opened);
        }
    }

    fn close(&mut self) {
        let Some(session) = self.session() else {
            return;
        };
        let code = Code::BadAddress;
        let input = match self.chance.below(4) {
            0 => Input::Fault {
                session,
                op: 1,
                code,
            },
            1 => close(session, 0, CloseReason::Killed),
            _ => {
                let after = self.model.sessions[&session].ops.len() as u64;
                close(session, after, CloseReason::Asked)
            }
        };
        self.model.apply(input);
    }

    fn set(&mut self) {
        let chance = &mut self.chance;
        match chance.below(3) {
            0 => {
                let index = chance.below(TENANTS as u64) as usize;
                let settings = settings(chance);
                self.model.tenants[index] = settings.clone();
                let (tenant, settings) = (tenant(index), Some(settings));
                self.model.apply(Input::TenantSet { tenant, settings });
            }
            1 => {
                let settings = ClusterSettings {
                    window_ns: 500_000 * (1 + chance.below(8)),
                    quantum_ns: 100_000 * (1 + chance.below(8)),
                    unknown_ns: 5_000 * (1 + chance.below(8)),
                    floors: chance.pick(&[[0; 5], [0; 5], [0, 0, 0, 0, 10], [0, 0, 5, 5, 5]]),
                    settle: chance.below(4) > 0,
                    ..ClusterSettings::default()
                };
                self.model.settings = settings.clone();
                self.model.apply(Input::Settings(settings));
            }
            _ => {
                let key = KernelKey(chance.pick(&[0, 1, 2, 3, 4, 5, 99]));
                let ns = 1_000 + chance.below(400_000);
                let whole = chance.below(2) == 0;
                self.estimates.insert(key, ns);
                let all = self.estimates.iter().map(|(key, ns)| (*key, *ns));
                let version = self.model.inputs.len() as u64;
                let mut profile = Profile::of(version, all.collect());
                if !whole {
                    (profile.whole, profile.entries) = (false, vec![(key, ns)]);
                }
                self.model.apply(Input::Profile(profile));
            }
        }
    }

    fn hold(&mut self) {
        self.held = !self.held;
        self.model.apply(Input::Hold { held: self.held });
    }

    fn drain(&mut self) {
        let (incarnation, draining) = (self.worker(), self.chance.below(3) == 0);
        self.model.apply(Input::Draining {
            incarnation,
            draining,
        });
    }

    /// A worker reports its holdings.
    fn report(&mut self) {
        let incarnation = self.worker();
        let chance = &mut self.chance;
        let exclusive = chance.below(10) == 0;
        let group = if exclusive {
            "apart"
        } else {
            WorkerReport::GROUP
        };
        let images = (0..chance.below(3)).map(|_| {
            let of = chance.below(TENANTS as u64) as usize;
            (tenant(of), chance.below(4))
        });
        let images = Rows(images.collect());
        let weights = match self.kinds {
            Kinds::First => Rows::default(),
            Kinds::Later => weights(chance),
        };
        let report = WorkerReport {
            group: group.parse().unwrap(),
            exclusive,
            held: chance.below(8) << 30,
            images,
            weights,
        };
        self.model.apply(Input::Report {
            incarnation,
            report,
        });
    }

    /// A step of the kinds that the first golden record lacks.
    fn later(&mut self) {
        match self.chance.below(8) {
            0..4 => {
                let (incarnation, cordoned) = (self.worker(), self.chance.below(2) == 0);
                self.model.apply(Input::Cordon {
                    incarnation,
                    cordoned,
                });
            }
            4 => self.leave(),
            5 => self.lose(),
            6 => self.bind(),
            _ => self.forget(),
        }
    }

    /// Restricts a tenant to some workers.
    fn bind(&mut self) {
        let index = self.chance.below(TENANTS as u64) as usize;
        let names = self.chance.pick(&[
            &["apart"][..],
            &[WorkerReport::GROUP],
            &["apart", WorkerReport::GROUP],
            &[],
        ]);
        let names = names.iter().map(|name| name.parse().unwrap());
        let settings = TenantSettings {
            groups: Groups::new(names).unwrap(),
            ..self.model.tenants[index].clone()
        };
        self.model.tenants[index] = settings.clone();
        let (tenant, settings) = (tenant(index), Some(settings));
        self.model.apply(Input::TenantSet { tenant, settings });
    }

    /// Removes a tenant and adds it again soon after.
    fn forget(&mut self) {
        let index = self.chance.below(TENANTS as u64) as usize;
        let again = settings(&mut self.chance);
        for settings in [None, Some(again.clone())] {
            let tenant = tenant(index);
            self.model.apply(Input::TenantSet { tenant, settings });
            self.model.apply(Input::Tick);
        }
        self.model.tenants[index] = again;
    }

    /// A draining worker has completed its accepted grants, and leaves.
    fn leave(&mut self) {
        let incarnation = self.worker();
        self.model.apply(Input::Draining {
            incarnation,
            draining: true,
        });
        self.part(incarnation, true);
    }

    /// A worker dies, and another one starts on its device.
    fn lose(&mut self) {
        let incarnation = self.worker();
        self.part(incarnation, false);
    }

    /// Removes a worker; another one starts on its device.
    fn part(&mut self, incarnation: Incarnation, left: bool) {
        let Some(dead) = self.model.workers.remove(&incarnation) else {
            return;
        };
        for session in self.model.sessions.values_mut() {
            session.closed |= session.worker == incarnation;
        }
        self.model.apply(Input::WorkerLost {
            incarnation,
            left,
            accepted: dead.position,
            chain: (self.kinds == Kinds::Later).then_some(dead.chain),
        });
        self.lost += 1;
        let incarnation = Incarnation(1_000 + self.lost);
        let fresh = Worker {
            position: 0,
            chain: Chain::default(),
            global: 0,
            queue: std::collections::VecDeque::new(),
            open: false,
            told: Vec::new(),
            reports: 0,
            ..dead
        };
        self.model.workers.insert(incarnation, fresh);
        let answer = Box::new(self.model.seal(incarnation));
        self.model.apply(Input::WorkerSealed {
            incarnation,
            answer,
        });
    }
}

fn close(session: SessionId, after: u64, reason: CloseReason) -> Input {
    Input::SessionClose {
        session,
        after,
        reason,
    }
}
