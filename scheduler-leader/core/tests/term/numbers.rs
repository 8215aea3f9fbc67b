//! Workers that come with the gpu number of another.

use bus_schemas::Incarnation;

use crate::missed::succeed_as_stored;
use crate::worker::Worker;
use crate::world::{World, opened};

/// Another worker with the number of this one.
fn rival(owner: &Worker) -> Worker {
    Worker {
        incarnation: Incarnation(owner.incarnation.0 + 50),
        ..Worker::new(owner.gpu)
    }
}

/// A world at work with a rival of its second worker, which has come last.
fn with_rival() -> World {
    let mut world = opened(1);
    world.pass(500);
    let rival = rival(&world.workers[1]);
    world.workers.push(rival);
    world
}

/// The rival has not joined, and was told that its number is taken; the owner was told nothing.
fn is_refused(world: &World) {
    assert!(world.workers[2].refused, "it was told so");
    assert_eq!(world.workers[2].epoch, 0, "it was never sealed");
    assert!(!world.workers[1].refused);
    let rival = world.workers[2].incarnation;
    assert!(!world.stored.placement.workers.contains(&rival));
    assert_eq!(world.stored.placement.lost, []);
}

#[test]
fn a_number_is_its_first_workers() {
    let mut world = with_rival();
    world.pass(1_500);
    is_refused(&world);
    assert_eq!(world.status().expect("a leader").workers.len(), 2);
    // Once it is gone nothing is left of it.
    let rival = world.workers.remove(2).incarnation;
    world.pass(6_000);
    let placement = &world.stored.placement;
    assert!(!placement.lost.contains(&rival) && placement.missed.is_empty());
    world.check();
}

#[test]
fn another_leader_knows_whose_number_it_is() {
    let mut world = with_rival();
    world.pass(100);
    succeed_as_stored(&mut world);
    world.pass(1_500);
    is_refused(&world);
}

#[test]
fn of_two_that_come_at_once_one_joins() {
    let mut world = World::new(1, 1);
    let first = rival(&world.workers[0]);
    world.workers.push(first);
    world.begin();
    world.pass(2_000);
    let refused = world.workers.iter().filter(|it| it.refused).count();
    let joined = world.workers.iter().filter(|it| it.epoch > 0).count();
    assert_eq!((refused, joined), (1, 1));
    assert_eq!(world.stored.placement.workers.len(), 1);
}

#[test]
fn a_dead_workers_number_is_free() {
    let mut world = with_rival();
    let dead = world.workers.remove(1);
    world.pass(2_500);
    let successor = &world.workers[1];
    assert!(!successor.refused && successor.epoch > 0, "it joined");
    assert_eq!(world.stored.placement.lost, [dead.incarnation]);
    assert_eq!(world.stored.placement.missed, []);
}

#[test]
fn a_leaving_workers_number_is_free() {
    let mut world = with_rival();
    let rival = world.workers.pop().expect("the rival");
    world.workers[1].leaves = true;
    world.pass(200);
    world.workers.push(rival);
    world.pass(500);
    let successor = &world.workers[2];
    assert!(!successor.refused && successor.epoch > 0, "it joined");
}

#[test]
fn a_worker_that_has_obeyed_a_leader_keeps_its_number() {
    let mut world = with_rival();
    world.workers[2].epoch = 1;
    world.pass(1_000);
    assert!(!world.workers[2].refused);
    assert!(world.workers[2].epoch > 1, "it was sealed");
}
