//! Quotas and capacity. An allocation that cannot be met fails in the call itself, regardless of
//! which program holds the memory, and the program goes on.

use std::path::Path;
use std::time::Duration;

use test_cluster::TempDir;

use crate::children::until;
use crate::guest::{Guest, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;

const MIB: u64 = 1 << 20;
const DONE: &str = "0";
const OUT_OF_MEMORY: &str = "2";

/// A program that allocates on command.
pub(crate) struct Allocator(pub(crate) Guest);

impl Allocator {
    pub(crate) fn start(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Self {
        Self(Guest::start(&mut command(loaded, tenant, dir, program)))
    }

    pub(crate) fn does(&mut self, what: &str) -> String {
        self.0.does(what)
    }

    /// Waits until its device reports these figures of the tenant's memory.
    #[track_caller]
    fn sees(&mut self, free: u64, total: u64) {
        let wanted = format!("{free} of {total}");
        until("the worker has the quota", || self.does("info") == wanted);
    }

    pub(crate) fn allocates(&mut self, bytes: u64) -> String {
        self.does(&format!("alloc {bytes}"))
    }
}

#[tokio::test]
async fn what_a_sibling_holds_is_refused_and_what_it_frees_is_had() {
    let mut a = plan("a", "search", 1);
    a.settings.quota = 64 * MIB;
    let loaded = LoadedCluster::idle(1, 1, &[a], &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "quotas");
    let start = || Allocator::start(&loaded, "a", dir.path(), &program);
    let (mut one, mut other) = (start(), start());
    assert_eq!(one.allocates(40 * MIB), DONE);
    assert_eq!(other.allocates(20 * MIB), DONE);
    for program in [&mut one, &mut other] {
        assert_eq!(program.does("work"), DONE);
        assert_eq!(program.allocates(4 * MIB + 1), OUT_OF_MEMORY);
        assert_eq!(program.does("work"), DONE, "it goes on");
    }
    // The figures are exact for both; an allocation counts as the next multiple of 256.
    assert_eq!(one.allocates(1), DONE);
    assert_eq!(one.does("work"), DONE);
    let left = format!("{} of {}", 4 * MIB - 256, 64 * MIB);
    assert_eq!((one.does("info"), other.does("info")), (left.clone(), left));
    assert_eq!(other.allocates(4 * MIB - 256), DONE, "all that is left");
    assert_eq!(one.allocates(1), OUT_OF_MEMORY);
    assert_eq!(
        (one.does("free"), one.does("free")),
        (DONE.into(), DONE.into())
    );
    assert_eq!(other.allocates(40 * MIB), DONE, "what was freed");
    assert_eq!(
        (one.does("work"), other.does("work")),
        (DONE.into(), DONE.into())
    );
    assert_eq!(one.allocates(256), DONE);
    // The memory of a program is free as soon as it has ended.
    assert_eq!(other.0.ends().1, Some(0));
    assert_eq!(one.allocates(63 * MIB), DONE);
    assert_eq!(one.does("work"), DONE);
}

#[tokio::test]
async fn what_another_tenant_holds_of_the_device_is_refused_too() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let settings = [("worker.capacity", "32MiB")];
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "quotas");
    let start = |tenant: &str| Allocator::start(&loaded, tenant, dir.path(), &program);
    let (mut one, mut other) = (start("a"), start("b"));
    assert_eq!(one.allocates(24 * MIB), DONE);
    assert_eq!(one.does("work"), DONE);
    assert_eq!(other.allocates(9 * MIB), OUT_OF_MEMORY);
    assert_eq!(other.does("info"), format!("{} of {}", 8 * MIB, 32 * MIB));
    assert_eq!(other.allocates(8 * MIB), DONE);
    assert_eq!(
        (one.does("work"), other.does("work")),
        (DONE.into(), DONE.into())
    );
    assert_eq!(one.allocates(1), OUT_OF_MEMORY);
    assert_eq!(one.does("work"), DONE);
}

#[tokio::test]
async fn a_quota_that_changes_counts_for_programs_that_run() {
    let mut a = plan("a", "search", 1);
    a.settings.quota = 64 * MIB;
    let mut loaded = LoadedCluster::idle(2, 1, std::slice::from_ref(&a), &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "quotas");
    let start = |loaded: &LoadedCluster| Allocator::start(loaded, "a", dir.path(), &program);
    let (mut one, mut other) = (start(&loaded), start(&loaded));
    assert_eq!(one.allocates(30 * MIB), DONE);
    assert_eq!(one.allocates(10 * MIB), DONE);
    assert_eq!(one.does("work"), DONE);
    other.sees(24 * MIB, 64 * MIB);
    // The quota is lowered below the held memory. No program gets more, but those that hold it go
    // on and may free it.
    a.settings.quota = 32 * MIB;
    loaded.set_tenant(&a.tenant, &a.settings).await;
    other.sees(0, 32 * MIB);
    for program in [&mut one, &mut other] {
        assert_eq!(program.allocates(64 * MIB), OUT_OF_MEMORY);
        assert_eq!(program.does("work"), DONE);
    }
    assert_eq!(other.allocates(1), OUT_OF_MEMORY);
    // The next leader enforces the same.
    loaded.replace_leader(0, Duration::from_secs(30)).await;
    assert_eq!(one.does("free"), DONE);
    other.sees(2 * MIB, 32 * MIB);
    assert_eq!(other.allocates(2 * MIB), DONE);
    assert_eq!(other.allocates(1), OUT_OF_MEMORY);
    // Its changes count, too.
    a.settings.quota = 48 * MIB;
    loaded.set_tenant(&a.tenant, &a.settings).await;
    one.sees(16 * MIB, 48 * MIB);
    assert_eq!(one.allocates(16 * MIB), DONE);
    assert_eq!(
        (one.does("work"), other.does("work")),
        (DONE.into(), DONE.into())
    );
}
