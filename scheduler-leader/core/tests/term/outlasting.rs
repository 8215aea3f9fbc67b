//! Facts that must outlast a leader: the death of a program, and that of a worker.

use bus_schemas::LeaderId;
use bus_schemas::subject::ConnectionName;
use scheduler_leader_core::{Event, LeaderConfig, LeaderNode};

use crate::world::{World, closed, opened};

fn sessions(world: &World) -> usize {
    let each = world.workers.iter().map(|worker| worker.sessions.len());
    each.sum()
}

fn tell_all(world: &mut World, name: &str) {
    for at in 0..world.nodes.len() {
        world.tell(at, closed(name));
    }
}

/// Ends the leader's process without an event of the broker.
fn lose_leader(world: &mut World) {
    let at = world.leading().expect("it leads");
    world.nodes[at] = None;
    assert_eq!(world.leading(), None);
}

/// Another candidate starts and reads the store.
fn start(world: &mut World, id: u64) {
    let node = LeaderNode::new(LeaderConfig::new("lab".parse().unwrap()), LeaderId(id));
    world.nodes.push(Some(node));
    let (at, state) = (world.nodes.len() - 1, world.stored.clone());
    world.tell(at, Event::State(&state));
    world.tell(at, Event::Connected);
}

/// Each candidate reads the store, as the watch of the bucket reports it.
fn watch(world: &mut World) {
    let state = world.stored.clone();
    for at in 0..world.nodes.len() {
        world.tell(at, Event::State(&state));
    }
}

/// Kills the leader every 3 s for this many seconds; a candidate starts in its place.
fn kill_leaders(world: &mut World, seconds: u64) {
    for round in 0..seconds / 3 {
        watch(world);
        world.kill_leader(0);
        start(world, 100 + round);
        world.pass(3_000);
    }
}

#[test]
fn a_dead_programs_session_ends_in_time_although_leaders_die() {
    let mut world = opened(2);
    world.pass(3_500);
    tell_all(&mut world, "client-1");
    world.pass(200);
    kill_leaders(&mut world, 9);
    assert_eq!(sessions(&world), 1, "it may come back");
    kill_leaders(&mut world, 6);
    assert_eq!(
        sessions(&world),
        0,
        "about 10 s behind the end of its connection"
    );
    world.check();
}

#[test]
fn a_program_that_dies_while_no_leader_leads_is_known_to_be_dead() {
    let mut world = opened(2);
    world.alive();
    world.pass(3_500);
    lose_leader(&mut world);
    // The remaining candidate hears of it, and leads only then.
    tell_all(&mut world, "client-1");
    assert_eq!(world.leading(), None);
    world.pass(9_500);
    assert_eq!(sessions(&world), 1, "it may come back");
    world.pass(1_000);
    assert_eq!(sessions(&world), 0);
    world.check();
}

#[test]
fn a_program_that_comes_back_lives_on_under_each_leader() {
    let mut world = opened(2);
    world.pass(3_500);
    tell_all(&mut world, "client-1");
    world.pass(2_000);
    world.alive();
    world.pass(200);
    kill_leaders(&mut world, 18);
    assert_eq!(sessions(&world), 1);
    // Its last message may not have reached the store: it has a moment to speak up.
    tell_all(&mut world, "client-1");
    world.pass(200);
    watch(&mut world);
    world.alive();
    world.pass(50);
    world.kill_leader(0);
    world.pass(500);
    world.alive();
    world.pass(15_000);
    assert_eq!(sessions(&world), 1);
    world.check();
}

#[test]
fn a_stalled_leader_does_not_start_the_wait_anew() {
    let mut world = opened(1);
    world.pass(3_500);
    tell_all(&mut world, "client-1");
    for _ in 0..8 {
        world.pass(1_400);
        // It stands still together with its peers.
        world.now += 600 * crate::world::MS;
    }
    world.pass(1_000);
    assert_eq!(sessions(&world), 0, "10 s of what it saw");
}

#[test]
fn a_worker_that_dies_while_no_leader_leads_is_lost_under_the_next_one_at_once() {
    let mut world = opened(2);
    world.pass(3_500);
    let on = world.opened.as_ref().unwrap().incarnation;
    let at = world.workers.iter().position(|it| it.incarnation == on);
    let gone = world.workers.remove(at.unwrap());
    lose_leader(&mut world);
    let name = ConnectionName::Worker(gone.incarnation).to_string();
    tell_all(&mut world, &name);
    assert_eq!(world.leading(), None);
    world.pass(700);
    assert_eq!(world.stored.placement.lost, [gone.incarnation]);
}

#[test]
fn a_worker_that_comes_back_while_no_leader_leads_is_not_lost() {
    let mut world = opened(2);
    world.pass(3_500);
    let on = world.opened.as_ref().unwrap().incarnation;
    lose_leader(&mut world);
    tell_all(&mut world, &ConnectionName::Worker(on).to_string());
    world.pass(5_000);
    assert!(world.stored.placement.lost.is_empty());
    world.submit(300);
    world.pass(300);
    world.check();
}

#[test]
fn a_program_may_have_come_back_while_its_leader_was_away() {
    let mut world = opened(1);
    world.tell(0, closed("client-1"));
    world.tell(0, Event::Disconnected);
    world.pass(12_000);
    world.tell(0, Event::Connected);
    world.pass(20_000);
    assert_eq!(sessions(&world), 1);
}
