//! Workers' reports of their sessions' memory on their way to the order, and leaders' messages
//! about it.

use bus_schemas::{Place, Residency, SessionId, SessionResidency, Tenant, TenantSettings};
use scheduler_leader_core::{Event, Scheduler, SessionView};

use crate::world::{World, opened, tenant};

impl World {
    fn scheduler(&self) -> &Scheduler {
        let node = self.nodes[self.leading().expect("a leader")].as_ref();
        node.unwrap().leader().scheduler().unwrap()
    }

    fn session(&self) -> SessionId {
        self.opened.as_ref().unwrap().session
    }

    fn view(&self) -> SessionView {
        self.scheduler().session(self.session()).unwrap()
    }

    /// The session's worker reports this place from now on.
    fn tell_place(&mut self, place: Place) {
        let session = self.session();
        let worker = self.opened.as_ref().unwrap().incarnation;
        let mut workers = self.workers.iter_mut();
        let worker = workers.find(|it| it.incarnation == worker).unwrap();
        worker.residency = Some(Residency {
            limit: 20 << 30,
            ns_per_mib: 1_000,
            sessions: vec![SessionResidency {
                session,
                bytes: 5 << 30,
                place,
                pinned: false,
            }],
        });
    }

    /// The workers do not report memory for a while, as they may without changes.
    fn be_silent_of_memory(&mut self) {
        self.workers.iter_mut().for_each(|it| it.residency = None);
    }
}

#[test]
fn what_a_worker_says_of_memory_becomes_an_input_once() {
    let mut world = opened(1);
    // The last work is not recent any more, and no tick follows.
    world.pass(5_000);
    let inputs = |world: &World| world.scheduler().input();
    let before = inputs(&world);
    world.pass(1_000);
    assert_eq!(inputs(&world), before, "nothing happens");
    world.tell_place(Place::Out);
    world.pass(1_000);
    assert_eq!(inputs(&world), before + 1);
    assert!(world.view().away && !world.view().waiting);
    world.be_silent_of_memory();
    world.pass(1_000);
    assert_eq!(inputs(&world), before + 1, "it is as it was");
    let worker = world.opened.as_ref().unwrap().incarnation;
    let worker = world.scheduler().worker(worker).unwrap();
    assert_eq!((worker.capacity, worker.free), (20 << 30, 20 << 30));
    // A session that is away returns first.
    world.submit(100);
    world.pass(100);
    world.check();
    assert!(!world.view().away);
    let returned = world.workers.iter().map(|it| it.returned);
    assert_eq!(returned.sum::<usize>(), 1);
    // The report from before its return is old; the same report after it is not.
    world.pass(500);
    assert!(!world.view().away);
    world.tell_place(Place::Out);
    world.pass(200);
    assert!(world.view().away);
    let before = inputs(&world);
    world.pass(3_000);
    world.pass(1_000);
    assert!(inputs(&world) <= before + 300, "once, and ticks");
}

#[test]
fn the_next_leader_knows_it_with_the_seal() {
    let mut world = opened(2);
    world.tell_place(Place::Out);
    world.pass(200);
    world.be_silent_of_memory();
    world.pass(300);
    world.kill_leader(0);
    world.submit(100);
    world.pass(300);
    world.check();
    let returned = world.workers.iter().map(|it| it.returned);
    assert_eq!(returned.sum::<usize>(), 1, "it was out, for both leaders");
}

#[test]
fn tenants_whose_memory_stays_are_named_in_each_list() {
    let mut world = opened(1);
    let pinned = |world: &World| {
        let list = world.workers[0].lists.last().unwrap();
        (list.number, list.pinned.clone())
    };
    let other: Tenant = "batch".parse().unwrap();
    let set = |world: &mut World, tenant: &Tenant, swap| {
        let settings = TenantSettings {
            swap,
            ..TenantSettings::default()
        };
        world.tell(0, Event::TenantSet(tenant, Some(&settings)));
        world.pass(300);
    };
    world.pass(300);
    assert_eq!(pinned(&world), (1, vec![]));
    set(&mut world, &tenant(), false);
    set(&mut world, &other, false);
    set(&mut world, &other, false);
    assert_eq!(pinned(&world), (3, vec![other.clone(), tenant()]));
    set(&mut world, &tenant(), true);
    assert_eq!(pinned(&world), (4, vec![other.clone()]));
    world.tell(0, Event::TenantSet(&other, None));
    world.pass(300);
    assert_eq!(pinned(&world), (5, vec![]));
}
