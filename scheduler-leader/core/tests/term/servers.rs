//! A broker of several servers: whose connection is closed may have gone to another one, and who
//! cannot write the lease may be cut off.

use bus_schemas::subject::ConnectionName;
use scheduler_leader_core::{Config, Event};

use crate::world::{World, closed};

fn opened(leaders: u64) -> World {
    let mut world = World::with(leaders, 2, |config: &mut Config| {
        *config = config.clone().on_servers();
    });
    world.begin();
    // Closed connections count once ours has been up for a while.
    world.pass(3_500);
    world
}

fn close(world: &mut World, name: &str) {
    for at in 0..world.nodes.len() {
        world.tell(at, closed(name));
    }
}

fn lost(world: &World) -> usize {
    world.stored.placement.lost.len()
}

#[test]
fn a_leader_that_goes_to_another_server_leads_on() {
    let mut world = opened(3);
    let at = world.leading().unwrap();
    let id = world.nodes[at].as_ref().unwrap().leader().id();
    for _ in 0..5 {
        close(&mut world, &ConnectionName::Leader(id).to_string());
        world.pass(400);
        assert_eq!(world.leading(), Some(at));
    }
    assert!(world.terms.is_empty());
}

#[test]
fn a_leader_that_died_is_followed_although_it_could_have_moved() {
    let mut world = opened(3);
    let at = world.leading().unwrap();
    world.kill_leader(0);
    world.pass(200);
    let next = world.leading().expect("another leads");
    assert_ne!(next, at);
    world.submit(500);
    world.pass(500);
    world.check();
}

#[test]
fn a_worker_that_goes_to_another_server_is_not_lost() {
    let mut world = opened(1);
    let worker = world.opened.as_ref().unwrap().incarnation;
    for _ in 0..5 {
        close(&mut world, &ConnectionName::Worker(worker).to_string());
        world.submit(500);
        world.pass(2_000);
    }
    assert_eq!((lost(&world), &world.ended), (0, &None));
    world.check();
}

#[test]
fn a_worker_that_died_is_lost_soon_after() {
    let mut world = opened(1);
    let gone = world.workers.remove(1).incarnation;
    close(&mut world, &ConnectionName::Worker(gone).to_string());
    world.pass(1_400);
    assert_eq!(lost(&world), 0, "it may be on its way to another server");
    world.pass(300);
    assert_eq!(world.stored.placement.lost, [gone]);
}

#[test]
fn nobody_is_lost_while_the_lease_cannot_be_written() {
    let mut world = opened(1);
    let worker = world.workers.remove(1);
    world.stored_away = true;
    world.pass(20_000);
    assert_eq!(lost(&world), 0, "it may be us who are cut off");
    assert_eq!(world.leading(), Some(0), "and programs run on");
    world.stored_away = false;
    world.pass(2_800);
    assert_eq!(lost(&world), 0, "nor soon after");
    world.pass(1_000);
    assert_eq!(world.stored.placement.lost, [worker.incarnation]);
}

#[test]
fn clients_hear_their_leader_once_a_second() {
    let mut world = opened(1);
    let before = world.tenant_beats;
    world.pass(5_000);
    assert!((4..=6).contains(&(world.tenant_beats - before)));
    let mut alone = crate::world::opened(1);
    let before = alone.tenant_beats;
    alone.pass(5_000);
    assert_eq!(
        alone.tenant_beats, before,
        "of a single server they need not"
    );
}

#[test]
fn a_leader_above_whom_somebody_led_and_went_leads_on_above_both() {
    let mut world = opened(1);
    let at = world.leading().unwrap();
    // It was cut off from the others, who had a leader and lost it; nobody holds the lease.
    let mut state = world.stored.clone();
    state.placement.epoch = 7;
    world.tell(at, Event::State(&state));
    world.pass(1_000);
    assert_eq!(world.leading(), Some(at));
    let epoch = world.nodes[at].as_ref().unwrap().leader().epoch();
    assert_eq!(epoch, Some(8));
    world.submit(500);
    world.pass(500);
    world.check();
}
