//! The status that an administrator is told while leaders change.

use bus_schemas::subject::Admin;
use bus_schemas::{Status, StatusRequest, WIRE_VERSION, decode, encode};

use crate::world::{World, opened};

impl World {
    /// The leader's status; `None` without a leader.
    pub(crate) fn status(&mut self) -> Option<Status> {
        let request = encode(&StatusRequest { v: WIRE_VERSION });
        let subject = self.subjects.admin(Admin::Status);
        self.said = None;
        // The reply subject at which the world looks for answers to administrators.
        self.bus
            .push_back((subject, Some("asked.drain".into()), request));
        self.pass(1);
        let said = self.said.as_ref()?;
        Some(decode(said).expect("a status"))
    }
}

#[test]
fn a_status_is_partial_until_the_new_leader_knows_what_each_worker_accepted() {
    let mut world = opened(3);
    world.submit(700);
    world.pass(100);
    let before = world.status().expect("a leader");
    let accepted = before.workers[0].accepted;
    assert!(!before.partial && accepted > 0);
    world.kill_leader(0);
    let (mut partial, mut asked) = (0, 0);
    let whole = loop {
        asked += 1;
        assert!(asked < 10_000, "the worker is never heard");
        match world.status().filter(|status| status.epoch > before.epoch) {
            Some(status) if !status.partial => break status,
            Some(_) => partial += 1,
            None => {}
        }
    };
    assert!(partial > 0, "the worker is heard after the term begins");
    assert!(whole.workers[0].accepted >= accepted, "{whole:?}");
}
