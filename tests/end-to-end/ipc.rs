//! Memory and events of one process, used by another of the same tenant: a C program in several
//! processes.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use test_cluster::TempDir;

use crate::children::until;
use crate::guest::{Guest, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;

const MIB: u64 = 1 << 20;
const ILLEGAL_ADDRESS: &str = "error 700";
const INVALID_HANDLE: &str = "error 400";

/// A process that executes commands.
struct Sharer(Guest);

impl Sharer {
    fn start(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Self {
        Self(Guest::start(&mut command(loaded, tenant, dir, program)))
    }

    fn does(&mut self, what: &str) -> String {
        self.0.does(what)
    }

    /// The result of a command that must succeed.
    #[track_caller]
    fn gives(&mut self, what: &str) -> u64 {
        let said = self.does(what);
        said.parse().unwrap_or_else(|_| panic!("{what}: {said}"))
    }
}

struct World {
    loaded: LoadedCluster,
    dir: TempDir,
    program: std::path::PathBuf,
}

impl World {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let tenants = [plan("a", "search", 1), plan("b", "search", 2)];
        let loaded = LoadedCluster::idle(1, 1, &tenants, settings).await;
        let dir = TempDir::new().expect("a directory");
        let program = compile(dir.path(), "ipc");
        Self {
            loaded,
            dir,
            program,
        }
    }

    fn start(&self, tenant: &str) -> Sharer {
        Sharer::start(&self.loaded, tenant, self.dir.path(), &self.program)
    }
}

#[tokio::test]
async fn processes_of_a_tenant_use_the_same_memory_until_it_is_freed() {
    let world = World::new(&[]).await;
    let (mut owner, mut other) = (world.start("a"), world.start("a"));
    let bytes = 5 * MIB + 256;
    let before = other.gives("info");
    let small = owner.gives("alloc 768");
    let at = owner.gives(&format!("alloc {bytes}"));
    assert_eq!(owner.gives(&format!("fill {at} {bytes} 7")), 0);
    let name = owner.does(&format!("name {at}"));
    assert_eq!(
        owner.does(&format!("name {}", at + 4_000)),
        name,
        "of the allocation"
    );
    let there = other.gives(&format!("open {name}"));
    assert_eq!(other.gives(&format!("see {there} {bytes}")), 7);
    // Kernels, fills and copies of either, small and large, are visible to the other.
    other.gives(&format!("plus {there} {bytes}"));
    other.gives(&format!("see {there} 1"));
    assert_eq!(owner.gives(&format!("see {at} {bytes}")), 8);
    for (byte, how) in [(20, "copy"), (30, "fill"), (40, "copy")] {
        owner.gives(&format!("{how} {at} {bytes} {byte}"));
        owner.gives(&format!("see {at} 1"));
        assert_eq!(other.gives(&format!("see {there} {bytes}")), byte);
        other.gives(&format!("{how} {there} {bytes} {}", byte + 1));
        other.gives(&format!("see {there} 1"));
        assert_eq!(owner.gives(&format!("see {at} {bytes}")), byte + 1);
    }
    // It is charged once, and a second opening gives the same address.
    assert_eq!(
        before - other.gives("info"),
        bytes.next_multiple_of(256) + 768
    );
    assert_eq!(other.gives(&format!("open {name}")), there);
    assert_eq!(other.gives(&format!("close {there}")), 0);
    assert_eq!(other.gives(&format!("see {there} 4")), 41);
    assert_eq!(other.gives(&format!("close {there}")), 0);
    assert_eq!(
        other.does(&format!("see {there} 4")),
        "error 1",
        "it was closed"
    );
    assert_eq!(other.does(&format!("close {there}")), "error 1");
    // A small allocation: the memory beside it on its page cannot be reached, not even by a kernel.
    let name = owner.does(&format!("name {small}"));
    let there = other.gives(&format!("open {name}"));
    owner.gives(&format!("fill {small} 768 3"));
    owner.gives(&format!("see {small} 1"));
    assert_eq!(other.gives(&format!("see {there} 768")), 3);
    assert_eq!(owner.gives(&format!("free {small}")), 0);
    owner.gives(&format!("see {at} 1"));
    assert_eq!(other.does(&format!("see {there} 4")), ILLEGAL_ADDRESS);
    // Its name is no longer valid, and the owner goes on.
    let mut third = world.start("a");
    assert_eq!(third.does(&format!("open {name}")), INVALID_HANDLE);
    assert_eq!(owner.gives(&format!("see {at} {bytes}")), 41);
}

#[tokio::test]
async fn other_tenants_and_nonsense_open_nothing() {
    let world = World::new(&[]).await;
    let (mut owner, mut stranger) = (world.start("a"), world.start("b"));
    let at = owner.gives("alloc 4096");
    let name = owner.does(&format!("name {at}"));
    assert_eq!(stranger.does(&format!("open {name}")), INVALID_HANDLE);
    assert_eq!(owner.does(&format!("open {name}")), "error 201", "its own");
    let mut sibling = world.start("a");
    // A key with one wrong digit; another kind of name; nothing.
    let mut wrong = name.clone().into_bytes();
    wrong[20] = if wrong[20] == b'0' { b'1' } else { b'0' };
    let wrong = String::from_utf8(wrong).expect("digits");
    assert_eq!(sibling.does(&format!("open {wrong}")), INVALID_HANDLE);
    assert_eq!(sibling.does(&format!("event-open {name}")), "error 1");
    assert_eq!(
        sibling.does(&format!("open {}", "00".repeat(64))),
        "error 1"
    );
    assert_eq!(sibling.does(&format!("name {}", at + (1 << 33))), "error 1");
    // The session goes on nevertheless.
    assert_eq!(sibling.gives(&format!("open {name}")) % 256, 0);
    let own = stranger.gives("alloc 4096");
    assert_eq!(stranger.gives(&format!("see {own} 4096")), 0);
}

#[tokio::test]
async fn who_dies_takes_its_own_memory_along_and_nothing_else() {
    let world = World::new(&[]).await;
    let (mut owner, mut other) = (world.start("a"), world.start("a"));
    let all = owner.gives("info");
    let at = owner.gives("alloc 8388608");
    owner.gives(&format!("fill {at} 8388608 9"));
    let name = owner.does(&format!("name {at}"));
    let there = other.gives(&format!("open {name}"));
    assert_eq!(other.gives(&format!("see {there} 8388608")), 9);
    // The importer dies: the owner's memory is unchanged.
    let kill = |sharer: &Sharer| {
        let pid = Pid::from_child(&sharer.0.child);
        kill_process(pid, Signal::KILL).expect("it lives");
    };
    kill(&other);
    let mut next = world.start("a");
    let there = next.gives(&format!("open {name}"));
    assert_eq!(next.gives(&format!("see {there} 8388608")), 9);
    kill(&owner);
    let mut reader = world.start("a");
    until("the owner's memory is free", || reader.gives("info") == all);
    assert_eq!(next.does(&format!("see {there} 4")), ILLEGAL_ADDRESS);
    assert_eq!(reader.does(&format!("open {name}")), INVALID_HANDLE);
    // The next user of that memory finds only zeros in it.
    let fresh = reader.gives("alloc 67108864");
    assert_eq!(reader.gives(&format!("see {fresh} 67108864")), 0);
}

#[tokio::test]
async fn pieces_that_are_mapped_go_from_process_to_process_as_files() {
    let world = World::new(&[]).await;
    let (mut owner, mut other) = (world.start("a"), world.start("a"));
    let bytes = 4 * MIB;
    // Mapped first, or exported first: it may have any number of addresses.
    for exported_first in [false, true] {
        let piece = owner.gives(&format!("piece {bytes}"));
        let mut file = String::new();
        if exported_first {
            file = owner.does(&format!("share {piece}"));
        }
        let at = owner.gives(&format!("map {piece} {bytes}"));
        owner.gives(&format!("fill {at} {bytes} 5"));
        // The other process sees what is done.
        owner.gives(&format!("see {at} 1"));
        if !exported_first {
            file = owner.does(&format!("share {piece}"));
        }
        let taken = other.gives(&format!("take {file}"));
        let there = other.gives(&format!("map {taken} {bytes}"));
        assert_eq!(other.gives(&format!("see {there} {bytes}")), 5);
        other.gives(&format!("plus {there} {bytes}"));
        other.gives(&format!("see {there} 1"));
        assert_eq!(owner.gives(&format!("see {at} {bytes}")), 6);
        let again = other.gives(&format!("map {taken} {bytes}"));
        other.gives(&format!("fill {again} 16 9"));
        assert_eq!(other.gives(&format!("see {there} 16")), 9);
        assert_eq!(other.gives(&format!("unmap {there} {bytes}")), 0);
        assert_eq!(other.gives(&format!("see {again} 16")), 9);
        let second = owner.gives(&format!("map {piece} {bytes}"));
        assert_eq!(owner.gives(&format!("see {second} 16")), 9);
        // Its memory stays as long as its process refers to it.
        owner.gives(&format!("unmap {at} {bytes}"));
        owner.gives(&format!("unmap {second} {bytes}"));
        assert_eq!(other.gives(&format!("see {again} 16")), 9);
        let third = owner.gives(&format!("map {piece} {bytes}"));
        owner.gives(&format!("fill {third} 16 8"));
        owner.gives(&format!("see {third} 1"));
        assert_eq!(other.gives(&format!("see {again} 16")), 8);
        owner.gives(&format!("unmap {third} {bytes}"));
        assert_eq!(other.gives(&format!("unmap {again} {bytes}")), 0);
        assert_eq!(other.gives(&format!("release {taken}")), 0);
        assert_eq!(owner.gives(&format!("release {piece}")), 0);
    }
    // Other files are refused.
    assert_eq!(other.does("take /dev/null"), "error 1");
    assert_eq!(other.does("take /proc/self/exe"), "error 1");
    let mut stranger = world.start("b");
    let piece = owner.gives(&format!("piece {bytes}"));
    let file = owner.does(&format!("share {piece}"));
    assert_eq!(stranger.does(&format!("take {file}")), INVALID_HANDLE);
}

#[tokio::test]
async fn an_event_of_two_processes_is_reached_when_it_is_recorded() {
    let world = World::new(&[]).await;
    let (mut owner, mut other) = (world.start("a"), world.start("a"));
    let bytes = 16 * MIB;
    let at = owner.gives(&format!("alloc {bytes}"));
    assert_eq!(owner.gives("event"), 0);
    let event = owner.does("event-name");
    let name = owner.does(&format!("name {at}"));
    let there = other.gives(&format!("open {name}"));
    assert_eq!(other.gives(&format!("event-open {event}")), 0);
    for round in 1..20 {
        // Each writes after the other's event.
        let (writer, reader, to, from) = match round % 2 {
            0 => (&mut owner, &mut other, at, there),
            _ => (&mut other, &mut owner, there, at),
        };
        writer.gives("event-wait");
        writer.gives(&format!("plus {to} {bytes}"));
        writer.gives("event-record");
        reader.gives("event-wait");
        assert_eq!(reader.gives("event-query"), 0);
        assert_eq!(reader.gives(&format!("see {from} {bytes}")), round);
    }
}

#[tokio::test]
async fn where_memory_is_overcommitted_what_is_shared_stays_and_others_still_fit() {
    let settings = [
        ("worker.capacity", "64MiB"),
        ("worker.overcommit", "300"),
        ("worker.swap_idle", "1s"),
    ];
    let world = World::new(&settings).await;
    let [mut owner, mut other, mut third] = ["a", "a", "b"].map(|tenant| world.start(tenant));
    let at = owner.gives("alloc 16777216");
    owner.gives(&format!("fill {at} 16777216 5"));
    let name = owner.does(&format!("name {at}"));
    let there = other.gives(&format!("open {name}"));
    // A third uses everything that those two leave free, repeatedly, and a fourth the third's
    // memory.
    let mut fourth = world.start("b");
    for (n, guest) in (1..).zip([&mut third, &mut fourth]) {
        let own = guest.gives("alloc 41943040");
        guest.gives(&format!("fill {own} 41943040 {n}"));
        assert_eq!(guest.gives(&format!("see {own} 41943040")), n);
        assert_eq!(owner.gives(&format!("see {at} 16777216")), 4 + n);
        assert_eq!(other.gives(&format!("see {there} 16777216")), 4 + n);
        other.gives(&format!("plus {there} 16777216"));
        other.gives(&format!("see {there} 1"));
    }
    // A session too large to leave room for theirs cannot share its memory, and goes on.
    let large = third.gives("alloc 4194304");
    assert_eq!(third.does(&format!("name {large}")), "error 801");
    third.gives(&format!("fill {large} 4194304 8"));
    assert_eq!(third.gives(&format!("see {large} 4194304")), 8);
}

#[tokio::test]
async fn a_piece_that_was_made_finds_its_memory_when_it_is_mapped() {
    let world = World::new(&[("worker.capacity", "64MiB")]).await;
    let (mut one, mut other) = (world.start("a"), world.start("b"));
    let piece = one.gives("piece 33554432");
    assert_eq!(other.does("alloc 50331648"), "error 2");
    let taken = other.gives("alloc 20971520");
    assert_eq!(one.does("piece 16777216"), "error 2");
    let at = one.gives(&format!("map {piece} 33554432"));
    one.gives(&format!("fill {at} 33554432 3"));
    assert_eq!(one.gives(&format!("see {at} 33554432")), 3);
    // A piece that is never mapped leaves its room to others.
    other.gives(&format!("free {taken}"));
    let never = one.gives("piece 16777216");
    assert_eq!(other.does("alloc 20971520"), "error 2");
    one.gives(&format!("release {never}"));
    assert_eq!(other.gives("alloc 20971520") % 256, 0);
}

#[tokio::test]
async fn what_its_owner_frees_first_is_closed_all_the_same() {
    let world = World::new(&[]).await;
    let (mut owner, mut other) = (world.start("a"), world.start("a"));
    let stays = owner.gives("alloc 4096");
    for _ in 0..3 {
        let at = owner.gives("alloc 3145728");
        let name = owner.does(&format!("name {at}"));
        let there = other.gives(&format!("open {name}"));
        owner.gives(&format!("free {at}"));
        owner.gives(&format!("see {stays} 4"));
        assert_eq!(other.gives(&format!("close {there}")), 0);
        assert_eq!(other.does(&format!("open {name}")), INVALID_HANDLE);
    }
    let piece = owner.gives("piece 4194304");
    let at = owner.gives(&format!("map {piece} 4194304"));
    let file = owner.does(&format!("share {piece}"));
    let taken = other.gives(&format!("take {file}"));
    let there = other.gives(&format!("map {taken} 4194304"));
    owner.gives(&format!("unmap {at} 4194304"));
    owner.gives(&format!("see {stays} 4"));
    assert_eq!(other.gives(&format!("unmap {there} 4194304")), 0);
    let own = other.gives("alloc 4096");
    assert_eq!(other.gives(&format!("see {own} 4096")), 0, "it goes on");
}

#[tokio::test]
async fn memory_that_is_out_comes_back_to_be_shared_and_stays() {
    let settings = [
        ("worker.capacity", "64MiB"),
        ("worker.overcommit", "300"),
        ("worker.swap_idle", "1s"),
    ];
    let world = World::new(&settings).await;
    let [mut owner, mut other] = ["a", "a"].map(|tenant| world.start(tenant));
    let at = owner.gives("alloc 8388608");
    owner.gives(&format!("fill {at} 8388608 5"));
    owner.gives(&format!("see {at} 4"));
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    // Two that take turns: an idle session leaves for them.
    let mut busy = [world.start("b"), world.start("b")];
    let places: Vec<u64> = busy
        .iter_mut()
        .map(|guest| {
            let own = guest.gives("alloc 50331648");
            guest.gives(&format!("fill {own} 50331648 9"));
            assert_eq!(guest.gives(&format!("see {own} 50331648")), 9);
            own
        })
        .collect();
    let name = owner.does(&format!("name {at}"));
    let there = other.gives(&format!("open {name}"));
    for (guest, own) in busy.iter_mut().zip(places) {
        assert_eq!(guest.gives(&format!("see {own} 50331648")), 9);
        assert_eq!(other.gives(&format!("see {there} 8388608")), 5);
    }
    // A piece with a refused export keeps its memory until it is released.
    let all = owner.gives("info");
    let mut third = world.start("a");
    let piece = third.gives("piece 41943040");
    assert_eq!(third.does(&format!("share {piece}")), "error 801");
    assert_eq!(
        third.does(&format!("share {piece}")),
        "error 801",
        "it goes on"
    );
    assert_eq!(third.gives(&format!("release {piece}")), 0);
    until("its memory is free", || owner.gives("info") == all);
}
