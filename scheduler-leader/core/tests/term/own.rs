//! A leader takes over from itself because its epoch has its maximum age, with many sessions open.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::subject::{ToClient, ToLeader};
use bus_schemas::{
    CloseReason, CloseRequest, Code, GrantBatch, LeaderNotice, SealedSession, SessionId,
    WIRE_VERSION, Window, decode, encode, limits,
};

use crate::worker::Worker;
use crate::world::{MS, World, opened, tenant};

/// Open sessions without work.
const IDLE: u64 = 1_000;
/// Sequential messages until the next epoch grants something: seal and answer.
const EXCHANGES: usize = 2;
/// Sessions without work that may be told of the new epoch before it.
const BEFORE: usize = 64;

/// A client that works on one of many sessions, two seconds before its leader's epoch ends.
fn crowded() -> World {
    let mut world = opened(1);
    world.settings(|settings| settings.record_max_age_s = 16);
    let mut open = world.workers.iter().flat_map(|it| it.sessions.values());
    let first = open.next().cloned().expect("a session is open");
    for at in 0..IDLE {
        let session = SealedSession {
            session: SessionId(1 << 40 | at),
            ordinal: 2 + at,
            nonce: 1 << 40 | at,
            window: Window {
                base: limits::ADDRESS_FIRST + (at + 16) * limits::WINDOW_MIN_BYTES,
                size: limits::WINDOW_MIN_BYTES,
            },
            accepted: 0,
            done: 0,
            received: 0,
            ..first.clone()
        };
        let worker = &mut world.workers[(at % 2) as usize];
        worker.sessions.insert(session.session, session);
    }
    world
}

/// Sessions with clients that are told something by messages under way.
fn told(world: &World, names: &BTreeMap<String, SessionId>) -> Vec<SessionId> {
    let notices = world.bus.iter().filter(|(_, _, bytes)| {
        let notice = decode::<LeaderNotice>(bytes);
        notice.is_ok_and(|notice| notice.epoch == 2)
    });
    notices
        .filter_map(|(subject, _, _)| names.get(subject).copied())
        .collect()
}

fn is_granting(world: &World) -> bool {
    world.bus.iter().any(|(subject, _, bytes)| {
        subject.ends_with(".order")
            && decode::<GrantBatch<'_>>(bytes)
                .is_ok_and(|order| order.epoch == 2 && !order.grants.is_empty())
    })
}

#[test]
fn who_is_at_work_waits_for_a_few_exchanges_however_many_sessions_there_are() {
    let mut world = crowded();
    let ids = (0..IDLE).map(|at| SessionId(1 << 40 | at));
    let name = |id| {
        (
            world.subjects.to_client(&tenant(), id, ToClient::Leader),
            id,
        )
    };
    let names: BTreeMap<String, SessionId> = ids.map(name).collect();
    // Until it has taken the lease for the next epoch: the seals are under way.
    loop {
        world.submit(8);
        world.wake();
        let node = world.nodes[0].as_ref().expect("it lives");
        if node.leader().epoch() == Some(2) {
            break;
        }
        world.go_on();
        assert!(world.now < 5_000 * MS, "its epoch does not end");
    }
    // Its worker tells the client of the new epoch as soon as it is sealed. Unfinished ops are
    // announced again, before the leader knows the session.
    let session = world.opened.as_ref().expect("it is open").session;
    let mut at = world
        .workers
        .iter()
        .filter_map(|it| it.sessions.get(&session));
    world.queued = at.next().expect("it is on a worker").done;
    world.announce();
    let (mut exchanges, mut before) = (0, BTreeSet::new());
    while !is_granting(&world) {
        before.extend(told(&world, &names));
        world.exchange();
        exchanges += 1;
        assert!(exchanges <= EXCHANGES, "{exchanges} exchanges");
    }
    assert!(before.len() <= BEFORE, "{} were told before", before.len());
    // The others are told soon.
    let mut all = before;
    for _ in 0..200 {
        world.wake();
        all.extend(told(&world, &names));
        world.go_on();
    }
    assert_eq!(all.len() as u64, IDLE);
    world.pass(1_000);
    world.check();
}

#[test]
fn who_is_silent_expires_however_short_its_leaders_epochs_are() {
    let mut world = opened(1);
    world.settings(|settings| settings.record_max_age_s = 8);
    world.submit(8);
    world.pass(20_000);
    assert!(world.ended.is_none() && world.terms.len() > 10);
    world.pass(50_000);
    let ended = world.ended.as_ref().and_then(|notice| notice.ended.clone());
    assert_eq!(ended.map(|failure| failure.code), Some(Code::Expired));
}

/// The client asks for the end of its session, and for an answer.
fn close(world: &mut World) {
    let session = world.opened.as_ref().expect("a session").session;
    let close = CloseRequest {
        v: WIRE_VERSION,
        session,
        after: 0,
        reason: CloseReason::Asked,
    };
    let reply = world
        .subjects
        .to_client(&tenant(), session, ToClient::Leader);
    let subject = world.subjects.to_leader(&tenant(), ToLeader::Close);
    world.bus.push_back((subject, Some(reply), encode(&close)));
}

#[test]
fn who_asks_for_what_has_ended_is_told_however_short_its_leaders_epochs_are() {
    let mut world = opened(1);
    world.settings(|settings| settings.record_max_age_s = 8);
    world.pass(5_000);
    let epochs = world.terms.len();
    close(&mut world);
    // The session ends, and its worker is not heard before the next epoch, which knows nothing of
    // the end.
    while world.terms.len() == epochs {
        world.wake();
        world.deliver();
        world.workers.iter_mut().for_each(Worker::run);
    }
    let mut workers = world.workers.iter();
    assert!(workers.all(|worker| worker.sessions.is_empty()) && world.ended.is_none());
    for _ in 0..50 {
        close(&mut world);
        world.pass(200);
    }
    let ended = world.ended.as_ref().and_then(|notice| notice.ended.clone());
    assert_eq!(ended.map(|failure| failure.code), Some(Code::SessionGone));
    world.check();
}
