//! Replay while the record comes in, and replay that stops at a position.

use scheduler_leader_core::replay::{Replay, Stop, StopError, replay, replay_until};

use crate::world::{MS, World, opened};

/// Three terms; if `lost` is not 0, the last inputs of a leader die with it.
fn eventful(lost: u64) -> World {
    let mut world = opened(4);
    for _ in 0..2 {
        for _ in 0..4 {
            world.submit(500);
            world.pass(7);
        }
        world.acknowledge = lost == 0;
        world.submit(300);
        world.pass(lost);
        world.kill_leader(lost * MS);
        world.acknowledge = true;
        world.pass(60);
    }
    world.pass(4_000);
    world
}

#[test]
fn a_record_that_comes_in_block_by_block_is_replayed_as_the_whole_is() {
    for lost in [0, 40] {
        let world = eventful(lost);
        let (mut piecewise, mut ended) = (Replay::default(), Vec::new());
        for (epoch, number, bytes) in world.record() {
            piecewise.add(epoch, number, &bytes).unwrap();
            piecewise.advance(|row| ended.push(row)).unwrap();
        }
        let (piecewise, whole) = (
            piecewise.finish(&[]).unwrap(),
            replay(&world.record(), &[]).unwrap(),
        );
        assert_eq!(piecewise, whole);
        // Each ended position was reported as the whole replay has it.
        assert!(ended.len() > 50, "{}", ended.len());
        assert!(ended.is_sorted_by_key(|row| row.epoch));
        for mut row in ended {
            let mut rows = whole.positions.iter();
            let same = |known: &&_| at(known) == at(&row);
            let known = rows.find(same).expect("a position of the order");
            row.chain = known.chain;
            assert_eq!(row, *known);
        }
    }
}

fn at(row: &scheduler_leader_core::replay::ReplayedPosition) -> (u64, u64) {
    (row.incarnation.0, row.position)
}

#[test]
fn rows_say_what_was_granted_and_how_it_ended() {
    let world = eventful(0);
    let order = world.replay().unwrap();
    let runs = || order.positions.iter().filter(|row| row.last > 0);
    let ops: u64 = runs().map(|row| row.last - row.first + 1).sum();
    // Void ones are granted again.
    assert!(ops >= world.submitted, "{ops} ops");
    assert!(runs().all(|row| row.cost > 0));
    for row in runs().filter(|row| !row.adopted) {
        let launches = row.launches.expect("its intent is recorded");
        assert!((1..=row.last - row.first + 1).contains(&launches));
    }
    let ends: Vec<_> = order.positions.iter().filter_map(|row| row.end).collect();
    // The last reports may be on their way when it ends.
    assert!(ends.len() + 20 > order.positions.len());
    let mut behind = std::collections::BTreeMap::new();
    for row in &order.positions {
        let chain = behind
            .entry(row.incarnation)
            .or_insert(bus_schemas::Chain::default());
        *chain = chain.then(&bus_schemas::ChainEntry {
            position: row.position,
            tenant: &row.tenant,
            ordinal: row.ordinal,
            kind: row.kind,
            first: row.first,
            last: row.last,
        });
        assert_eq!(row.chain, Some(*chain));
    }
}

#[test]
fn a_replay_stops_right_behind_a_position() {
    let world = eventful(0);
    let order = world.replay().unwrap();
    let blocks = world.record();
    // Between the grants of one input, and anywhere.
    let pairs = order.positions.windows(2);
    let among =
        pairs.filter(|pair| (pair[0].epoch, pair[0].input) == (pair[1].epoch, pair[1].input));
    let among: Vec<_> = among.map(|pair| &pair[0]).collect();
    assert!(among.iter().any(|row| !row.adopted));
    let rows = order.positions.iter().step_by(7).chain(among);
    for row in rows.filter(|row| !row.adopted) {
        let stops = [
            Stop::Worker(row.incarnation, row.position),
            Stop::Gpu(row.gpu, row.position),
            Stop::Global(Some(row.epoch), row.global),
        ];
        for stop in stops {
            let stopped = replay_until(&blocks, stop).unwrap();
            assert_eq!(stopped.at, *row);
            let order = &stopped.order;
            assert_eq!(
                (order.epoch, order.input, order.global),
                (row.epoch, row.input, row.global)
            );
            let worker = order
                .workers
                .iter()
                .find(|of| of.incarnation == row.incarnation);
            assert_eq!(worker.unwrap().position, row.position);
            let session = order
                .sessions
                .iter()
                .find(|of| of.session == row.session)
                .unwrap();
            assert!(row.last == 0 || session.granted == row.last);
            let outstanding: u64 = worker.unwrap().outstanding_ns.iter().sum();
            assert!(outstanding >= row.cost);
        }
    }
    assert!(matches!(
        replay_until(&blocks, Stop::Gpu(9, 1)),
        Err(StopError::Nowhere(_))
    ));
}

#[test]
fn what_was_adopted_is_refused_by_name() {
    let world = eventful(40);
    let order = world.replay().unwrap();
    let adopted = order.positions.iter().find(|row| row.adopted).unwrap();
    let stop = Stop::Worker(adopted.incarnation, adopted.position);
    let refused = replay_until(&world.record(), stop);
    assert!(matches!(refused, Err(StopError::Adopted(_))), "{refused:?}");
}
