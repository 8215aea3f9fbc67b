//! Whole terms: nodes, workers and a client exchange real messages; leaders die; the record is
//! replayed and must arrive at the workers' chains.

mod compilations;
mod cutting;
mod devices;
mod drains;
mod failures;
mod lost;
mod memory;
mod missed;
mod numbers;
mod outlasting;
mod own;
mod profiles;
mod quotas;
mod servers;
mod starved;
mod statuses;
mod stopping;
mod suspended;
mod worker;
mod world;

use bus_schemas::subject::{Author, ConnectionName, ToLeader};
use bus_schemas::{Tenant, WIRE_VERSION, encode};
use scheduler_leader_core::replay::ReplayError;
use scheduler_leader_core::{Event, TermEnd};
use worker::Worker;
use world::{MS, World, closed, closed_by, opened, tenant};

#[test]
fn a_session_runs_and_its_record_replays() {
    let mut world = opened(1);
    for _ in 0..20 {
        world.submit(700);
        world.pass(30);
    }
    world.pass(2_000);
    world.check();
    assert_eq!(world.replay().unwrap().adopted, 0);
    let close = bus_schemas::CloseRequest {
        v: WIRE_VERSION,
        session: world.opened.as_ref().unwrap().session,
        after: world.submitted,
        reason: bus_schemas::CloseReason::Asked,
    };
    let subject = world.subjects.to_leader(&tenant(), ToLeader::Close);
    world.bus.push_back((subject, None, encode(&close)));
    world.pass(30);
    let ended = world.ended.as_ref().and_then(|notice| notice.ended.clone());
    assert_eq!(ended.unwrap().detail, "closed as asked");
    assert!(
        world
            .workers
            .iter()
            .all(|worker| worker.sessions.is_empty())
    );
    world.check();
}

#[test]
fn leaders_die_and_nothing_is_lost_or_run_twice() {
    for (lost, rows) in [(0, 7), (5, 7), (15, 7), (40, 900), (40, 3), (90, 1)] {
        let mut world = opened(4);
        world.workers.iter_mut().for_each(|it| it.rows = rows);
        for round in 0..3 {
            for _ in 0..4 {
                world.submit(500);
                world.pass(7);
            }
            // Blocks younger than this died with the leader: the workers' tails have them.
            world.acknowledge = false;
            world.submit(300);
            world.pass(lost);
            world.kill_leader(lost * MS);
            world.acknowledge = true;
            world.pass(60);
            assert!(world.leading().is_some(), "round {round}");
        }
        world.pass(4_000);
        world.check();
        let replayed = world.replay().unwrap();
        assert_eq!(replayed.epochs, 4);
        // At most the grants of the missing time, at one position per millisecond, and the window.
        assert!(
            replayed.adopted <= 3 * (lost + 10),
            "{} adopted",
            replayed.adopted
        );
        assert!(lost == 0 || replayed.adopted > 0);
        // A tail that did not fit into one message was sent in several.
        let pages: usize = world.workers.iter().map(|it| it.pages).sum();
        assert!(pages == 0 || rows < 900, "{pages} pages");
        assert!(pages > 0 || lost < 15 || rows == 900, "no pages");
    }
}

#[test]
fn a_stale_leader_is_fenced() {
    let mut world = opened(2);
    world.submit(2_000);
    world.pass(10);
    let at = world.leading().unwrap();
    // Cut off: it hears and sends nothing, while another one takes over.
    let stale = world.nodes[at].take();
    world.pass(500);
    let other = world.leading().expect("a successor");
    assert_ne!(other, at);
    world.nodes[at] = stale;
    world.pass(1_000);
    assert_eq!(world.leading(), Some(other), "one leader");
    assert!(matches!(world.terms[..], [(1, _)]), "{:?}", world.terms);
    world.pass(3_000);
    world.check();
}

#[test]
fn a_leader_hands_over() {
    let mut world = opened(2);
    world.submit(5_000);
    world.pass(10);
    let at = world.leading().unwrap();
    world.tell(at, Event::Leave);
    world.pass(30);
    assert_eq!(world.terms, [(1, TermEnd::Left)]);
    assert!(world.leading().is_some_and(|other| other != at));
    world.pass(3_000);
    world.check();
    assert_eq!(
        world.replay().unwrap().adopted,
        0,
        "all inputs were recorded"
    );
}

#[test]
fn a_deleted_lease_is_written_again() {
    let mut world = opened(2);
    let at = world.leading().unwrap();
    (world.lease, world.revision) = (None, 0);
    world.pass(1_500);
    assert_eq!(world.leading(), Some(at), "it leads on");
    assert!(world.lease.is_some());
    assert!(world.terms.is_empty());
}

#[test]
fn what_a_dead_client_had_on_its_way_does_not_keep_its_session() {
    let sessions = |world: &World| -> usize {
        let each = world.workers.iter().map(|worker| worker.sessions.len());
        each.sum()
    };
    let mut world = opened(1);
    world.tell(0, closed("client-1"));
    world.submit(10);
    world.pass(9_500);
    assert_eq!(sessions(&world), 1, "it may come back");
    world.pass(1_000);
    assert_eq!(sessions(&world), 0, "10 s behind the end of its connection");
    // A client that does come back is heard later than that.
    let mut world = opened(1);
    world.tell(0, closed("client-1"));
    world.pass(600);
    world.submit(10);
    world.pass(11_000);
    assert_eq!(sessions(&world), 1);
}

#[test]
fn a_connection_ends_nothing_but_what_its_login_may_speak_for() {
    let other: Tenant = "mallory".parse().unwrap();
    let strangers = [Author::Tenant(other), Author::Unknown];
    let mut world = opened(2);
    // Closed connections count once ours has been up for a while.
    world.pass(3_500);
    let at = world.leading().unwrap();
    let id = world.nodes[at].as_ref().unwrap().leader().id();
    let worker = world.opened.as_ref().unwrap().incarnation;
    let names = [
        ConnectionName::Leader(id).to_string(),
        ConnectionName::Worker(worker).to_string(),
        "client-1".to_owned(),
    ];
    for (author, name) in strangers
        .iter()
        .flat_map(|it| names.iter().map(move |name| (it, name)))
    {
        for node in 0..world.nodes.len() {
            world.tell(node, closed_by(name, author));
        }
        world.pass(500);
    }
    // The tenant itself is neither a leader nor a worker, under any name.
    let own = Author::Tenant(tenant());
    for name in &names[..2] {
        for node in 0..world.nodes.len() {
            world.tell(node, closed_by(name, &own));
        }
    }
    world.pass(11_000);
    assert_eq!(world.leading(), Some(at));
    assert!(world.terms.is_empty());
    assert!(world.stored.placement.lost.is_empty());
    let sessions = |world: &World| -> usize {
        let each = world.workers.iter().map(|worker| worker.sessions.len());
        each.sum()
    };
    assert_eq!(sessions(&world), 1);
    world.tell(at, closed_by("client-1", &own));
    world.pass(11_000);
    assert_eq!(sessions(&world), 0, "its own login ends it");
}

/// A leader with a record that is not acknowledged, after this many rounds of launches: more than
/// it may keep.
fn unheard(leaders: u64, rounds: usize) -> World {
    let mut world = World::new(leaders, 2);
    world.settings(|settings| settings.record_buffer = 4_000);
    world.pass(250);
    world.open();
    world.pass(20);
    world.acknowledge = false;
    for _ in 0..rounds {
        world.submit(300);
        world.pass(20);
    }
    world
}

/// The record is written again, and the first leader hears that all its blocks are stored.
fn all_recorded(world: &mut World) {
    world.acknowledge = true;
    let blocks = world.blocks.iter();
    let blocks: Vec<_> = blocks.map(|block| (block.0, block.1)).collect();
    for (epoch, number) in blocks {
        world.tell(0, Event::Recorded { epoch, number });
    }
}

#[test]
fn a_renewal_that_outlives_its_term_begins_no_second_one_of_the_same_epoch() {
    let mut world = unheard(1, 30);
    // Its renewal is under way when the record has a gap, which ends the term.
    world.lease_late = Some(Vec::new());
    world.pass(600);
    assert_eq!(world.lease_late.as_ref().map(Vec::len), Some(1));
    all_recorded(&mut world);
    // The block that names it is cut only now, and acknowledged at once.
    world.pass(50);
    assert_eq!(world.terms, [(1, TermEnd::RecordGap)]);
    world.write_lease();
    world.pass(500);
    let leader = world.nodes[0].as_ref().unwrap().leader();
    assert_eq!(leader.epoch(), Some(2), "an epoch has one term");
    world.submit(100);
    world.pass(500);
    let replayed = world.replay().unwrap();
    assert_eq!(
        (replayed.gaps, replayed.epochs, replayed.skipped),
        (1, 2, 0)
    );
}

#[test]
fn a_full_record_is_a_named_gap_and_a_new_term() {
    let mut world = unheard(1, 60);
    assert!(world.terms.is_empty(), "launches never wait for the record");
    assert_eq!(
        world.workers.iter().map(Worker::ran).sum::<u64>(),
        world.submitted
    );
    // The stream is back, and has every block in the end.
    all_recorded(&mut world);
    world.pass(1_000);
    assert_eq!(world.terms, [(1, TermEnd::RecordGap)]);
    world.submit(1_000);
    world.pass(1_000);
    let replayed = world.replay().unwrap();
    assert_eq!((replayed.gaps, replayed.epochs), (1, 2));
    assert!(
        replayed.gap_positions > 0,
        "what nobody recorded is counted"
    );
    assert_eq!(replayed.skipped, 0, "all of it is named");
    let named: u64 = replayed
        .named
        .iter()
        .map(|gap| gap.last - gap.first + 1)
        .sum();
    assert!(named >= replayed.gap_positions, "{:?}", replayed.named);
    assert!(
        replayed
            .named
            .iter()
            .all(|gap| gap.reason.contains("4000 bytes"))
    );
    let digest: Vec<_> = world.finals().iter().map(|(_, tail)| *tail).collect();
    assert_eq!(replayed.digest, bus_schemas::digest(&digest));
}

#[test]
fn what_a_leader_left_unrecorded_is_with_the_workers_until_the_gap_is_recorded() {
    // Blocks are stored without an acknowledgement: the leader goes before it could name its gap.
    let mut world = unheard(2, 60);
    assert!(world.terms.is_empty(), "{:?}", world.terms);
    world.acknowledge = true;
    world.kill_leader(0);
    world.pass(1_000);
    world.submit(100);
    world.pass(1_000);
    let replayed = world.replay().unwrap();
    assert_eq!(replayed.skipped, 0, "{:?}", replayed.holes);
    let digest: Vec<_> = world.finals().iter().map(|(_, tail)| *tail).collect();
    assert_eq!(replayed.digest, bus_schemas::digest(&digest));
}

#[test]
fn a_large_or_old_epoch_is_followed_by_another_of_the_same_leader_at_once() {
    for by_age in [false, true] {
        let mut world = World::new(2, 2);
        world.settings(|settings| match by_age {
            true => settings.record_max_age_s = 16,
            false => settings.record_max_bytes = 8 * 6_000,
        });
        world.syncs = true;
        world.pass(250);
        world.open();
        world.pass(20);
        let at = world.leading().unwrap();
        let mut requests = 0;
        for _ in 0..150 {
            world.submit(100);
            world.pass(33);
            let node = world.nodes[at].as_ref().expect("it lives");
            let now: u64 = node
                .leader()
                .attainments()
                .iter()
                .map(|it| it.2.total_requests)
                .sum();
            assert!(
                now >= requests,
                "counting began anew: {now} after {requests}"
            );
            requests = now;
        }
        assert!(requests > 50, "{requests}");
        world.pass(1_000);
        let terms = &world.terms;
        assert!(terms.len() > 1, "by age {by_age}: {terms:?}");
        for (index, (epoch, why)) in terms.iter().enumerate() {
            assert_eq!((*epoch, *why), (index as u64 + 1, TermEnd::Renewed));
        }
        assert_eq!(world.leading(), Some(at), "the same leads on");
        world.check();
        let replayed = world.replay().unwrap();
        assert_eq!(replayed.epochs, world.terms.len() as u64 + 1);
        assert_eq!((replayed.adopted, replayed.skipped), (0, 0));
    }
}

#[test]
fn what_workers_hand_over_neither_fills_the_buffer_nor_ends_the_epoch() {
    for by_size in [false, true] {
        let mut world = opened(2);
        world.acknowledge = false;
        for _ in 0..60 {
            world.submit(300);
            world.pass(20);
        }
        let handed: usize = world.workers.iter().map(|worker| worker.tail.len()).sum();
        assert!(handed > 100, "{handed} grants of which no worker knows");
        world.acknowledge = true;
        world.kill_leader(0);
        world.settings(|settings| match by_size {
            true => settings.record_max_bytes = 8 * 6_000,
            false => settings.record_buffer = 4_000,
        });
        world.pass(2_000);
        assert!(world.leading().is_some());
        assert_eq!(world.terms, [], "by size {by_size}");
        world.submit(100);
        world.pass(100);
        let replayed = world.replay().unwrap();
        assert_eq!((replayed.gaps, replayed.skipped), (0, 0));
    }
}

#[test]
fn while_nothing_is_acknowledged_blocks_wait_until_they_are_full() {
    let mut world = opened(1);
    let before = world.blocks.len();
    world.acknowledge = false;
    for _ in 0..200 {
        world.submit(5);
        world.pass(25);
    }
    let under_way = world.blocks.len() - before;
    assert!(under_way <= 66, "{under_way} blocks");
    world.acknowledge = true;
    for (epoch, number, _, _) in world.blocks.clone() {
        world.tell(0, Event::Recorded { epoch, number });
    }
    world.pass(1_000);
    world.check();
    assert!(world.terms.is_empty());
}

#[test]
fn an_open_request_sent_again_after_a_failover_gets_the_same_session() {
    let mut world = opened(2);
    let first = world.opened.take().unwrap();
    let device = Some(worker::described(first.gpu));
    assert_eq!(first.properties, device, "as its worker's beats say");
    world.kill_leader(0);
    world.pass(60);
    assert!(world.leading().is_some());
    // The answer was lost with the leader.
    world.open();
    world.pass(20);
    let again = world.opened.clone().unwrap();
    assert_eq!(again.session, first.session);
    assert_eq!((again.window, again.quota), (first.window, first.quota));
    assert_eq!(again.properties, device);
    assert_eq!(
        (again.epoch, again.ordinal),
        (first.epoch + 1, first.ordinal)
    );
    world.submit(500);
    world.pass(2_000);
    world.check();
}

#[test]
fn two_leaders_of_one_epoch_are_told_apart() {
    // A broker lost its tail, and the cluster was in two parts: each leader sealed its own workers.
    let mut halves = [
        World::apart(1..=1, 0..2, |_| ()),
        World::apart(7..=7, 2..4, |_| ()),
    ];
    for half in &mut halves {
        half.begin();
        half.submit(700);
        half.pass(2_000);
        half.check();
        assert_eq!(half.finals().len(), 2);
    }
    let [mut whole, other] = halves;
    assert_eq!(whole.blocks[0].0, other.blocks[0].0, "the same epoch");
    whole.blocks.extend(other.blocks.clone());
    let replayed = whole.replay().unwrap();
    let tails = [whole.finals(), other.finals()].concat();
    let tails: Vec<_> = tails.into_iter().map(|(_, tail)| tail).collect();
    assert_eq!(replayed.digest, bus_schemas::digest(&tails));
    assert_eq!((replayed.epochs, replayed.skipped), (2, 0));
}

#[test]
fn replay_refuses_what_it_does_not_understand_and_notices_what_is_missing() {
    let mut world = opened(1);
    for _ in 0..30 {
        world.submit(300);
        world.pass(40);
    }
    world.pass(2_000);
    world.check();
    let whole = world.blocks.clone();
    assert!(whole.len() > 3);
    let good = world.replay().unwrap();
    // A block from the middle of the work is missing, and only time passes after it: the chain
    // cannot be reached.
    world.blocks.remove(whole.len() / 4);
    assert!(matches!(world.replay(), Err(ReplayError::Disagrees { .. })));
    // A duplicate block counts once.
    world.blocks.clone_from(&whole);
    world.blocks.push(whole[1].clone());
    world.check();
    // Two blocks have changed places.
    world.blocks.clone_from(&whole);
    let bytes = world.blocks[1].2.clone();
    world.blocks[1].2 = std::mem::replace(&mut world.blocks[2].2, bytes);
    assert!(matches!(world.replay(), Err(ReplayError::Block { .. })));
    // A byte is flipped in the stream: never a panic, never a silent pass.
    for at in (0..whole[1].2.len()).step_by(7) {
        world.blocks.clone_from(&whole);
        world.blocks[1].2[at] ^= 0x10;
        // Another name for an idle worker makes another digest, and nothing else.
        if let Ok(replayed) = world.replay()
            && replayed.digest == good.digest
        {
            assert_eq!(replayed.positions, good.positions);
        }
    }
}
