//! Requests for several devices: all of them, on different workers, or none; and queries for the
//! devices.

use bus_schemas::subject::{ConnectionName, ToLeader};
use bus_schemas::{
    Code, Devices, DevicesRequest, Groups, Incarnation, OpenRequest, Tenant, TenantSettings,
    WIRE_VERSION, decode, encode,
};
use scheduler_leader_core::{Event, StateSnapshot};

use crate::world::{World, closed, tenant};

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

    /// The leader's answer to this tenant, which asks for its devices with these bytes.
    fn devices_of(&mut self, tenant: &Tenant, bytes: Vec<u8>) -> Option<Devices> {
        let reply = format!("{}.named", self.subjects.tenant_inbox(tenant));
        self.ask_for_devices(tenant, reply, bytes)
    }

    fn ask_for_devices(
        &mut self,
        tenant: &Tenant,
        reply: String,
        bytes: Vec<u8>,
    ) -> Option<Devices> {
        self.said = None;
        let subject = self.subjects.to_leader(tenant, ToLeader::Devices);
        self.bus.push_back((subject, Some(reply), bytes));
        self.pass(10);
        let said = self.said.take()?;
        Some(decode(&said).expect("devices"))
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
    // A successor recognizes them.
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
    // A client that asks again learns what is missing, and may go on asking.
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
    // One worker takes its session, the other one is silent from now on.
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
    world.tell(0, closed(&name));
    world.deliver();
    let failure = world.answers.last().unwrap().failure.clone().unwrap();
    assert_eq!(failure.code, Code::NoWorker);
    world.workers.insert(0, slow);
    world.pass(500);
    assert_eq!(open_sessions(&world), 0, "its other half is closed");
    // A client that asks again gets both on the remaining workers.
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
    // One of its devices is there: it gets two others, which may include that one.
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
    world.tell(0, closed("client-1"));
    world.workers.push(late);
    world.pass(500);
    assert_eq!((open_sessions(&world), world.answers.len()), (0, 0));
    // After it has connected again, it asks again.
    world.ask_devices(50, 2);
    world.pass(20);
    assert_eq!(world.workers_had().len(), 2);
}

fn named(devices: &Devices) -> Vec<Incarnation> {
    devices.devices.iter().map(|it| it.incarnation).collect()
}

#[test]
fn a_tenant_is_told_its_devices_and_nothing_of_others() {
    let ask = || encode(&DevicesRequest { v: WIRE_VERSION });
    let mut world = World::new(1, 3);
    world.pass(250);
    let all = [100, 101, 102].map(Incarnation);
    let devices = world.devices_of(&tenant(), ask()).expect("an answer");
    assert_eq!(named(&devices), all);
    assert_eq!(devices.failure, None);
    for (gpu, device) in devices.devices.iter().enumerate() {
        assert_eq!((device.gpu, device.quota), (gpu as u32, 8 << 30));
        assert_eq!(device.properties.name, format!("model {gpu}"));
    }
    // It may hold its quota there; drained and lost workers are no devices.
    let with = |settings: TenantSettings| StateSnapshot {
        tenants: vec![(tenant(), settings)],
        ..StateSnapshot::default()
    };
    let quota = TenantSettings {
        quota: 3 << 30,
        ..TenantSettings::default()
    };
    world.tell(0, Event::State(&with(quota.clone())));
    world.drain(all[1], true);
    world.workers.remove(2);
    world.pass(4_000);
    let devices = world.devices_of(&tenant(), ask()).expect("an answer");
    assert_eq!(named(&devices), [all[0]]);
    assert_eq!(devices.devices[0].quota, 3 << 30);
    // A group without workers has none, and the answer says so.
    let elsewhere = TenantSettings {
        groups: Groups::new(["rack-9".parse().unwrap()]).unwrap(),
        ..quota
    };
    world.tell(0, Event::State(&with(elsewhere)));
    let devices = world.devices_of(&tenant(), ask()).expect("an answer");
    assert_eq!(named(&devices), []);
    assert_eq!(devices.failure.expect("why").code, Code::NoGroup);
}

#[test]
fn who_is_no_tenant_or_asks_what_cannot_be_read_is_told_so_on_its_own_inbox_only() {
    let mut world = World::new(1, 1);
    world.pass(250);
    let code = |devices: Option<Devices>| devices.and_then(|it| it.failure).map(|it| it.code);
    let stranger: Tenant = "stranger".parse().unwrap();
    let request = encode(&DevicesRequest { v: WIRE_VERSION });
    let answer = world.devices_of(&stranger, request.clone());
    assert_eq!(code(answer), Some(Code::UnknownTenant));
    for bad in [Vec::new(), b"hello".to_vec(), vec![0xff; 1 << 20]] {
        assert_eq!(
            code(world.devices_of(&tenant(), bad)),
            Some(Code::Malformed)
        );
    }
    let newer = encode(&DevicesRequest {
        v: WIRE_VERSION + 1,
    });
    assert_eq!(
        code(world.devices_of(&tenant(), newer)),
        Some(Code::Version)
    );
    let other = format!("{}.named", world.subjects.tenant_inbox(&stranger));
    assert_eq!(world.ask_for_devices(&tenant(), other, request), None);
}
