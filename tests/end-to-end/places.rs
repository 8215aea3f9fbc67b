//! Memory that a program maps at several addresses: it counts once, and leaves the device with its session.

use std::time::Duration;

use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;
use crate::swap::{Holder, OVERCOMMITTED};

const PIECE: u64 = 32 << 20;
const OTHERS: u64 = 48 << 20;

fn number(holder: &mut Holder, what: &str) -> u64 {
    let said = holder.does(what);
    said.parse()
        .unwrap_or_else(|_| panic!("{what}: it answered {said}"))
}

#[tokio::test]
async fn a_piece_at_several_places_leaves_with_its_session_and_comes_back() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "ipc");
    let start = |tenant| Holder::start(&loaded, tenant, dir.path(), &program);
    let mut owner = start("a");
    let before = number(&mut owner, "info");
    let piece = number(&mut owner, &format!("piece {PIECE}"));
    let places = [(); 3].map(|()| number(&mut owner, &format!("map {piece} {PIECE}")));
    assert_eq!(before - number(&mut owner, "info"), PIECE, "it counts once");
    number(&mut owner, &format!("fill {} {PIECE} 5", places[1]));
    // Each fits alone, but not beside the other: they take turns.
    let mut other = start("b");
    let own = number(&mut other, &format!("alloc {OTHERS}"));
    number(&mut other, &format!("fill {own} {OTHERS} 9"));
    for round in 0..4_u64 {
        assert_eq!(number(&mut other, &format!("see {own} {OTHERS}")), 9);
        tokio::time::sleep(Duration::from_millis(150)).await;
        let [written, read] = [round, round + 1].map(|at| places[(at % 3) as usize]);
        number(&mut owner, &format!("plus {written} {PIECE}"));
        let seen = number(&mut owner, &format!("see {read} {PIECE}"));
        assert_eq!(seen, 6 + round, "round {round}");
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    // The addresses are unmapped one by one; the bytes go with the handle.
    for place in places {
        number(&mut owner, &format!("unmap {place} {PIECE}"));
    }
    assert_eq!(number(&mut other, &format!("see {own} {OTHERS}")), 9);
    let place = number(&mut owner, &format!("map {piece} {PIECE}"));
    assert_eq!(number(&mut owner, &format!("see {place} {PIECE}")), 9);
    number(&mut owner, &format!("unmap {place} {PIECE}"));
    number(&mut owner, &format!("release {piece}"));
    assert_eq!(number(&mut owner, "info"), before);
}
