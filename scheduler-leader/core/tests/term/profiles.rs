//! Profile versions: learned, recorded by hash, taken over, pinned.

use bus_schemas::{
    ClusterSettings, Incarnation, KernelKey, Measured, MeasuredKernel, TenantSettings,
    WIRE_VERSION, encode,
};
use scheduler_leader_core::replay::ReplayError;
use scheduler_leader_core::{Event, Profile, StateSnapshot};

use crate::world::{MS, World, opened, tenant};

fn state(profile: Profile, pinned: Option<Profile>) -> StateSnapshot {
    StateSnapshot {
        // The worker here knows only slices.
        settings: ClusterSettings {
            standing: false,
            ..ClusterSettings::default()
        },
        tenants: vec![(tenant(), TenantSettings::default())],
        profile,
        pinned,
        ..StateSnapshot::default()
    }
}

/// Every candidate reads the state bucket.
fn tell_all(world: &mut World, state: &StateSnapshot) {
    for at in 0..world.nodes.len() {
        world.tell(at, Event::State(state));
    }
}

fn measure(world: &mut World, key: u64, count: u64, total_ns: u64) {
    let measured = Measured {
        v: WIRE_VERSION,
        kernels: vec![MeasuredKernel {
            key: KernelKey(key),
            count,
            total_ns,
        }],
    };
    let subject = world.subjects.measured(Incarnation(100));
    world.bus.push_back((subject, None, encode(&measured)));
}

fn in_force(world: &World) -> bus_schemas::ProfileStatus {
    let at = world.leading().expect("a leader");
    let leader = world.nodes[at].as_ref().unwrap().leader();
    let learns = leader.scheduler().unwrap().settings().learn;
    leader.scheduler().unwrap().profile(!learns)
}

#[test]
fn a_version_outlives_its_leader() {
    let mut world = opened(3);
    tell_all(&mut world, &state(Profile::default(), None));
    world.submit(400);
    measure(&mut world, 1, 100, 5_000_000);
    world.pass(2_000);
    let learned = world.written.last().expect("it is kept").clone();
    assert_eq!(learned.entries, [(KernelKey(1), 50_000)]);
    assert_eq!(in_force(&world).hash, learned.hash);
    // The others read the store.
    tell_all(&mut world, &state(learned.clone(), None));
    world.kill_leader(0);
    world.pass(500);
    assert_eq!(
        in_force(&world).hash,
        learned.hash,
        "from the first input on"
    );
    // Versions continue above the one that was taken over.
    measure(&mut world, 2, 10, 70_000);
    world.pass(2_000);
    let next = world.written.last().unwrap().clone();
    assert_eq!(next.version, learned.version + 1);
    assert_eq!(
        next.entries,
        [(KernelKey(1), 50_000), (KernelKey(2), 7_000)]
    );
    world.submit(400);
    world.pass(4_000);
    world.check();
}

#[test]
fn with_a_pinned_profile_nothing_measured_counts() {
    let mut world = opened(2);
    let pin = Profile::of(3, vec![(KernelKey(1), 30_000)]);
    let newest = Profile::of(9, vec![(KernelKey(1), 90_000), (KernelKey(5), 1_000)]);
    tell_all(&mut world, &state(newest.clone(), None));
    measure(&mut world, 1, 1_000, 10_000_000);
    world.pass(1_500);
    let before = world.written.len();
    assert_eq!(before, 1);
    tell_all(&mut world, &state(newest.clone(), Some(pin.clone())));
    let status = in_force(&world);
    assert_eq!(
        (status.hash, status.kernels, status.pinned),
        (pin.hash, 1, true)
    );
    for round in 2..6 {
        measure(&mut world, 1, round * 1_000, round * 90_000_000);
        world.submit(200);
        world.pass(1_000);
    }
    assert_eq!(world.written.len(), before, "no version is made");
    assert_eq!(in_force(&world).hash, pin.hash);
    world.kill_leader(0);
    world.pass(500);
    assert_eq!(in_force(&world).hash, pin.hash, "also by the next leader");
    let at = world.leading().unwrap();
    let leader = world.nodes[at].as_ref().unwrap().leader();
    let settings = leader.scheduler().unwrap().settings();
    assert!(!settings.learn && !settings.settle);
    tell_all(&mut world, &state(newest, None));
    assert!(!in_force(&world).pinned);
    measure(&mut world, 1, 9_000, 9_000_000_000);
    world.pass(1_500);
    assert_eq!(
        world.written.last().unwrap().version,
        10,
        "above all there were"
    );
    world.pass(3_000);
    world.check();
}

#[test]
fn replay_refuses_estimates_that_are_not_those_named() {
    let mut world = opened(1);
    tell_all(&mut world, &state(Profile::default(), None));
    world.submit(100);
    measure(&mut world, 1, 100, 5_000_000);
    world.pass(2_000);
    world.check();
    let hash = world.written[0].hash;
    let mut named = 0;
    for (_, _, bytes, _) in &mut world.blocks {
        let at = bytes.windows(32).position(|at| at == hash.0);
        if let Some(at) = at {
            bytes[at] ^= 1;
            named += 1;
        }
    }
    assert_eq!(named, 1, "the input names its profile");
    let refused = matches!(world.replay(), Err(ReplayError::Profile { epoch: 1, .. }));
    assert!(refused, "{:?}", world.replay());
    assert!(world.now > MS);
}

#[test]
fn who_leads_before_it_read_the_last_word_on_holding_takes_it_then() {
    let mut world = opened(2);
    let mut held = state(Profile::default(), None);
    (held.placement.held, held.placement.epoch) = (true, 1);
    tell_all(&mut world, &held);
    let is_held = |world: &World| {
        let at = world.leading().expect("a leader");
        let leader = world.nodes[at].as_ref().unwrap().leader();
        leader.scheduler().unwrap().held()
    };
    assert!(!is_held(&world), "what a leader holds is its own");
    world.kill_leader(0);
    world.pass(5_000);
    assert!(is_held(&world), "as its successor had read");
    // Released just before the leader died; the successor reads it only now.
    held.placement.held = false;
    held.placement.version += 1;
    tell_all(&mut world, &held);
    assert!(!is_held(&world));
}
