//! Requests for several devices: all of them, on different workers, or none.

use bus_schemas::subject::{ConnectionName, ToLeader};
use bus_schemas::{Code, Incarnation, OpenRequest, WIRE_VERSION, encode};
use scheduler_leader_core::Event;

use crate::world::{World, tenant};

impl World {
    pub(crate) fn ask_devices(&mut self, nonce: u64, devices: u32) {
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce,
            connection: "client-1".into(),
            devices,
        };
        let reply = format!("{}.devices", self.subjects.tenant_inbox(&tenant()));
        let subject = self.subjects.to_leader(&tenant(), ToLeader::Open);
        self.bus.push_back((subject, Some(reply), encode(&request)));
    }

    /// The workers of the last answer.
    pub(crate) fn workers_had(&self) -> Vec<Incarnation> {
        let answer = self.answers.last().cloned().expect("an answer");
        let devices = answer.devices();
        for (index, device) in devices.iter().enumerate() {
            let others = &devices[..index];
            assert!(
                others
                    .iter()
                    .all(|it| it.window.end() <= device.window.base)
            );
            let properties = device.properties.as_ref().expect("its worker says");
            assert_eq!(properties.name, format!("model {}", device.gpu));
        }
        devices.iter().map(|it| it.incarnation).collect()
    }
}

fn open_sessions(world: &World) -> usize {
    let workers = world.workers.iter();
    workers.map(|worker| worker.sessions.len()).sum()
}

#[test]
fn two_devices_are_answered_at_once_and_again() {
    let mut world = World::new(2, 2);
    world.pass(250);
    world.ask_devices(50, 2);
    world.pass(20);
    let both = world.workers_had();
    assert_eq!(both, [Incarnation(100), Incarnation(101)]);
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!(
        (world.answers.len(), world.workers_had()),
        (2, both.clone())
    );
    assert_eq!(world.answers[0], world.answers[1], "no other sessions");
    // A successor knows them again.
    world.kill_leader(0);
    world.pass(500);
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!((world.answers.len(), world.workers_had()), (3, both));
    assert_eq!(open_sessions(&world), 2);
    world.replay().unwrap();
}

#[test]
fn more_devices_than_workers_wait_for_one_and_are_then_refused() {
    let mut world = World::new(1, 2);
    world.pass(250);
    world.ask_devices(50, 3);
    world.pass(600);
    assert!(world.answers.is_empty(), "a worker may still come");
    // Who asks again is told what is missing, and may ask on.
    world.ask_devices(50, 3);
    world.pass(20);
    let code = |world: &World| {
        let failure = world.answers.last().unwrap().failure.clone().unwrap();
        assert!(failure.retryable);
        failure.code
    };
    assert_eq!(code(&world), Code::TooFewWorkers);
    world.pass(4_000);
    assert_eq!(world.answers.len(), 2, "and told at last");
    assert_eq!(code(&world), Code::TooFewWorkers);
    assert_eq!(open_sessions(&world), 0);
    for devices in [0, 17] {
        world.ask_devices(60, devices);
        world.pass(20);
        let failure = world.answers.pop().unwrap().failure.unwrap();
        assert_eq!(failure.code, Code::Malformed);
    }
}

#[test]
fn a_device_that_is_lost_before_the_answer_takes_the_others_with_it() {
    let mut world = World::new(1, 2);
    world.pass(250);
    // One worker takes its session, the other is silent from now on.
    world.workers.remove(1);
    world.ask_devices(50, 2);
    world.pass(20);
    assert!(world.answers.is_empty());
    assert_eq!(open_sessions(&world), 1);
    world.pass(3_500);
    let failure = world.answers.last().unwrap().failure.clone().unwrap();
    assert_eq!(failure.code, Code::NoWorker);
    world.pass(500);
    assert_eq!(open_sessions(&world), 0, "its other half is closed");
}

#[test]
fn a_device_that_took_its_session_and_is_lost_takes_the_others_with_it() {
    let mut world = World::new(1, 3);
    // Closed connections count once ours has been up for a while.
    world.pass(3_500);
    let slow = world.workers.remove(1);
    world.ask_devices(50, 2);
    world.pass(20);
    assert!(world.answers.is_empty(), "the slow worker took nothing yet");
    assert_eq!(open_sessions(&world), 1);
    let lost = world.workers.remove(0);
    let name = ConnectionName::Worker(lost.incarnation).to_string();
    world.tell(0, Event::ConnectionClosed(&name));
    world.deliver();
    let failure = world.answers.last().unwrap().failure.clone().unwrap();
    assert_eq!(failure.code, Code::NoWorker);
    world.workers.insert(0, slow);
    world.pass(500);
    assert_eq!(open_sessions(&world), 0, "its other half is closed");
    // Who asks again has both on what is left.
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!(world.workers_had(), [Incarnation(101), Incarnation(102)]);
}

#[test]
fn who_asks_again_before_all_workers_are_sealed_has_the_same_devices_once_they_are() {
    let mut world = World::new(2, 2);
    world.pass(250);
    world.ask_devices(50, 2);
    world.pass(20);
    let late = world.workers.remove(1);
    world.kill_leader(0);
    world.pass(500);
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!(world.answers.len(), 1, "one device is not both");
    world.workers.push(late);
    world.pass(200);
    assert_eq!(world.answers.len(), 2, "answered without being asked again");
    assert_eq!(
        world.workers_had(),
        [Incarnation(100), Incarnation(101)],
        "the same devices"
    );
    assert_eq!(open_sessions(&world), 2);
    let first = |at: usize| world.answers[at].opened.as_ref().unwrap().session;
    assert_eq!(first(0), first(1), "the same sessions");
}

#[test]
fn who_had_other_devices_meanwhile_keeps_them() {
    let mut world = World::new(2, 3);
    world.pass(250);
    world.ask_devices(50, 2);
    world.pass(20);
    let late = world.workers.remove(0);
    world.kill_leader(0);
    world.pass(500);
    // Of what it had, one device is there: it is given two others, of which that may be one.
    world.ask_devices(50, 2);
    world.pass(20);
    let both = world.workers_had();
    assert_eq!(world.answers.len(), 2);
    assert!(!both.contains(&late.incarnation));
    world.workers.push(late);
    world.pass(200);
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!((world.answers.len(), world.workers_had()), (3, both));
    assert_eq!(world.answers[1].opened, world.answers[2].opened);
    assert_eq!(world.answers[1].others, world.answers[2].others);
}

#[test]
fn what_a_client_asked_for_before_it_died_is_given_to_nobody() {
    let mut world = World::new(1, 2);
    let late = world.workers.remove(1);
    world.pass(250);
    world.ask_devices(50, 2);
    world.pass(100);
    world.tell(0, Event::ConnectionClosed("client-1"));
    world.workers.push(late);
    world.pass(500);
    assert_eq!((open_sessions(&world), world.answers.len()), (0, 0));
    // Connected anew it asks again.
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!(world.workers_had().len(), 2);
}
