//! I10: usage in blocks adds up to the usage that happened, by tenant and by kernel key, however blocks are
//! lost, repeated or late and readers join.

use std::collections::BTreeMap;

use bus_schemas::{
    ClusterUsage, Incarnation, KernelKey, KernelName, SessionId, Tenant, UsageBlock, UsageEnds,
    UseTotals, decode, encode, limits,
};
use device::KernelTime;
use gpu_worker_core::kept_keys::KEYS;
use gpu_worker_core::ledger::Cut;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::{Meter, Pager};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SMS: u32 = 4;

fn tenant(number: u64) -> Tenant {
    format!("t{number}").parse().unwrap()
}

/// An event of a worker and its blocks.
#[derive(Debug, Clone)]
enum Step {
    /// A slice of a session: kernels with launches and nanoseconds of each, and the nanoseconds that it took
    /// beside them.
    Ran(u64, Vec<(u64, u64, u64)>, u64),
    /// A session ends; the next slice opens another.
    Close(u64),
    /// A block is cut; it arrives this many times, at once or behind the next one.
    Cut(usize, bool),
    /// The worker dies without another message, and another begins.
    Crash,
    /// The worker leaves in order, and another begins.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kernels = prop::collection::vec((1..6_u64, 1..4_u64, 0..5_000_u64), 0..4);
    let step = prop_oneof![
        8 => (0..8_u64, kernels, 0..900_u64).prop_map(|(s, k, rest)| Step::Ran(s, k, rest)),
        2 => (0..8_u64).prop_map(Step::Close),
        5 => (1..4_usize, any::<bool>()).prop_map(|(times, late)| Step::Cut(times, late)),
        1 => Just(Step::Crash),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..150)
}

/// One incarnation.
struct Worker {
    meter: Meter,
    pager: Pager,
    sessions: BTreeMap<u64, SessionId>,
    /// Usage that is in no block yet.
    open: UseTotals,
    /// For each done report, the tenant of the slice and the nanoseconds that it took.
    reports: Vec<(Tenant, u64)>,
}

/// A GPU with successive workers, and the stream of their blocks.
struct World {
    now: u64,
    incarnation: u64,
    next: u64,
    worker: Worker,
    stream: Vec<Vec<u8>>,
    late: Vec<Vec<u8>>,
    /// All usage.
    ran: UseTotals,
    /// All usage that died with a worker.
    lost: UseTotals,
    by_tenant: BTreeMap<Tenant, u64>,
    by_kernel: BTreeMap<KernelKey, (u64, u64)>,
    /// Done reports of each incarnation.
    reports: BTreeMap<Incarnation, Vec<(Tenant, u64)>>,
}

fn worker(incarnation: u64, now: u64) -> Worker {
    Worker {
        meter: Meter::new(now, Incarnation(incarnation), 3, SMS, true),
        pager: Pager::new(1 << 30),
        sessions: BTreeMap::new(),
        open: UseTotals::default(),
        reports: Vec::new(),
    }
}

impl World {
    fn new() -> Self {
        Self {
            now: 0,
            incarnation: 1,
            next: 0,
            worker: worker(1, 0),
            stream: Vec::new(),
            late: Vec::new(),
            ran: UseTotals::default(),
            lost: UseTotals::default(),
            by_tenant: BTreeMap::new(),
            by_kernel: BTreeMap::new(),
            reports: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: Step) {
        self.now += MS;
        match step {
            Step::Ran(slot, kernels, beside) => self.ran(slot, &kernels, beside),
            Step::Close(slot) => {
                if let Some(session) = self.worker.sessions.remove(&slot) {
                    let byte_ms = self.worker.pager.close(self.now, session);
                    self.worker.meter.close(session, byte_ms);
                }
            }
            Step::Cut(times, late) => self.cut(times, late, false),
            Step::Crash => {
                self.lost.add(&self.worker.open);
                self.renew();
            }
            Step::Restart => {
                self.cut(1, false, true);
                assert!(self.worker.open.is_zero());
                self.renew();
            }
        }
    }

    fn renew(&mut self) {
        let reports = std::mem::take(&mut self.worker.reports);
        self.reports.insert(Incarnation(self.incarnation), reports);
        self.incarnation += 1;
        self.worker = worker(self.incarnation, self.now);
    }

    fn ran(&mut self, slot: u64, kernels: &[(u64, u64, u64)], beside: u64) {
        let worker = &mut self.worker;
        let owner = tenant(slot % 3);
        let next = &mut self.next;
        let session = *worker.sessions.entry(slot).or_insert_with(|| {
            *next += 1;
            worker.meter.open(SessionId(*next), &owner);
            worker.pager.open(self.now, SessionId(*next), &owner, 0);
            SessionId(*next)
        });
        let rows: Vec<_> = kernels
            .iter()
            .map(|&(key, launches, each)| KernelTime {
                key: KernelKey(key),
                count: launches,
                total_ns: launches * each,
                sm_ns: launches * each * u64::from(SMS),
                least_ns: each,
                most_ns: each,
            })
            .collect();
        let mut sum = UseTotals::default();
        for row in &rows {
            sum.launches += row.count;
            sum.device_ns += row.total_ns;
            sum.sm_ns += row.sm_ns;
            let kernel = self.by_kernel.entry(row.key).or_default();
            *kernel = (kernel.0 + row.count, kernel.1 + row.sm_ns);
        }
        sum.device_ns += beside;
        let used = SliceUse {
            session,
            device_ns: sum.device_ns,
            launches: sum.launches,
            sm_ns: sum.sm_ns,
            kernels: &rows,
        };
        worker.meter.completed(self.now, &used);
        worker.reports.push((owner.clone(), sum.device_ns));
        worker.meter.reported(worker.reports.len() as u64);
        let resident = slot << 10;
        worker
            .pager
            .completed(self.now, (0, 0), session, resident, false);
        worker.open.add(&sum);
        self.ran.add(&sum);
        *self.by_tenant.entry(owner).or_default() += sum.sm_ns;
    }

    /// Device nanoseconds by worker and tenant: those of reports, and those of blocks together with the
    /// reports behind them.
    fn told_and_known(&self) -> [BTreeMap<(Incarnation, Tenant), u64>; 2] {
        let (mut usage, mut ends) = (ClusterUsage::default(), UsageEnds::default());
        let [mut told, mut known] = [BTreeMap::new(), BTreeMap::new()];
        for bytes in &self.stream {
            let block: UsageBlock = decode(bytes).unwrap();
            ends.take(&block);
            if usage.take(&block) {
                for row in &block.kernels {
                    let whose = (block.incarnation, row.tenant.clone());
                    *known.entry(whose).or_default() += row.device_ns;
                }
            }
        }
        for (incarnation, reports) in &self.reports {
            let end = ends.workers().find(|(of, _)| *of == incarnation);
            let accounted = end.and_then(|(_, end)| end.reports()).unwrap_or(0);
            for (number, (tenant, ns)) in (1..).zip(reports) {
                let whose = (*incarnation, tenant.clone());
                *told.entry(whose.clone()).or_default() += ns;
                if number > accounted {
                    *known.entry(whose).or_default() += ns;
                }
            }
        }
        for (incarnation, end) in ends.workers() {
            for (tenant, has) in end.beyond() {
                *known.entry((*incarnation, tenant)).or_default() -= has.device_ns;
            }
        }
        for sums in [&mut told, &mut known] {
            sums.retain(|_, ns| *ns > 0);
        }
        [told, known]
    }

    fn cut(&mut self, times: usize, late: bool, last: bool) {
        let worker = &mut self.worker;
        let cut = Cut {
            at_ms: self.now / MS,
            last,
        };
        for block in worker.meter.cut(self.now, &worker.pager, &cut) {
            let bytes = encode(&block);
            assert!(bytes.len() <= limits::RECORD_BLOCK_BYTES, "{}", bytes.len());
            for _ in 0..times {
                match late {
                    true => self.late.push(bytes.clone()),
                    false => self.stream.push(bytes.clone()),
                }
            }
            // Of memory, the block has usage that is counted nowhere else.
            let sum = UseTotals {
                byte_ms: 0,
                ..block.sum()
            };
            worker.open = worker.open.beyond(&sum).expect("no more than ran");
        }
        if !late {
            self.stream.append(&mut self.late);
        }
    }
}

proptest! {
    #[test]
    fn blocks_add_up_to_what_ran(steps in steps()) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.step(Step::Restart);
        world.stream.append(&mut world.late);
        let mut usage = ClusterUsage::default();
        let (mut sum, mut tenants) = (UseTotals::default(), BTreeMap::<Tenant, u64>::new());
        let mut kernels = BTreeMap::<KernelKey, (u64, u64)>::new();
        for bytes in &world.stream {
            let block: UsageBlock = decode(bytes).unwrap();
            if !usage.take(&block) {
                continue;
            }
            sum.add(&block.sum());
            for row in &block.kernels {
                *tenants.entry(row.tenant.clone()).or_default() += row.sm_ns;
                let kernel = kernels.entry(row.key).or_default();
                *kernel = (kernel.0 + row.launches, kernel.1 + row.sm_ns);
                prop_assert!(row.least_ns <= row.most_ns);
            }
        }
        // Each worker's own total is the sum of its blocks.
        let mut totals = UseTotals::default();
        for (_, worker) in usage.workers() {
            prop_assert_eq!(worker.missing(true), Ok(UseTotals::default()));
            totals.add(&worker.totals());
        }
        prop_assert_eq!(totals, sum);
        // The usage that died with a worker is that of the reports behind the last report which its blocks
        // name.
        let [told, known] = world.told_and_known();
        prop_assert_eq!(told, known);
        let counted = UseTotals { byte_ms: 0, ..sum };
        prop_assert_eq!(world.ran.beyond(&counted), Some(world.lost));
        if world.lost.is_zero() {
            tenants.retain(|_, sm_ns| *sm_ns > 0);
            world.by_tenant.retain(|_, sm_ns| *sm_ns > 0);
            prop_assert_eq!(tenants, world.by_tenant);
            kernels.remove(&KernelKey(0));
            prop_assert_eq!(kernels, world.by_kernel);
        }
    }
}

#[test]
fn what_does_not_fit_one_block_is_in_several() {
    let mut world = World::new();
    for slot in 0..8 {
        let kernels: Vec<_> = (1..600).map(|key| (1_000 * slot + key, 1, 7)).collect();
        world.step(Step::Ran(slot, kernels, 1));
    }
    world.step(Step::Cut(1, false));
    assert!(world.worker.open.is_zero());
    assert!(world.stream.len() >= 6, "{} blocks", world.stream.len());
    // Wherever the worker dies among them, nothing is lost twice and nothing is forgotten.
    world.step(Step::Crash);
    while world.stream.pop().is_some() {
        let [told, known] = world.told_and_known();
        assert_eq!(told, known, "{} blocks", world.stream.len());
    }
}

#[test]
fn a_tenants_first_kernels_are_counted_by_name_and_all_others_together() {
    let Worker {
        mut meter, pager, ..
    } = worker(1, 0);
    let most = KEYS as u64;
    let mut now = 0;
    let mut run = |meter: &mut Meter, owner: u64, key: u64| {
        now += 7;
        let ran = KernelTime {
            key: KernelKey(key),
            count: 1,
            total_ns: 7,
            sm_ns: 7,
            least_ns: 7,
            most_ns: 7,
        };
        let used = SliceUse {
            session: SessionId(owner),
            device_ns: 7,
            launches: 1,
            sm_ns: 7,
            kernels: &[ran],
        };
        meter.completed(now, &used);
    };
    for owner in [1, 2] {
        meter.open(SessionId(owner), &tenant(owner));
    }
    for key in 1..=most + 100 {
        meter.names([KernelName {
            kernel: KernelKey(key),
            function: "shape".into(),
            grid_dim: [1; 3],
            block_dim: [1; 3],
            shared_bytes: 0,
            module: None,
        }]);
        run(&mut meter, 1, key);
    }
    // Another tenant has a bound of its own, and its kernels have names of their own.
    for key in most + 50..most + 60 {
        run(&mut meter, 2, key);
    }
    let cut = Cut {
        at_ms: 1,
        last: true,
    };
    let blocks = meter.cut(most * 100, &pager, &cut);
    let rows = || blocks.iter().flat_map(|block| &block.kernels);
    let of = |owner: u64| rows().filter(move |row| row.tenant == tenant(owner));
    assert_eq!((of(1).count(), of(2).count()), (KEYS + 1, 10));
    let others: Vec<_> = rows().filter(|row| row.key == KernelKey::OTHER).collect();
    assert_eq!((others.len(), others[0].launches), (1, 100));
    assert_eq!(rows().map(|row| row.launches).sum::<u64>(), most + 110);
    let names: Vec<_> = blocks.iter().flat_map(|block| &block.names).collect();
    assert_eq!(names.len(), KEYS + 10);
    let mut learned = 0;
    while let Some(measured) = meter.measured() {
        learned += measured.kernels.len();
    }
    assert_eq!(learned, KEYS + 10, "profiles have as many");
    assert_eq!(meter.take_times(usize::MAX).len(), KEYS + 10);
}
