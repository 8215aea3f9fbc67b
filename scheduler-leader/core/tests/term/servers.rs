//! A broker of several servers: a client with a closed connection may have gone to another server,
//! and a leader that cannot write the lease may be cut off.

use bus_schemas::subject::ConnectionName;
use bus_schemas::{Incarnation, LeaderId};
use scheduler_leader_core::{Event, LeaderConfig, LeaderNode};

use crate::worker::Worker;
use crate::world::{MS, World, closed};

fn opened(leaders: u64) -> World {
    let mut world = World::with(leaders, 2, |config: &mut LeaderConfig| {
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

/// The server of all candidates dies; each goes to another one at once.
fn server_dies(world: &mut World) {
    for at in 0..world.nodes.len() {
        world.tell(at, Event::Disconnected);
    }
    world.now += 30 * MS;
    for at in 0..world.nodes.len() {
        world.tell(at, Event::Connected);
    }
}

/// The worker without the client's session dies; the broker reports that if `told`.
fn kill_worker(world: &mut World, told: bool) -> Worker {
    let on = world.opened.as_ref().unwrap().incarnation;
    let mut workers = world.workers.iter();
    let at = workers.position(|worker| worker.incarnation != on).unwrap();
    let gone = world.workers.remove(at);
    if told {
        close(world, &ConnectionName::Worker(gone.incarnation).to_string());
    }
    gone
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
fn a_worker_that_dies_as_servers_die_is_lost_within_four_seconds() {
    for apart in [0, 500, 1_000, 2_900] {
        let mut world = opened(3);
        server_dies(&mut world);
        // The remaining servers elect the ones that store.
        world.stored_away = true;
        world.pass(apart);
        let gone = kill_worker(&mut world, true).incarnation;
        world.pass(2_900);
        assert_eq!(lost(&world), 0, "it may be on its way to another server");
        server_dies(&mut world);
        world.pass(1_000);
        assert_eq!(world.stored.placement.lost, [gone], "{apart} ms behind");
        world.pass(1_000);
        server_dies(&mut world);
        world.stored_away = false;
        world.submit(500);
        world.pass(20_000);
        assert_eq!((lost(&world), &world.ended), (1, &None));
        world.check();
    }
}

#[test]
fn a_worker_of_whose_death_no_server_told_is_lost_although_servers_die() {
    let mut world = opened(1);
    let gone = kill_worker(&mut world, false).incarnation;
    for _ in 0..3 {
        server_dies(&mut world);
        world.pass(5_000);
    }
    assert_eq!(world.stored.placement.lost, [gone]);
}

#[test]
fn a_worker_that_takes_two_seconds_to_another_server_is_not_lost_as_servers_die() {
    for told in [false, true] {
        let mut world = opened(3);
        for round in 0..4 {
            server_dies(&mut world);
            world.stored_away = round % 2 == 0;
            world.pass(200);
            let worker = kill_worker(&mut world, told);
            world.pass(500);
            server_dies(&mut world);
            world.pass(1_500);
            world.workers.push(worker);
            world.submit(500);
            world.pass(3_000);
        }
        world.stored_away = false;
        world.pass(20_000);
        assert_eq!((lost(&world), &world.ended), (0, &None));
        world.check();
    }
}

#[test]
fn the_next_leader_loses_a_worker_that_died_as_servers_and_their_leader_died() {
    let mut world = opened(3);
    server_dies(&mut world);
    world.pass(500);
    let gone = kill_worker(&mut world, true).incarnation;
    world.pass(500);
    world.kill_leader(0);
    world.pass(2_800);
    assert!(world.leading().is_some());
    assert_eq!(world.stored.placement.lost, [gone]);
}

/// A candidate that starts now and has heard no worker.
fn start_candidate(world: &mut World, id: u64) {
    let config = LeaderConfig::new("lab".parse().unwrap()).on_servers();
    let node = LeaderNode::new(config, LeaderId(id));
    world.nodes.push(Some(node));
    let (at, state) = (world.nodes.len() - 1, world.stored.clone());
    world.tell(at, Event::State(&state));
    world.tell(at, Event::Connected);
}

/// Starts another worker on the device of a gone one.
pub(crate) fn start_again(world: &mut World, gone: &Worker) {
    let mut started = World::apart(1..=1, gone.gpu..gone.gpu + 1, |_| ());
    let mut worker = started.workers.remove(0);
    worker.incarnation = Incarnation(500 + u64::from(gone.gpu));
    world.workers.push(worker);
}

#[test]
fn a_worker_is_lost_once_a_later_start_of_its_device_is_heard() {
    for fresh in [false, true] {
        let mut world = opened(1);
        let gone = kill_worker(&mut world, false);
        start_again(&mut world, &gone);
        world.pass(300);
        assert_eq!(lost(&world), 0, "it may be on its way to another server");
        if fresh {
            // No leader that heard it is left.
            world.kill_leader(0);
            start_candidate(&mut world, 9);
            world.pass(400);
            assert!(world.leading().is_some());
        }
        world.pass(1_700);
        assert_eq!(world.stored.placement.lost, [gone.incarnation]);
        world.submit(500);
        world.pass(20_000);
        assert_eq!((lost(&world), &world.ended), (1, &None));
    }
}

#[test]
fn a_worker_is_not_lost_for_an_earlier_start_of_its_device() {
    let mut world = opened(1);
    let on = world.opened.as_ref().unwrap().incarnation;
    let mut workers = world.workers.iter();
    let at = workers.position(|it| it.incarnation != on).unwrap();
    let early = world.workers.remove(at);
    start_again(&mut world, &early);
    world.workers.push(early);
    world.pass(1_000);
    let late = world.workers.remove(1);
    world.pass(8_000);
    assert_eq!(lost(&world), 0, "it looks for another server");
    world.workers.push(late);
    world.pass(20_000);
    assert_eq!(lost(&world), 0, "two that live are two");
}

#[test]
fn a_leader_that_is_cut_off_for_long_takes_no_closed_connection_for_a_death() {
    let mut world = opened(1);
    world.stored_away = true;
    world.pass(10_500);
    kill_worker(&mut world, true);
    world.pass(20_000);
    assert_eq!(lost(&world), 0, "longer than servers take to choose");
    world.stored_away = false;
    world.pass(200);
    assert_eq!(lost(&world), 1);
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
    // It was cut off from the others, which had a leader and lost it; the lease is free.
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
