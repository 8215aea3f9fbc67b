//! Memory that others have left is zeroed. Two tenants in turn take all of it, check it, and fill
//! it.

use std::collections::VecDeque;
use std::path::Path;

use test_cluster::TempDir;

use crate::children::until;
use crate::guest::{Guest, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;

/// Maximum allocation of the programs, each of which also has a variable.
const ALL: u64 = (64 << 20) - 2 * 256;

/// A program that takes all memory, searches it for leftovers, and fills it.
struct Reader(Guest);

impl Reader {
    fn start(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Self {
        Self(Guest::start(&mut command(loaded, tenant, dir, program)))
    }

    fn does(&mut self, what: &str) -> String {
        self.0.does(what)
    }

    /// The program that had it before may not have ended yet.
    #[track_caller]
    fn waits_for(&mut self, bytes: u64) {
        until("it is all there", || self.does("left") == bytes.to_string());
    }

    /// Takes all memory, which must be zeros, and fills it.
    #[track_caller]
    fn takes_all(&mut self, round: u64) {
        self.waits_for(ALL);
        let all = self.does(&format!("take {round}"));
        assert_eq!(all, ALL.to_string(), "round {round}");
        assert_eq!(
            self.does("check"),
            "0",
            "16 bytes that others left, round {round}"
        );
        assert_eq!(self.does("fill"), "0");
    }
}

/// Runs tenants in turn; each leaves the memory by freeing it, by ending, or by being killed.
async fn rounds(rounds: u64) {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let settings = [("worker.capacity", "64MiB")];
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "wiped");
    let start = |tenant| Reader::start(&loaded, tenant, dir.path(), &program);
    let mut readers = VecDeque::from([start("b"), start("a")]);
    // The check can fail: a program finds its own data.
    readers[0].takes_all(0);
    assert_eq!(readers[0].does("check"), (ALL / 16).to_string());
    assert_eq!(readers[0].does("drop"), "0");
    for round in 1..=rounds {
        let mut reader = readers.pop_front().expect("two");
        reader.takes_all(round);
        let tenant = ["a", "b"][(round % 2) as usize];
        match round % 20 {
            3 => drop(reader),
            8 => assert_eq!(reader.0.ends().1, Some(0)),
            _ => {
                assert_eq!(reader.does("drop"), "0");
                readers.push_back(reader);
                continue;
            }
        }
        // A session is refused while no memory is left.
        readers[0].waits_for(ALL + 256);
        readers.push_back(start(tenant));
    }
}

#[tokio::test]
async fn who_takes_all_memory_finds_nothing_that_others_left() {
    rounds(12).await;
}

#[tokio::test]
#[ignore = "hours: `just wiped`"]
async fn who_takes_all_memory_ten_thousand_times_finds_nothing_that_others_left() {
    rounds(10_000).await;
}
