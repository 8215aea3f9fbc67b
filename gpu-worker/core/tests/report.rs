//! The report of a device's memory agrees with the answers to clients to the byte. It shows every tenant
//! once, and shows a tenant nothing of others.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    ClientProcess, Incarnation, MemoryRequest, MemoryStatus, OpNumber, SessionId, ShortText,
    Tenant, WIRE_VERSION, encode, limits,
};
use gpu_worker_core::dispatch::Claim;
use gpu_worker_core::memory_report::PageLimits;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::pager::{GRANULE, Need};
use gpu_worker_core::resources::MeteredSlice;
use gpu_worker_core::{Meter, Pager, Resources};
use proptest::prelude::*;

const CAPACITY: u64 = 1 << 30;
const WORKER: (Incarnation, u32) = (Incarnation(1), 3);
const SECOND: u64 = 1_000_000_000;

fn tenant(number: u64) -> Tenant {
    format!("t{number:02}").parse().expect("a name")
}

/// A worker's resources, and the bytes allocated by each session.
struct World {
    resources: Resources,
    held: BTreeMap<(Tenant, SessionId), u64>,
    op: OpNumber,
    running: BTreeMap<SessionId, u64>,
}

impl World {
    fn new() -> Self {
        let meter = Meter::new(0, WORKER.0, WORKER.1, 1, true);
        Self {
            resources: Resources::new(Pager::new(CAPACITY), meter, 256),
            held: BTreeMap::new(),
            op: 0,
            running: BTreeMap::new(),
        }
    }

    fn open(&mut self, owner: u64, session: u64, quota: u64) {
        let id = SessionId(session);
        self.resources.open(0, id, &tenant(owner), quota);
        self.held.entry((tenant(owner), id)).or_default();
    }

    /// A session allocates this many bytes and launches for this long.
    fn allocate(&mut self, owner: u64, session: u64, bytes: u64, device_ns: u64) {
        self.op += 1;
        let (op, address) = (self.op, self.op << 32);
        let claim = Claim {
            session: SessionId(session),
            first: op,
            needs: vec![Need::Alloc { op, address, bytes }],
        };
        let answer = self.resources.ask(claim).expect("nothing is waited for");
        if answer.refused.is_none() {
            let key = (tenant(owner), SessionId(session));
            *self.held.entry(key).or_default() += bytes.next_multiple_of(GRANULE);
        }
        let slice = MeteredSlice {
            first: op,
            last: op,
            resident: bytes,
            faulted: false,
            used: SliceUse {
                session: SessionId(session),
                device_ns,
                launches: 1,
                sm_ns: device_ns,
                kernels: &[],
            },
        };
        assert_eq!(self.resources.completed(SECOND, [slice]), None);
    }

    /// Returns the answer to a session's client that asks for its figures.
    fn asks(
        &mut self,
        owner: u64,
        session: u64,
        process: Option<ClientProcess>,
    ) -> (u64, u64, u64) {
        let held = self.held[&(tenant(owner), SessionId(session))];
        self.op += 1;
        let request = MemoryRequest {
            v: WIRE_VERSION,
            number: self.op,
            held,
            after: 0,
            wanted: 0,
            least: 0,
            recall: 0,
            process,
            pinned: false,
        };
        self.resources.request(SECOND, SessionId(session), &request);
        let mut answers = self.resources.memory_answers(SECOND);
        let (_, _, answer) = answers.pop().expect("answered at once");
        (answer.total, answer.held, answer.free)
    }

    fn all(&self, most: PageLimits) -> Vec<MemoryStatus> {
        let report = self.resources.memory_report(SECOND, WORKER, &self.running);
        let mut pages = vec![report.page(None, most)];
        while let Some(page) = pages.last().filter(|page| page.more) {
            let last = page.tenants.last().expect("a tenant").tenant.clone();
            pages.push(report.page(Some(&last), most));
        }
        pages
    }

    fn of(&self, owner: &Tenant) -> MemoryStatus {
        self.resources
            .memory_report(SECOND, WORKER, &self.running)
            .of(owner)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Open(u64, u64),
    Allocate(usize, u64),
    Close(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_u64, 0..3_u64).prop_map(|(owner, quota)| Step::Open(owner, quota << 28)),
        6 => (any::<usize>(), 1..(200_u64 << 20)).prop_map(|(at, bytes)| Step::Allocate(at, bytes)),
        1 => any::<usize>().prop_map(Step::Close),
    ];
    prop::collection::vec(step, 1..80)
}

fn most() -> impl Strategy<Value = PageLimits> {
    (1..5_usize, 1..8_usize).prop_map(|(tenants, sessions)| PageLimits { tenants, sessions })
}

fn check(world: &mut World, most: PageLimits) -> Result<(), TestCaseError> {
    let pages = world.all(most);
    let device = &pages[0];
    let held: u64 = world.held.values().sum();
    for page in &pages {
        prop_assert_eq!((page.capacity, page.held), (CAPACITY, held));
        prop_assert_eq!(page.free, CAPACITY - held);
        prop_assert!(page.tenants.len() <= most.tenants);
        prop_assert!(page.sessions.len() <= most.sessions);
    }
    // Each tenant with a session is shown once, in order.
    let shown: Vec<_> = pages.iter().flat_map(|page| &page.tenants).collect();
    let names: Vec<_> = shown.iter().map(|row| row.tenant.clone()).collect();
    let owners: BTreeSet<_> = world.held.keys().map(|(owner, _)| owner.clone()).collect();
    prop_assert_eq!(&names, &owners.into_iter().collect::<Vec<_>>());
    prop_assert_eq!(shown.iter().map(|row| row.held).sum::<u64>(), device.held);
    for row in shown {
        let own = world
            .held
            .iter()
            .filter(|((owner, _), _)| *owner == row.tenant);
        let own: Vec<_> = own.map(|((_, session), held)| (*session, *held)).collect();
        prop_assert_eq!(row.held, own.iter().map(|(_, held)| held).sum::<u64>());
        prop_assert_eq!(row.sessions as usize, own.len());
        prop_assert!(row.free <= device.free, "more than there is");
        prop_assert_eq!(
            row.free,
            row.total.saturating_sub(row.held).min(device.free)
        );
        // Its sessions are on its page, as far as there is room.
        let page = pages.iter().find(|page| page.tenants.contains(row));
        let named = page
            .into_iter()
            .flat_map(|page| page.sessions_of(&row.tenant));
        let named: Vec<_> = named.map(|it| (it.session, it.held)).collect();
        let room = own.len().min(most.sessions);
        prop_assert_eq!(&named[..], &own[..room]);
        // The tenant sees itself as administrators see it, and nothing else.
        let status = world.of(&row.tenant);
        prop_assert_eq!(&status.tenants, std::slice::from_ref(row));
        let figures = (status.capacity, status.held, status.free);
        prop_assert_eq!(figures, (row.total, row.held, row.free));
        prop_assert!(status.sessions.iter().all(|it| it.tenant == row.tenant) && !status.more);
    }
    let mut sessions = world.held.keys().cloned().collect::<Vec<_>>();
    sessions.truncate(3);
    for (owner, session) in sessions {
        let number = owner.as_str()[1..].parse().expect("a number");
        let figures = world.asks(number, session.0, None);
        let status = world.of(&owner);
        // The figures that cuMemGetInfo returns, to the byte.
        prop_assert_eq!(figures, (status.capacity, status.held, status.free));
    }
    Ok(())
}

proptest! {
    #[test]
    fn one_number_for_all_who_ask(steps in steps(), most in most()) {
        let mut world = World::new();
        let mut sessions: Vec<(u64, u64)> = Vec::new();
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Open(owner, quota) => {
                    world.open(owner, number, quota);
                    sessions.push((owner, number));
                }
                Step::Allocate(at, bytes) if !sessions.is_empty() => {
                    let (owner, session) = sessions[at % sessions.len()];
                    world.allocate(owner, session, bytes, 0);
                }
                Step::Close(at) if !sessions.is_empty() => {
                    let (owner, session) = sessions.remove(at % sessions.len());
                    world.resources.close(SECOND, SessionId(session));
                    world.held.remove(&(tenant(owner), SessionId(session)));
                }
                Step::Allocate(..) | Step::Close(_) => {}
            }
            check(&mut world, most)?;
        }
    }
}

#[test]
fn who_runs_and_which_process_has_a_session_is_told() {
    let mut world = World::new();
    world.open(1, 1, 0);
    world.open(1, 2, 0);
    world.open(2, 3, 0);
    world.allocate(1, 1, 1_000, SECOND / 4);
    world.running.insert(SessionId(2), SECOND / 2);
    let process = ClientProcess {
        host: ShortText::new("node-7"),
        pid: 4_711,
        name: ShortText::new("train"),
    };
    world.asks(1, 2, Some(process));
    let status = world.of(&tenant(1));
    let row = &status.tenants[0];
    assert_eq!((row.held, row.resident, row.sessions), (1_024, 1_000, 2));
    let sessions: Vec<_> = status
        .sessions
        .iter()
        .map(|it| (it.session.0, it.busy_ppm, it.process))
        .collect();
    assert_eq!(sessions, [(1, 250_000, None), (2, 500_000, Some(process))]);
    // One session ran while the other did.
    assert_eq!(row.busy_ppm, 500_000);
    assert_eq!(world.of(&tenant(2)).tenants[0].busy_ppm, 0);
    // A tenant without a session on this worker learns nothing, neither of itself nor of others.
    let stranger = world.of(&tenant(9));
    assert_eq!((stranger.capacity, stranger.held, stranger.free), (0, 0, 0));
    assert!(stranger.tenants.is_empty() && stranger.sessions.is_empty());
    // The process is remembered if a later request lacks it.
    world.asks(1, 2, None);
    assert_eq!(world.of(&tenant(1)).sessions[1].process, Some(process));
}

#[test]
fn the_largest_page_fits_a_message() {
    let mut world = World::new();
    for number in 0..=limits::STATUS_SESSIONS as u64 {
        world.open(1, number, 0);
        world.open(100 + number, 10_000 + number, 0);
    }
    let pages = world.all(PageLimits::default());
    // The first tenant has one session more than there is room for, and a page to itself.
    let first = &pages[0];
    assert_eq!(
        first.tenants[0].sessions,
        limits::STATUS_SESSIONS as u32 + 1
    );
    assert_eq!(
        (first.tenants.len(), first.sessions.len()),
        (1, limits::STATUS_SESSIONS)
    );
    assert_eq!(pages[1].tenants.len(), limits::STATUS_TENANTS);
    for page in pages {
        assert!(encode(&page).len() < limits::MESSAGE_BYTES / 2);
    }
}
