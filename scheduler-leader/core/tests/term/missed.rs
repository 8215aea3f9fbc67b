//! Lost workers that the status names, until their devices are served or an hour has passed.

use bus_schemas::subject::ConnectionName;
use bus_schemas::{GpuId, Incarnation, LeaderId};
use scheduler_leader_core::{Event, LeaderConfig, LeaderNode, StateSnapshot};

use crate::worker::Worker;
use crate::world::{MS, World, closed, opened};

/// A world with two workers and these leaders, in which closed connections count.
fn at_work(leaders: u64) -> World {
    let mut world = opened(leaders);
    world.pass(3_500);
    world
}

/// Ends the process of a worker; its leader hears that its connection is closed.
fn kill(world: &mut World, index: usize) -> Worker {
    let gone = world.workers.remove(index);
    let name = ConnectionName::Worker(gone.incarnation).to_string();
    for at in 0..world.nodes.len() {
        world.tell(at, closed(&name));
    }
    world.pass(300);
    gone
}

/// The lost workers of the leader's status.
fn lost(world: &mut World) -> Vec<(Incarnation, Option<GpuId>, String)> {
    let status = world.status().expect("a leader");
    let lost = status.lost.into_iter();
    lost.map(|it| (it.incarnation, it.gpu, it.device)).collect()
}

/// Another start of a lost worker.
fn later(gone: &Worker) -> Worker {
    Worker {
        incarnation: Incarnation(gone.incarnation.0 + 50),
        ..Worker::new(gone.gpu)
    }
}

/// Kills the only candidate. Another one leads, with this state of the store, that has heard no
/// worker before.
fn succeed(world: &mut World, state: &StateSnapshot, config: LeaderConfig) -> usize {
    world.kill_leader(0);
    world.pass(100);
    world.nodes.push(Some(LeaderNode::new(config, LeaderId(9))));
    let at = world.nodes.len() - 1;
    world.tell(at, Event::State(state));
    world.tell(at, Event::Connected);
    world.pass(400);
    assert_eq!(world.leading(), Some(at), "it leads");
    at
}

/// As `succeed`, with all that the leader wrote.
pub(crate) fn succeed_as_stored(world: &mut World) {
    let state = world.stored.clone();
    succeed(world, &state, config());
}

fn config() -> LeaderConfig {
    LeaderConfig::new("lab".parse().unwrap())
}

#[test]
fn a_dead_worker_is_missed_until_another_serves_its_device() {
    let mut world = at_work(1);
    assert_eq!(lost(&mut world), []);
    let gone = kill(&mut world, 1);
    let named = [(gone.incarnation, Some(gone.gpu), "model 1".to_owned())];
    assert_eq!(lost(&mut world), named);
    let status = world.status().expect("a leader");
    assert_eq!(status.workers.len(), 1, "it is not among those there");
    // The next leader never heard of it, and finds it in the store.
    succeed_as_stored(&mut world);
    assert_eq!(lost(&mut world), named);
    // A worker of another device is none in its place.
    world.workers.push(Worker::new(gone.gpu + 1));
    world.pass(300);
    assert_eq!(lost(&mut world), named);
    world.workers.push(later(&gone));
    world.pass(300);
    assert_eq!(lost(&mut world), []);
    assert_eq!(world.stored.placement.missed, []);
}

#[test]
fn a_worker_that_another_has_replaced_is_not_missed() {
    let mut world = at_work(1);
    let silent = world.workers.remove(1);
    world.workers.push(later(&silent));
    // It stands still, and its successor is heard.
    world.pass(2_500);
    assert_eq!(world.stored.placement.lost, [silent.incarnation]);
    assert_eq!(lost(&mut world), []);
    // If its successor dies, that one is missed.
    let gone = kill(&mut world, 1);
    assert_eq!(lost(&mut world).len(), 1);
    assert_eq!(lost(&mut world)[0].0, gone.incarnation);
}

#[test]
fn a_worker_that_dies_with_its_leader_is_missed() {
    let mut world = at_work(1);
    let gone = world.workers.remove(1);
    succeed_as_stored(&mut world);
    assert_eq!(lost(&mut world), [], "it may only be late");
    world.pass(4_000);
    // The store knows its device, and not its description.
    let named = [(gone.incarnation, Some(gone.gpu), String::new())];
    assert_eq!(lost(&mut world), named);
}

#[test]
fn a_worker_that_leaves_is_not_missed() {
    let mut world = at_work(1);
    world.workers[1].leaves = true;
    world.pass(300);
    let gone = kill(&mut world, 1);
    assert_eq!(world.stored.placement.lost, [gone.incarnation]);
    assert_eq!(lost(&mut world), []);
}

#[test]
fn a_worker_that_leaves_as_its_leader_dies_is_not_missed() {
    let mut world = at_work(1);
    let leaves = world.workers[1].incarnation;
    world.workers[1].leaves = true;
    // Its next heartbeat announces it, which is stored.
    world.pass(200);
    assert_eq!(world.stored.placement.leaving, [leaves]);
    world.workers.remove(1);
    succeed_as_stored(&mut world);
    world.pass(4_000);
    assert_eq!(world.stored.placement.lost, [leaves]);
    assert_eq!(lost(&mut world), []);
    assert_eq!(world.stored.placement.leaving, []);
}

#[test]
fn a_drained_worker_is_not_missed_even_if_it_dies() {
    let mut world = at_work(1);
    let drained = world.opened.as_ref().unwrap().incarnation;
    world.drain(drained, true);
    let mut workers = world.workers.iter();
    let index = workers.position(|it| it.incarnation == drained).unwrap();
    let gone = kill(&mut world, index);
    assert!(!gone.dismissed, "it had a session");
    assert_eq!(world.stored.placement.lost, [drained]);
    assert_eq!(lost(&mut world), []);
}

#[test]
fn a_worker_is_missed_for_an_hour_at_most_under_all_leaders_together() {
    assert_eq!(config().missed, 3_600 * 1_000 * MS);
    let missed = 5_000 * MS;
    let mut world = World::with(1, 2, |config| config.missed = missed);
    world.begin();
    world.pass(3_500);
    kill(&mut world, 1);
    world.pass(1_500);
    let state = world.stored.clone();
    let short = LeaderConfig { missed, ..config() };
    succeed(&mut world, &state, short);
    world.pass(1_500);
    let status = world.status().expect("a leader");
    let lost_for = status.lost[0].lost_for_ns / MS;
    assert!((3_700..4_000).contains(&lost_for), "{lost_for} ms");
    world.pass(1_500);
    assert_eq!(lost(&mut world), []);
    assert_eq!(world.stored.placement.missed, []);
}

#[test]
fn a_leader_reads_late_who_leaves_and_who_is_missed() {
    let mut world = at_work(1);
    let earlier = world.stored.clone();
    let leaves = world.workers[0].incarnation;
    let gone = kill(&mut world, 1);
    world.workers[0].leaves = true;
    world.pass(200);
    let latest = world.stored.clone();
    assert_eq!(latest.placement.leaving, [leaves]);
    world.workers.clear();
    let at = succeed(&mut world, &earlier, config());
    assert_eq!(lost(&mut world), []);
    world.tell(at, Event::State(&latest));
    let named = [(gone.incarnation, Some(gone.gpu), "model 1".to_owned())];
    assert_eq!(lost(&mut world), named);
    // It declares both lost itself, and misses the one that did not leave.
    world.pass(4_000);
    assert_eq!(world.stored.placement.lost.len(), 2);
    let missed = lost(&mut world).into_iter().map(|it| it.0);
    assert_eq!(missed.collect::<Vec<_>>(), [gone.incarnation]);
}
