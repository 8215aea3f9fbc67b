//! Workers that an administrator drains: they get no new sessions, and leave with the last one.

use bus_schemas::subject::{Admin, ConnectionName, ToLeader};
use bus_schemas::{
    CloseReason, CloseRequest, Code, Drain, Incarnation, Status, WIRE_VERSION, decode, encode,
};
use scheduler_leader_core::replay::Fate;
use scheduler_leader_core::{Event, Placement, StateSnapshot};

use crate::worker::Worker;
use crate::world::{World, closed, opened, tenant};

impl World {
    pub(crate) fn drain(&mut self, incarnation: Incarnation, draining: bool) {
        let request = Drain {
            v: WIRE_VERSION,
            incarnation,
            draining,
        };
        let subject = self.subjects.admin(Admin::Drain);
        self.bus
            .push_back((subject, Some("asked.drain".into()), encode(&request)));
        self.pass(10);
    }

    /// Returns true if the leader's last answer shows a worker as drained, `None` if it lacks the
    /// worker.
    fn says(&self, incarnation: Incarnation) -> Option<bool> {
        let status: Status = decode(self.said.as_ref().expect("an answer")).expect("a status");
        let mut workers = status.workers.iter();
        let worker = workers.find(|worker| worker.incarnation == incarnation);
        worker.map(|worker| worker.draining)
    }

    fn dismissed(&self, incarnation: Incarnation) -> bool {
        let mut workers = self.workers.iter();
        let worker = workers.find(|worker| worker.incarnation == incarnation);
        worker.expect("one of ours").dismissed
    }

    fn close(&mut self) {
        let close = CloseRequest {
            v: WIRE_VERSION,
            session: self.opened.as_ref().unwrap().session,
            after: self.submitted,
            reason: CloseReason::Asked,
        };
        let subject = self.subjects.to_leader(&tenant(), ToLeader::Close);
        self.bus.push_back((subject, None, encode(&close)));
    }

    fn refusal(&self) -> Option<Code> {
        let failure = self.answers.last().expect("an answer").failure.clone();
        failure.map(|failure| failure.code)
    }
}

#[test]
fn a_drained_worker_keeps_its_sessions_gets_no_others_and_leaves_behind_them() {
    let mut world = opened(2);
    let drained = world.opened.as_ref().unwrap().incarnation;
    world.submit(2_000);
    world.drain(drained, true);
    assert_eq!(world.says(drained), Some(true));
    // Its session goes on, a new one goes elsewhere, and a request for two devices fails.
    world.submit(2_000);
    for nonce in [100, 200] {
        world.ask_devices(nonce, 1);
        world.pass(20);
        assert!(!world.workers_had().contains(&drained));
    }
    world.ask_devices(300, 2);
    world.pass(4_600);
    assert_eq!(world.refusal(), Some(Code::TooFewWorkers));
    assert!(!world.dismissed(drained), "it has a session");
    // The same holds under the next leader, if it reads the store before it leads or after.
    let state = world.stored.clone();
    let standby = 1 - world.leading().unwrap();
    world.tell(standby, Event::State(&state));
    world.kill_leader(0);
    world.pass(60);
    world.submit(500);
    world.ask_devices(400, 1);
    world.pass(20);
    assert!(!world.workers_had().contains(&drained));
    world.pass(500);
    assert!(!world.dismissed(drained));
    world.close();
    world.pass(1_500);
    assert!(world.dismissed(drained), "nobody is there any more");
    world.check();
    // Once it is gone it is forgotten: another start of it is another worker.
    world.tell(
        standby,
        closed(&ConnectionName::Worker(drained).to_string()),
    );
    world.pass(300);
    assert!(world.stored.placement.lost.contains(&drained));
    assert!(world.stored.placement.drained.is_empty());
}

#[test]
fn what_waited_for_a_worker_gets_it_when_its_drain_is_undone() {
    let mut world = opened(1);
    let drained = world.opened.as_ref().unwrap().incarnation;
    world.drain(drained, true);
    world.ask_devices(100, 2);
    world.pass(200);
    assert!(world.answers.is_empty(), "a worker may still come");
    world.drain(drained, false);
    assert_eq!(world.says(drained), Some(false));
    world.pass(20);
    assert_eq!(world.workers_had().len(), 2);
    world.submit(700);
    world.pass(1_500);
    assert!(!world.dismissed(drained));
    world.check();
    assert!(world.stored.placement.drained.is_empty());
}

#[test]
fn who_leads_before_it_has_read_of_a_drain_takes_it_then() {
    let mut world = opened(2);
    let drained = world.opened.as_ref().unwrap().incarnation;
    world.drain(drained, true);
    world.pass(200);
    let state = world.stored.clone();
    world.kill_leader(0);
    world.pass(60);
    let at = world.leading().expect("a successor");
    world.ask_devices(100, 2);
    world.pass(20);
    assert_eq!(world.workers_had().len(), 2, "it does not know better");
    world.tell(at, Event::State(&state));
    world.ask_devices(200, 1);
    world.pass(20);
    assert!(!world.workers_had().contains(&drained));
    world.replay().unwrap();
}

#[test]
fn what_the_store_has_forgotten_nobody_has_undone() {
    let mut world = opened(2);
    let drained = world.opened.as_ref().unwrap().incarnation;
    // The store has the previous leader's placement, then its successor's.
    let earlier = world.stored.placement.clone();
    world.kill_leader(0);
    world.pass(200);
    let at = world.leading().expect("a successor");
    world.drain(drained, true);
    world.pass(200);
    let written = world.stored.clone();
    assert_eq!(written.placement.drained, [drained]);
    world.tell(at, Event::State(&written));
    // The store loses acknowledged writes: all but the earlier ones, and then those too.
    for (nonce, forgotten) in [(100, earlier), (200, Placement::default())] {
        let state = StateSnapshot {
            placement: forgotten.clone(),
            ..written.clone()
        };
        world.stored.placement = forgotten;
        world.tell(at, Event::State(&state));
        world.ask_devices(nonce, 2);
        world.pass(200);
        assert!(world.answers.is_empty(), "one of the two is drained");
        // The next leader finds it.
        let again = world.stored.clone();
        assert_eq!(again.placement.drained, [drained]);
        world.tell(at, Event::State(&again));
    }
    world.replay().unwrap();
}

#[test]
fn a_worker_that_nobody_knows_is_not_drained() {
    let mut world = opened(1);
    world.drain(Incarnation(77), true);
    assert_eq!(world.says(Incarnation(77)), None);
    world.pass(200);
    assert!(world.stored.placement.drained.is_empty());
}

#[test]
fn a_worker_that_announced_its_leaving_hears_so_once_that_is_recorded_and_is_not_lost() {
    let mut world = opened(1);
    world.submit(500);
    // Closed connections count once ours has been up for a while.
    world.pass(3_500);
    let at = |world: &World, of| {
        let mut workers = world.workers.iter();
        workers.position(|worker| worker.incarnation == of).unwrap()
    };
    let goes = world.opened.as_ref().unwrap().incarnation;
    let index = at(&world, goes);
    world.acknowledge = false;
    world.workers[index].leaves = true;
    world.pass(500);
    assert!(!world.workers[index].noted, "its leader alone knows of it");
    assert!(!world.workers[index].dismissed, "nobody told it to leave");
    world.acknowledge = true;
    let blocks: Vec<_> = world
        .blocks
        .iter()
        .map(|block| (block.0, block.1))
        .collect();
    for (epoch, number) in blocks {
        world.tell(0, Event::Recorded { epoch, number });
    }
    world.pass(300);
    assert!(world.workers[index].noted);
    // In spite of its last message, it left.
    world.workers[index].leaves = false;
    let gone = world.workers.remove(index);
    let name = ConnectionName::Worker(gone.incarnation).to_string();
    world.tell(0, closed(&name));
    world.pass(300);
    let replayed = world.replay().unwrap();
    let mut tails = replayed.tails.iter();
    let tail = tails.find(|tail| tail.incarnation == goes).unwrap();
    assert_eq!(tail.fate, Fate::Left);
    let mut nodes = world.nodes.iter().flatten();
    assert!(nodes.all(|node| node.leader().workers_lost() == 0));
    assert_eq!(
        (tail.tail.position, tail.tail.chain),
        (gone.position, gone.chain)
    );
    // Its chain is in the digest, like every other.
    let mut ends: Vec<_> = world.finals().into_iter().map(|(_, end)| end).collect();
    ends.push(tail.tail);
    assert_eq!(replayed.digest, bus_schemas::digest(&ends));
}

/// A world in which a worker has announced that it leaves, and its leader has noted that; and the
/// worker's index.
fn a_worker_leaves() -> (World, usize) {
    let mut world = opened(1);
    world.submit(500);
    world.pass(3_500);
    let goes = world.opened.as_ref().unwrap().incarnation;
    let mut workers = world.workers.iter();
    let index = workers.position(|worker| worker.incarnation == goes);
    let index = index.unwrap();
    world.workers[index].leaves = true;
    world.pass(500);
    assert!(world.workers[index].noted);
    (world, index)
}

/// The leader hands over at once, and the record shows that a worker left with all that it
/// accepted.
fn hands_over_and_says_that_it_left(mut world: World, gone: &Worker) {
    world.pass(100);
    assert_eq!(world.leading(), None, "it waits no longer");
    let replayed = world.replay().unwrap();
    let mut tails = replayed.tails.iter();
    let tail = tails.find(|tail| tail.incarnation == gone.incarnation);
    let tail = tail.unwrap();
    assert_eq!(tail.fate, Fate::Left);
    assert_eq!(
        (tail.tail.position, tail.tail.chain),
        (gone.position, gone.chain)
    );
}

#[test]
fn a_leader_that_leaves_records_first_that_a_worker_left() {
    let (mut world, index) = a_worker_leaves();
    world.tell(0, Event::Leave);
    world.pass(500);
    assert_eq!(world.leading(), Some(0), "it waits for the worker");
    let gone = world.workers.remove(index);
    let name = ConnectionName::Worker(gone.incarnation).to_string();
    world.tell(0, closed(&name));
    hands_over_and_says_that_it_left(world, &gone);
}

#[test]
fn a_leader_that_leaves_does_not_wait_for_a_worker_whose_connection_was_closed() {
    let (mut world, index) = a_worker_leaves();
    let gone = world.workers.remove(index);
    // So late that a worker might have given up its connection.
    world.pass(1_000);
    let name = ConnectionName::Worker(gone.incarnation).to_string();
    world.tell(0, closed(&name));
    world.pass(500);
    assert!(world.stored.placement.lost.is_empty(), "it may come back");
    world.tell(0, Event::Leave);
    hands_over_and_says_that_it_left(world, &gone);
}

#[test]
fn a_leader_waits_two_seconds_for_a_worker_that_leaves() {
    let (mut world, _) = a_worker_leaves();
    world.tell(0, Event::Leave);
    world.pass(1_900);
    assert_eq!(world.leading(), Some(0));
    world.pass(200);
    assert_eq!(world.leading(), None);
}
