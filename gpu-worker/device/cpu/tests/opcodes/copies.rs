//! `cp.async`, memory barrier objects, and hints.

use crate::refusals::refused;
use crate::vector::Test;
use crate::warp::{BUFFER, EMPTY, Random, Register, Warp, isas};
use device_cpu::{FaultKind, LaunchError};

/// The opcodes of a text that begin with one of some words.
fn forms(text: &str, heads: &[&str]) -> Vec<String> {
    let words = text.split(|c: char| c == ';' || c.is_whitespace());
    words
        .filter(|word| heads.contains(&word.split('.').next().unwrap_or_default()))
        .map(str::to_owned)
        .collect()
}

/// Limit of the bytes that are read.
#[derive(Clone, Copy)]
enum Limit {
    None,
    Bytes,
    Constant(u64),
    Ignored,
    NotIgnored,
}

struct Copies {
    form: String,
    bytes: usize,
    limit: Limit,
    policy: bool,
}

impl Copies {
    fn check(&self) {
        for isa in isas() {
            let mut numbers = Random::new(self.bytes as u64 + self.form.len() as u64);
            let buffer: Vec<u8> = (0..BUFFER).map(|_| numbers.word() as u8).collect();
            let slots = (BUFFER / self.bytes) as u64;
            let from: [u64; 32] =
                std::array::from_fn(|_| numbers.below(slots) * self.bytes as u64);
            let step = numbers.below(7) * 2 + 1;
            let to: [u64; 32] = std::array::from_fn(|lane| {
                (lane as u64 * step + 11) % slots * self.bytes as u64
            });
            // At most all bytes; in other lanes, a bit.
            let given: [u32; 32] =
                std::array::from_fn(|_| numbers.below(self.bytes as u64 + 1) as u32);
            let limit = match self.limit {
                Limit::None => String::new(),
                Limit::Bytes => ", %i2".into(),
                Limit::Constant(bytes) => format!(", {bytes}"),
                Limit::Ignored => ", %p".into(),
                Limit::NotIgnored => ", !%p".into(),
            };
            let policy = if self.policy { ", %policy" } else { "" };
            let text = format!(
                ".reg .b64 %from, %to, %policy; .reg .b32 %bit; .reg .pred %p;
                 createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;
                 and.b32 %bit, %i2, 1; setp.ne.u32 %p, %bit, 0;
                 add.u64 %from, %g, %i0; mov.u64 %to, buffer; add.u64 %to, %to, %i1;
                 {} [%to+0], [%from+0], {}{limit}{policy};
                 cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;",
                self.form, self.bytes
            );
            let left = Warp {
                text: &text,
                inputs: &[
                    Register::doubles(from),
                    Register::doubles(to),
                    Register::words(given),
                ],
                outputs: &[],
                buffer: &buffer,
                shared: true,
            }
            .run(isa);
            let mut want = buffer.clone();
            for lane in 0..32 {
                let odd = given[lane] & 1 != 0;
                let have = match self.limit {
                    Limit::None => self.bytes,
                    Limit::Bytes => given[lane] as usize,
                    Limit::Constant(bytes) => bytes as usize,
                    Limit::Ignored if odd => 0,
                    Limit::NotIgnored if !odd => 0,
                    _ => self.bytes,
                };
                for at in 0..self.bytes {
                    let byte = buffer[from[lane] as usize + at];
                    want[to[lane] as usize + at] = if at < have { byte } else { 0 };
                }
            }
            assert!(left.buffer == want, "{} {isa:?}", self.form);
        }
    }
}

/// An unread source may have any address; a read one may not.
fn faults() {
    for isa in isas() {
        for (size, offset, kind) in [
            (0, 1_u64 << 40, None),
            (4, 1 << 40, Some(FaultKind::IllegalAddress)),
            (16, 8, Some(FaultKind::Misaligned)),
        ] {
            let text = format!(
                ".reg .b64 %from; .reg .b32 %n; add.u64 %from, %g, {offset}; mov.u32 %n, {size};
                 cp.async.cg.shared.global [buffer], [%from], 16, %n;"
            );
            let warp = Warp { text: &text, ..EMPTY };
            match (warp.result(isa), kind) {
                (Ok(_), None) => {}
                (Err(LaunchError::Fault(fault)), Some(kind)) => assert_eq!(fault.kind, kind),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}

/// Forms that the manual forbids are rejected, with their line.
fn refusals() {
    let lines = [
        "cp.async.cg.shared.global [%to], [%from], 8;",
        "cp.async.ca.shared.global [%to], [%from], 12;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to], [%from], 16, [%to];",
        "cp.async.wait_group;",
        "cp.async.wait_group -1;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%to];",
        "mbarrier.init.shared.b64 [%to];",
        "prefetch.global.L3 [%from];",
    ];
    refused(".reg .b64 %to, %from;", &lines);
}

/// A test of the phases of a lane's barrier object. The text has `bar` in shared memory and leaves
/// a number in `%o0`; the function gives the number for each lane.
type Phases = (&'static str, fn(u32) -> u64);

const OBJECTS: [Phases; 11] = [
    // Every lane is one of 32: each state shows the arrivals still missing.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 32; bar.warp.sync -1;
         mbarrier.arrive.shared.b64 %state, [buffer]; mbarrier.pending_count.b64 %o0, %state;",
        |lane| u64::from(32 - lane),
    ),
    // The phase ends with the last of them; tested by state and by parity.
    (
        "@%first mbarrier.init.shared::cta.b64 [buffer], 33; bar.warp.sync -1;
         mbarrier.arrive.shared::cta.b64 %state, [buffer];
         mbarrier.test_wait.shared::cta.b64 %p, [buffer], %state; selp.u32 %o0, 1, 0, %p;
         mbarrier.test_wait.parity.shared::cta.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 2;
         @%first mbarrier.arrive.release.cta.shared::cta.b64 %other, [buffer], 1;
         mbarrier.test_wait.shared::cta.b64 %p, [buffer], %state; @%p add.u32 %o0, %o0, 4;
         mbarrier.try_wait.parity.shared::cta.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 8;
         mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p, [buffer], 1, 1000;
         @%p add.u32 %o0, %o0, 16;",
        |_| 12,
    ),
    // Bytes keep a phase open after its arrivals.
    (
        "@%first mbarrier.init.b64 [%at], 1; bar.warp.sync -1;
         @%first mbarrier.arrive.expect_tx.b64 %state, [%at], 64;
         @%first mbarrier.test_wait.b64 %p, [%at], %state; @!%p add.u32 %o0, %o0, 1;
         @%first mbarrier.complete_tx.shared.b64 [buffer], 48;
         mbarrier.test_wait.parity.b64 %p, [%at], 0; @!%p add.u32 %o0, %o0, 2;
         @%first mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [buffer], 16;
         mbarrier.try_wait.parity.b64 %p, [%at], 0; @%p add.u32 %o0, %o0, 4;",
        |_| 7,
    ),
    // Bytes that arrive before they are expected.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 2; bar.warp.sync -1;
         @%first mbarrier.complete_tx.shared.b64 [buffer], 8;
         @%first mbarrier.arrive.shared.b64 %state, [buffer], 1;
         @%first mbarrier.expect_tx.relaxed.cta.shared.b64 [buffer], 8;
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @!%p add.u32 %o0, %o0, 1;
         @%first mbarrier.arrive.shared.b64 %state, [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 2;",
        |_| 3,
    ),
    // Dropped arrivals are not waited for again.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 3; bar.warp.sync -1;
         @%first mbarrier.arrive_drop.shared.b64 %state, [buffer], 2;
         @%first mbarrier.arrive.noComplete.shared.b64 %state, [buffer], 0;
         @%first mbarrier.arrive.shared.b64 %state, [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 1;
         @%first mbarrier.arrive.shared.b64 %state, [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 1; @%p add.u32 %o0, %o0, 2;
         mbarrier.pending_count.b64 %n, %state; @%first add.u32 %o0, %o0, %n;",
        |lane| if lane == 0 { 4 } else { 3 },
    ),
    // A dropped arrival with bytes to come.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 2; bar.warp.sync -1;
         @%first mbarrier.arrive_drop.expect_tx.shared.b64 %state, [buffer], 4;
         @%first mbarrier.arrive.shared.b64 %state, [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @!%p add.u32 %o0, %o0, 1;
         @%first mbarrier.complete_tx.shared.b64 [buffer], 4;
         @%first mbarrier.arrive.shared.b64 %state, [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 1; @%p add.u32 %o0, %o0, 2;",
        |_| 3,
    ),
    // Copies that arrive: each makes room for itself, or uses one of the expected arrivals.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 32; bar.warp.sync -1;
         cp.async.ca.shared.global [buffer+64], [%g], 4;
         cp.async.mbarrier.arrive.shared.b64 [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @!%p add.u32 %o0, %o0, 1;
         cp.async.mbarrier.arrive.noinc.shared::cta.b64 [buffer];
         mbarrier.test_wait.parity.shared.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 2;",
        |_| 3,
    ),
    // The same, as compilers spell it for shared memory, with states and parities.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 32; bar.warp.sync -1;
         @!%first mbarrier.arrive.shared.b64 %state, [buffer];
         @%first mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %state, [buffer], 16;
         mbarrier.test_wait.shared.b64 %p, [buffer], %state; @!%p add.u32 %o0, %o0, 1;
         mbarrier.try_wait.shared.b64 %p, [buffer], %state; @!%p add.u32 %o0, %o0, 2;
         mbarrier.try_wait.parity.shared.b64 %p, [buffer], 0; @!%p add.u32 %o0, %o0, 4;
         @%first mbarrier.complete_tx.shared.b64 [buffer], 16; bar.warp.sync -1;
         mbarrier.test_wait.shared.b64 %p, [buffer], %state; @%p add.u32 %o0, %o0, 8;
         mbarrier.try_wait.shared.b64 %p, [buffer], %state; @%p add.u32 %o0, %o0, 16;
         mbarrier.try_wait.shared.b64 %p, [buffer], %state, 500; @%p add.u32 %o0, %o0, 32;
         mbarrier.try_wait.parity.shared.b64 %p, [buffer], 0; @%p add.u32 %o0, %o0, 64;
         mbarrier.try_wait.parity.shared.b64 %p, [buffer], 1, 500; @!%p add.u32 %o0, %o0, 128;",
        |_| 255,
    ),
    // A generic address of the only block of a cluster is that block's own.
    (
        ".reg .b64 %far; @%first st.shared.u32 [buffer+4], 33; bar.warp.sync -1;
         mapa.u64 %far, %at, 0; ld.u32 %o0, [%far+4]; getctarank.u64 %n, %far;
         add.u32 %o0, %o0, %n;",
        |_| 33,
    ),
    // An invalidated object is plain memory again.
    (
        "@%first mbarrier.init.shared.b64 [buffer], 7; @%first mbarrier.inval.shared.b64 [buffer];
         @%first st.shared.u32 [buffer], 55; bar.warp.sync -1; ld.shared.u32 %o0, [buffer];",
        |_| 55,
    ),
    // Half the lanes spin until the others have arrived; the only block of a cluster is its own
    // neighbour.
    (
        ".reg .b32 %far; .reg .pred %half; mov.u32 %n, buffer;
         mapa.shared::cluster.u32 %far, %n, 0; getctarank.shared::cluster.u32 %n, %far;
         @%first mbarrier.init.shared.b64 [buffer], 16; fence.mbarrier_init.release.cluster;
         bar.warp.sync -1; setp.lt.u32 %half, %lane, 16; @!%half bra others;
         spin: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [buffer], 0;
         @!%p bra spin; mov.u32 %o0, 5; bra.uni done;
         others: mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far]; mov.u32 %o0, 6;
         done: add.u32 %o0, %o0, %n;",
        |lane| if lane < 16 { 5 } else { 6 },
    ),
];

fn object((text, want): Phases) {
    for isa in isas() {
        let text = format!(
            ".reg .b64 %state, %other, %at; .reg .b32 %n; .reg .pred %first, %p;
             {{ mov.u64 %at, buffer; cvta.shared.u64 %at, %at; setp.eq.u32 %first, %lane, 0;
             mov.b64 %state, 0; setp.ne.u32 %p, 0, 0; mov.u32 %n, 0; {text} }}"
        );
        let text = text.replace("%at", "%there");
        let left = Warp { text: &text, outputs: &[32], ..EMPTY }.run(isa);
        for lane in 0..32 {
            let (got, want) = (left.outputs[0][lane as usize], want(lane));
            assert!(got == want, "{text} {isa:?} lane {lane}: {got} not {want}");
        }
    }
}

/// Hints without any effect.
const HINTS: &str = "prefetch.global.L1 [%g]; prefetch.global.L2 [%g]; prefetch.L2 [%g];
    prefetch.global.L2::evict_last [%g]; prefetch.global.L2::evict_normal [%g];
    prefetchu.L1 [%g]; applypriority.global.L2::evict_normal [%g], 128;
    discard.global.L2 [%g+8192], 128; prefetch.local.L1 [0];
    griddepcontrol.wait; griddepcontrol.launch_dependents;
    setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 40;
    cp.async.bulk.prefetch.L2.global [%g], 64;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%g], 64, %policy;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 0;
    createpolicy.fractional.L2::evict_last.b64 %policy, 0.5;
    createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %policy;
    createpolicy.range.global.L2::evict_last.b64 %policy, [%g], 128, 256;
    createpolicy.cvt.L2.b64 %policy, 0x10F0000000000000;";

fn hints() {
    for isa in isas() {
        let buffer: Vec<u8> = (0..BUFFER).map(|at| (at * 7) as u8).collect();
        let text = format!(".reg .b64 %policy; mov.u64 %policy, 0; {HINTS}");
        let left = Warp { text: &text, buffer: &buffer, ..EMPTY }.run(isa);
        assert!(left.buffer == buffer);
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let sizes = [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)];
    let hints = ["", ".L2::64B", ".L2::128B", ".L2::256B", ".L2::cache_hint"];
    let limits = [
        Limit::None,
        Limit::Bytes,
        Limit::Constant(3),
        Limit::Constant(0),
        Limit::Ignored,
        Limit::NotIgnored,
    ];
    for (cache, bytes) in sizes {
        for space in ["shared", "shared::cta"] {
            for hint in hints {
                for limit in limits {
                    let copies = Copies {
                        form: format!("cp.async.{cache}.{space}.global{hint}"),
                        bytes,
                        limit,
                        policy: hint == ".L2::cache_hint",
                    };
                    let mut forms = vec![copies.form.clone()];
                    forms.extend(
                        ["commit_group", "wait_group", "wait_all"]
                            .map(|group| format!("cp.async.{group}")),
                    );
                    tests.push(Test::check(forms, move || copies.check()));
                }
            }
        }
    }
    for phases in OBJECTS {
        let heads = ["mbarrier", "cp", "mapa", "getctarank"];
        tests.push(Test::check(forms(phases.0, &heads), move || object(phases)));
    }
    let heads = ["prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "setmaxnreg", "createpolicy", "cp"];
    tests.push(Test::check(forms(HINTS, &heads), self::hints));
    tests.push(Test::check(Vec::new(), faults));
    tests.push(Test::check(Vec::new(), refusals));
    tests
}
