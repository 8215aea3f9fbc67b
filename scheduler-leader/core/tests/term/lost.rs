//! Lost workers: the leader notes their last chain, and replay compares it.

use bus_schemas::subject::{ConnectionName, ToLeader};
use bus_schemas::{
    Alive, Chain, Code, CostClass, CostRun, GpuTail, Incarnation, LeaderId, Row, SessionId,
    WIRE_VERSION, encode,
};
use scheduler_leader_core::replay::{Fate, ReplayError, Replayed, Tail, replay};
use scheduler_leader_core::{Event, LeaderConfig, LeaderNode, Placement};

use crate::worker::Worker;
use crate::world::{MS, World, closed, launches, opened, tenant};

/// A world at work that has lost the session's worker, and that worker as its leader last knew it.
fn bereft(leaders: u64) -> (World, Worker) {
    let mut world = opened(leaders);
    // Closed connections count once ours has been up for a while.
    world.pass(3_500);
    for _ in 0..6 {
        world.submit(500);
        world.pass(7);
    }
    let on = world.opened.as_ref().unwrap().incarnation;
    let mut workers = world.workers.iter();
    let at = workers.position(|worker| worker.incarnation == on).unwrap();
    let lost = world.workers.remove(at);
    assert!(lost.position > 3, "it accepted something");
    (world, lost)
}

/// Its connection is closed; all candidates are told.
fn declare(world: &mut World, lost: &Worker) {
    let name = ConnectionName::Worker(lost.incarnation).to_string();
    for at in 0..world.nodes.len() {
        world.tell(at, closed(&name));
    }
    world.pass(300);
}

fn tail(replayed: &Replayed, of: Incarnation) -> Tail {
    let mut tails = replayed.tails.iter();
    let found = tails.find(|tail| tail.incarnation == of);
    found.expect("its tail").clone()
}

/// Changes these bytes at each place in the record.
fn tamper(world: &mut World, bytes: &[u8], to: &[u8]) -> usize {
    let mut found = 0;
    for (_, _, block, _) in &mut world.blocks {
        for at in 0..block.len().saturating_sub(bytes.len()) {
            if block[at..].starts_with(bytes) {
                block[at..at + to.len()].copy_from_slice(to);
                found += 1;
            }
        }
    }
    found
}

#[test]
fn what_a_leader_knew_of_a_lost_worker_is_compared_with() {
    let (mut world, lost) = bereft(1);
    declare(&mut world, &lost);
    let replayed = world.replay().unwrap();
    let own = tail(&replayed, lost.incarnation);
    assert!(own.fate == Fate::Lost && own.recorded > 3, "{own:?}");
    assert!(own.recorded <= own.tail.position, "{own:?}");
    let rows = replayed.positions.iter();
    let mut rows = rows.filter(|row| row.incarnation == lost.incarnation);
    let row = rows.find(|row| row.position == own.recorded).unwrap();
    // Another chain in its place is found, and so is another order with the same chain.
    let chain = row.chain.expect("it is in the order");
    let mut other = chain;
    other.0[17] ^= 1;
    assert_eq!(tamper(&mut world, &chain.0, &other.0), 1);
    let says = |world: &World| match replay(&world.record(), &[]) {
        Err(ReplayError::Disagrees {
            incarnation, why, ..
        }) => (incarnation, why),
        other => panic!("{other:?}"),
    };
    let (incarnation, why) = says(&world);
    assert_eq!(incarnation, lost.incarnation);
    assert!(why.contains("when it was lost"), "{why}");
    assert_eq!(tamper(&mut world, &other.0, &chain.0), 1);
    assert!(replay(&world.record(), &[]).is_ok());
    let row = |class| {
        let run = CostRun {
            class,
            ..launches(500)
        };
        let mut bytes = Vec::new();
        run.write(&mut bytes);
        bytes
    };
    let (launches, syncs) = (row(CostClass::Launch), row(CostClass::Sync));
    assert!(tamper(&mut world, &launches, &syncs) > 3);
    assert_eq!(says(&world).0, lost.incarnation);
}

#[test]
fn a_worker_that_dies_with_its_leader_is_compared_as_it_was_sealed() {
    let (mut world, lost) = bereft(2);
    world.kill_leader(0);
    world.pass(4_000);
    let replayed = replay(&world.record(), &[]).unwrap();
    // Its new leader never sealed it, and so knows nothing of it: it was sealed when it was new.
    let own = tail(&replayed, lost.incarnation);
    assert_eq!((own.recorded, own.fate), (0, Fate::Lost));
    assert!(own.tail.position > 3);
}

#[test]
fn a_sign_of_life_that_names_very_many_sessions_is_answered_for_some_of_them() {
    let mut world = opened(1);
    world.pass(4_000);
    let named = |sessions: std::ops::Range<u64>| {
        let alive = Alive {
            v: WIRE_VERSION,
            connection: "client-1".into(),
            sessions: sessions.map(|number| SessionId(1 << 40 | number)).collect(),
            workers: Vec::new(),
            gpus: Vec::new(),
        };
        encode(&alive)
    };
    let mut answers = |sessions| {
        world.deliver();
        let subject = world.subjects.to_leader(&tenant(), ToLeader::Alive);
        world.bus.push_back((subject, None, named(sessions)));
        world.exchange();
        world.bus.len()
    };
    assert_eq!(answers(0..1_000), 1_000, "none of them is here");
    assert_eq!(answers(0..200_000), 1_024);
}

/// The only leader dies together with a worker, and another leader starts that never heard of
/// either.
fn succeeded() -> (World, Incarnation) {
    let (mut world, lost) = bereft(1);
    world.kill_leader(0);
    world.pass(100);
    let node = LeaderNode::new(LeaderConfig::new("lab".parse().unwrap()), LeaderId(9));
    world.nodes.push(Some(node));
    let (at, state) = (world.nodes.len() - 1, world.stored.clone());
    world.tell(at, Event::State(&state));
    world.tell(at, Event::Connected);
    world.pass(400);
    assert!(world.leading().is_some(), "it leads");
    (world, lost.incarnation)
}

#[test]
fn a_worker_that_dies_while_nobody_leads_is_declared_lost() {
    let (mut world, lost) = succeeded();
    world.alive();
    world.pass(1_000);
    assert!(world.ended.is_none(), "it may only be late");
    assert_eq!(world.stored.placement.lost, []);
    world.pass(3_000);
    assert_eq!(world.stored.placement.lost, [lost]);
    let replayed = replay(&world.record(), &[]).unwrap();
    assert_eq!(tail(&replayed, lost).fate, Fate::Lost);
    // A client that had a session there is told so, and not that the session never was.
    let ended = world.ended.take().and_then(|notice| notice.ended);
    assert_eq!(ended.map(|why| why.code), Some(Code::DeviceLost));
    // So is a client that reports it only now.
    world.alive();
    world.pass(100);
    let ended = world.ended.take().and_then(|notice| notice.ended);
    assert_eq!(ended.map(|why| why.code), Some(Code::DeviceLost));
    // No worker is lost twice.
    world.pass(4_000);
    assert_eq!(world.stored.placement.lost, [lost]);
    let counts = world.nodes.iter().flatten();
    assert_eq!(
        counts.map(|node| node.leader().workers_lost()).sum::<u64>(),
        1
    );
}

/// The reason that the client was told for its session's end.
fn told(world: &mut World) -> Option<Code> {
    let ended = world.ended.take().and_then(|notice| notice.ended);
    ended.map(|why| why.code)
}

#[test]
fn a_session_whose_worker_was_lost_under_a_leader_before_is_told_so() {
    let (mut world, lost) = bereft(3);
    declare(&mut world, &lost);
    assert_eq!(told(&mut world), Some(Code::DeviceLost));
    // Its leader died before its client heard of it.
    world.kill_leader(0);
    world.pass(4_000);
    assert!(world.leading().is_some(), "it leads");
    // Its intents do not name its worker: without knowledge, the leader does not answer them.
    world.queued = 0;
    world.announce();
    world.pass(100);
    assert_eq!(told(&mut world), None);
    world.alive();
    world.pass(100);
    assert_eq!(told(&mut world), Some(Code::DeviceLost));
    world.announce();
    world.pass(100);
    assert_eq!(told(&mut world), Some(Code::DeviceLost));
}

/// The only leader and a worker die before the store has the worker's name; another leader starts.
fn forgotten(config: LeaderConfig) -> (World, Worker) {
    let (mut world, lost) = bereft(1);
    world.kill_leader(0);
    world.pass(100);
    world.nodes.push(Some(LeaderNode::new(config, LeaderId(9))));
    let (at, mut state) = (world.nodes.len() - 1, world.stored.clone());
    state.placement = Placement::default();
    world.tell(at, Event::State(&state));
    world.tell(at, Event::Connected);
    world.pass(400);
    assert!(world.leading().is_some(), "it leads");
    (world, lost)
}

/// Milliseconds from the client's message until it knows that its session is gone.
fn word(world: &mut World) -> u32 {
    world.alive();
    for waited in 0..20_000 {
        world.pass(1);
        if let Some(code) = told(world) {
            assert_eq!(code, Code::DeviceLost);
            return waited;
        }
    }
    panic!("no word");
}

#[test]
fn a_session_of_a_worker_that_no_leader_remembers_is_told_so() {
    let config = || LeaderConfig::new("lab".parse().unwrap());
    for config in [config(), config().on_servers()] {
        let silence = config.worker_silence / MS;
        let (mut world, _) = forgotten(config);
        let waited = u64::from(word(&mut world));
        // It had led for a moment when the client spoke.
        assert!(
            (silence - 600..silence + 100).contains(&waited),
            "{waited} ms"
        );
        assert_eq!(
            world.stored.placement.lost,
            [],
            "a client's word loses no worker"
        );
    }
}

#[test]
fn a_later_start_of_its_device_tells_sooner_that_a_forgotten_worker_is_gone() {
    let config = LeaderConfig::new("lab".parse().unwrap()).on_servers();
    let (mut world, lost) = forgotten(config);
    let other = &world.workers[0];
    let mut later = Worker::new(lost.gpu);
    later.incarnation = Incarnation(lost.incarnation.0 + 50);
    assert_ne!(other.gpu, later.gpu);
    world.workers.push(later);
    let waited = word(&mut world);
    assert!((1_400..1_700).contains(&waited), "{waited} ms");
}

#[test]
fn a_worker_that_a_client_names_and_that_lives_is_not_gone() {
    let config = LeaderConfig::new("lab".parse().unwrap());
    let (mut world, lost) = forgotten(config);
    let mut later = Worker::new(lost.gpu);
    later.incarnation = Incarnation(lost.incarnation.0 + 50);
    world.alive();
    world.workers.extend([later, lost]);
    for _ in 0..8 {
        world.alive();
        world.pass(1_000);
        assert_eq!(told(&mut world), None);
    }
}

#[test]
fn a_leader_that_stood_still_takes_no_named_worker_for_gone() {
    let config = LeaderConfig::new("lab".parse().unwrap());
    let (mut world, lost) = forgotten(config);
    let mut later = Worker::new(lost.gpu);
    later.incarnation = Incarnation(lost.incarnation.0 + 50);
    world.workers.push(later);
    world.pass(2_000);
    world.alive();
    world.exchange();
    world.now += 3_000 * MS;
    world.tell(1, Event::Timer);
    world.deliver();
    assert_eq!(
        told(&mut world),
        None,
        "it has heard its peers for a moment only"
    );
    world.workers.push(lost);
    world.pass(4_000);
    assert_eq!(told(&mut world), None);
}

#[test]
fn a_worker_that_comes_late_to_a_new_leader_is_not_lost() {
    let (mut world, lost) = bereft(1);
    world.kill_leader(0);
    let node = LeaderNode::new(LeaderConfig::new("lab".parse().unwrap()), LeaderId(9));
    world.nodes.push(Some(node));
    let (at, state) = (world.nodes.len() - 1, world.stored.clone());
    world.tell(at, Event::State(&state));
    world.tell(at, Event::Connected);
    world.pass(2_000);
    let lives = lost.incarnation;
    world.workers.push(lost);
    world.pass(2_500);
    assert_eq!(world.stored.placement.lost, []);
    assert!(world.stored.placement.workers.contains(&lives));
    world.submit(300);
    world.pass(300);
    world.check();
}

#[test]
fn what_a_seal_said_is_compared_with_until_there_is_better() {
    let mut world = opened(2);
    world.submit(500);
    world.pass(200);
    let on = world.opened.as_ref().unwrap().incarnation;
    let (position, chain) = {
        let mut workers = world.workers.iter();
        let worker = workers.find(|worker| worker.incarnation == on).unwrap();
        (worker.position, worker.chain)
    };
    world.kill_leader(0);
    world.pass(300);
    world.submit(500);
    world.pass(300);
    let replayed = replay(&world.record(), &[]).unwrap();
    assert_eq!(tail(&replayed, on).recorded, position);
    let wrong = GpuTail {
        gpu: 0,
        position,
        chain: Chain([chain.0[0] ^ 1; 32]),
    };
    assert!(replay(&world.record(), &[(on, wrong)]).is_err());
}
