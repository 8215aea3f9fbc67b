//! Compilations of modules: from the worker's message through the record to the replayed positions.

use bus_schemas::{Compilation, LeaderId};
use scheduler_leader_core::replay::{Replay, Replayed, ReplayedPosition};
use serde::{Deserialize, Serialize};

use crate::world::{MS, World, opened};

/// Runs ten slices. Each worker compiled a module before the first, if it `tells` times.
fn ran(tells: bool) -> (World, Vec<u64>) {
    let mut world = opened(1);
    let mut firsts = Vec::new();
    for worker in &mut world.workers {
        let first = worker.position + 1;
        let compiled = Compilation {
            began: world.now - 5 * MS,
            ended: world.now - 2 * MS,
        };
        worker.compiled = tells.then(|| [(first, compiled)].into());
        firsts.push(first);
    }
    for _ in 0..10 {
        world.submit(7);
        world.pass(30);
    }
    world.pass(2_000);
    world.check();
    (world, firsts)
}

/// A block as builds without times wrote it.
#[derive(Serialize, Deserialize)]
struct Untimed {
    v: u16,
    order_version: u32,
    epoch: u64,
    leader: LeaderId,
    number: u64,
    through: u64,
    gap: bool,
    bytes: serde_bytes::ByteBuf,
}

fn untimed(block: &[u8]) -> Vec<u8> {
    let block: Untimed = rmp_serde::from_slice(block).unwrap();
    rmp_serde::to_vec_named(&block).unwrap()
}

fn as_it_is(block: &[u8]) -> Vec<u8> {
    block.to_vec()
}

/// Replays the record with its blocks changed.
fn explained(world: &World, block: impl Fn(&[u8]) -> Vec<u8>) -> (Replayed, Vec<ReplayedPosition>) {
    let (mut replay, mut positions) = (Replay::default().explaining(), Vec::new());
    for (epoch, number, bytes) in world.record() {
        replay.add(epoch, number, &block(&bytes)).unwrap();
    }
    replay.advance(|row| positions.push(row)).unwrap();
    (replay.finish(&world.finals()).unwrap(), positions)
}

#[test]
fn a_compilation_reaches_the_position_that_loaded_the_module() {
    let (world, firsts) = ran(true);
    let (_, positions) = explained(&world, as_it_is);
    let timed: Vec<_> = positions
        .iter()
        .filter_map(|row| Some((row, row.timing.as_ref()?)))
        .collect();
    assert!(timed.len() >= 10, "{}", timed.len());
    let compiled = timed.iter().filter(|(_, it)| !it.compiled.is_empty());
    let [(row, timing)] = compiled.collect::<Vec<_>>()[..] else {
        panic!("one position loaded a module");
    };
    assert!(row.first == 1 && firsts.contains(&row.position));
    let [compilation] = timing.compiled[..] else {
        panic!("of one compilation");
    };
    assert_eq!(compilation.ended - compilation.began, 3 * MS);
    assert!(compilation.ended <= timing.begun);
}

#[test]
fn a_record_without_times_replays_without_compilations() {
    let (timed, silent) = (ran(true).0, ran(false).0);
    let (whole, _) = explained(&timed, as_it_is);
    for (replayed, positions) in [explained(&silent, as_it_is), explained(&timed, untimed)] {
        assert!(positions.len() >= 10);
        for row in &positions {
            let compiled = row.timing.as_ref().map_or(0, |it| it.compiled.len());
            assert_eq!(compiled, 0, "{row:?}");
        }
        assert_eq!(replayed.digest, whole.digest, "the order is the same");
    }
}
