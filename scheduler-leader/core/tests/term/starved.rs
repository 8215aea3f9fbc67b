//! A starved machine: leader, candidates and workers are late, and not dead.

use bus_schemas::Incarnation;
use bus_schemas::subject::ConnectionName;
use scheduler_leader_core::{Event, LeaderConfig};

use crate::servers::start_again;
use crate::world::{MS, World, closed, opened};

fn with_events(leaders: u64) -> World {
    let mut world = World::with(leaders, 2, |config: &mut LeaderConfig| {
        *config = config.clone().with_events();
    });
    world.begin();
    world.pass(3_500);
    world
}

/// The leader gets no time for this many milliseconds, while others do.
fn starve_leader(world: &mut World, milliseconds: u64) {
    let at = world.leading().expect("it leads");
    let node = world.nodes[at].take();
    world.pass(milliseconds);
    world.nodes[at] = node;
    world.tell(at, Event::Timer);
}

#[test]
fn a_leader_that_is_late_is_not_followed() {
    let mut world = with_events(3);
    let at = world.leading();
    for late in [100, 250, 400, 900, 1_500, 2_500, 2_800] {
        starve_leader(&mut world, late);
        world.pass(500);
        assert_eq!(world.leading(), at, "{late} ms");
    }
    assert!(world.terms.is_empty());
}

#[test]
fn a_leader_that_stands_still_is_followed_in_its_time() {
    // On a quiet machine, after a second; after an earlier lateness, after three at most.
    for (before, least, most) in [(0, 900, 1_100), (600, 2_500, 3_100)] {
        let mut world = with_events(2);
        if before > 0 {
            starve_leader(&mut world, before);
            world.pass(500);
        }
        let at = world.leading().expect("it leads");
        world.nodes[at] = None;
        let began = world.now;
        while world.leading().is_none() {
            world.pass(1);
        }
        let took = (world.now - began) / MS;
        assert!((least..most).contains(&took), "{took} ms, {before} before");
    }
}

#[test]
fn a_candidate_that_hears_little_follows_in_its_time_all_the_same() {
    // No worker beats, and the other candidate led: only the state of the stores comes from time to
    // time.
    for every in [400, 600, 1_000, 4_000] {
        let mut world = World::with(2, 0, |config: &mut LeaderConfig| {
            *config = config.clone().with_events();
        });
        world.pass(3_500);
        starve_leader(&mut world, 600);
        world.pass(500);
        let at = world.leading().expect("it leads");
        world.nodes[at] = None;
        let began = world.now;
        while world.leading().is_none() {
            let took = (world.now - began) / MS;
            assert!(took < 3_100, "{took} ms, with a word every {every}");
            if took.is_multiple_of(every) {
                world.tell(1 - at, Event::Stores(Vec::new()));
            }
            world.pass(1);
        }
    }
}

#[test]
fn a_worker_that_is_late_is_not_lost() {
    let mut world = opened(1);
    world.pass(3_500);
    for late in [500, 1_500, 2_900, 6_000, 10_000] {
        let worker = world.workers.remove(0);
        world.pass(late);
        world.workers.insert(0, worker);
        world.pass(1_000);
        assert!(world.stored.placement.lost.is_empty(), "{late} ms");
    }
    // A worker that is gone is lost nevertheless.
    let gone = world.workers.remove(0).incarnation;
    world.pass(12_200);
    assert_eq!(world.stored.placement.lost, [gone]);
}

/// The broker reports that a worker's connection was closed.
fn close(world: &mut World, worker: Incarnation) {
    let name = ConnectionName::Worker(worker).to_string();
    for at in 0..world.nodes.len() {
        world.tell(at, closed(&name));
    }
    world.pass(1);
}

#[test]
fn a_worker_that_gave_up_a_starved_broker_and_came_back_is_not_lost() {
    let mut world = opened(1);
    world.pass(3_500);
    let worker = world.workers.remove(0);
    world.pass(2_500);
    close(&mut world, worker.incarnation);
    world.pass(1_000);
    world.workers.insert(0, worker);
    world.pass(10_000);
    assert!(world.stored.placement.lost.is_empty());
}

#[test]
fn a_worker_that_was_unheard_closed_its_connection_and_stays_away_is_lost_soon() {
    let mut world = opened(1);
    world.pass(3_500);
    let gone = world.workers.remove(0).incarnation;
    world.pass(1_000);
    close(&mut world, gone);
    world.pass(2_900);
    assert!(world.stored.placement.lost.is_empty());
    world.pass(300);
    assert_eq!(world.stored.placement.lost, [gone]);
}

#[test]
fn a_worker_that_was_heard_until_its_connection_was_closed_is_lost_at_once() {
    let mut world = opened(1);
    world.pass(3_500);
    let gone = world.workers.remove(0).incarnation;
    close(&mut world, gone);
    // No longer than it takes to write it.
    world.pass(50);
    assert_eq!(world.stored.placement.lost, [gone]);
}

#[test]
fn a_worker_that_died_before_the_broker_came_back_is_lost_once_a_later_start_is_heard() {
    // For any lateness of the leader that learns of it.
    for late in [0, 600] {
        let mut world = opened(2);
        world.pass(3_500);
        // No surviving leader hears of the closed connection.
        let gone = world.workers.remove(0);
        world.pass(100);
        start_again(&mut world, &gone);
        world.pass(300);
        let state = world.stored.clone();
        world.tell(1, Event::State(&state));
        world.kill_leader(0);
        world.pass(600);
        assert_eq!(world.leading(), Some(1));
        starve_leader(&mut world, late);
        world.tell(1, Event::Connected);
        world.pass(1_400);
        assert!(world.stored.placement.lost.is_empty());
        // Before the three seconds are over in which others may come back.
        world.pass(300);
        assert_eq!(world.stored.placement.lost, [gone.incarnation], "{late} ms");
    }
}
