//! A tenant that is suspended while leaders change, and what administrators are told of its session
//! meanwhile.

use bus_schemas::subject::Admin;
use bus_schemas::{
    SessionStatus, SessionWait, Sessions, SessionsRequest, WIRE_VERSION, decode, encode,
};
use scheduler_leader_core::Event;

use crate::world::{World, opened, tenant};

impl World {
    fn suspend(&mut self, suspended: bool) {
        let own = &mut self.stored.tenants[0].1;
        own.suspended = suspended;
        let settings = own.clone();
        for at in 0..self.nodes.len() {
            self.tell(at, Event::TenantSet(&tenant(), Some(&settings)));
        }
    }

    /// The leader's answer with all sessions.
    fn sessions(&mut self) -> Sessions {
        let request = encode(&SessionsRequest {
            v: WIRE_VERSION,
            ..SessionsRequest::default()
        });
        let subject = self.subjects.admin(Admin::Sessions);
        // The reply subject at which the world looks for answers to administrators.
        self.bus
            .push_back((subject, Some("asked.drain".into()), request));
        self.pass(10);
        decode(self.said.as_ref().expect("an answer")).expect("sessions")
    }

    fn only(&mut self) -> SessionStatus {
        let mut said = self.sessions();
        assert_eq!(said.sessions.len(), 1);
        said.sessions.remove(0)
    }

    fn started(&self) -> u64 {
        let started = self.workers.iter().flat_map(|worker| &worker.started);
        started.map(|(_, first, last)| last + 1 - first).sum()
    }
}

#[test]
fn a_suspended_session_stands_still_under_each_leader_goes_on_and_the_record_replays() {
    let mut world = opened(3);
    world.submit(700);
    world.pass(100);
    assert_eq!(world.only().waits, SessionWait::Program);
    world.suspend(true);
    world.submit(2_000);
    world.pass(200);
    assert_eq!(world.started(), 700, "nothing more");
    let only = world.only();
    assert_eq!(only.session, world.opened.as_ref().unwrap().session);
    assert_eq!((only.tenant, only.gpu), (tenant(), 0));
    assert_eq!(only.waits, SessionWait::Suspended);
    assert!(only.queued > 0 && only.outstanding_ns == 0);
    world.kill_leader(0);
    world.pass(300);
    let said = world.sessions();
    assert!(said.partial, "workers may not have come back to it");
    assert_eq!(said.sessions[0].waits, SessionWait::Suspended);
    world.pass(4_000);
    assert!(!world.sessions().partial);
    assert_eq!(world.started(), 700, "nor under the next leader");
    world.suspend(false);
    world.pass(500);
    assert_eq!(world.started(), 2_700);
    assert_eq!(world.only().waits, SessionWait::Program);
    world.check();
}
