//! Barriers of blocks: counts, parts of warps, arrivals, reductions, clusters of one block.

use crate::launch::launch;
use crate::refusals::refused;
use crate::vector::Test;
use crate::warp::isas;
use device_cpu::{EngineConfig, Grid, Isa, Program};
use ptx::ParsedModule;

/// Runs a text in a block of `threads`; each stores `%o` for its thread `%t`.
fn run(isa: Isa, text: &str, threads: u32) -> Result<Vec<u32>, String> {
    let source = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n
        .entry k(.param .u64 base) {{
        .shared .align 16 .b8 cells[4096]; .reg .b64 %g, %s, %at; .reg .b32 %t, %o, %n, %w;
        .reg .pred %p, %q, %r; ld.param.u64 %g, [base]; mov.u32 %t, %tid.x; mov.u32 %o, 0;
        shr.u32 %w, %t, 5; mov.u64 %s, cells; mul.wide.u32 %at, %t, 4; add.u64 %g, %g, %at;
        add.u64 %s, %s, %at; setp.ne.u32 %p, 0, 0; setp.ne.u32 %q, 0, 0;
        {text}
        st.global.u32 [%g], %o; ret; }}"
    );
    let module = ParsedModule::parse(&source).unwrap_or_else(|error| panic!("{text}: {error}"));
    let program = Program::build_for(&module, isa).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (config, bytes) = (EngineConfig::default(), vec![0; 4 * threads as usize]);
    launch(&program, config, Grid::flat(1, threads), bytes, &[]).map_err(|error| error.to_string())
}

/// A form, its text (with `FORM` as placeholder), the number of threads, and each thread's result.
type Case = (&'static [&'static str], &'static str, u32, fn(u32) -> u32);

const CASES: [Case; 11] = [
    // The whole block: each thread reads the value of the opposite one.
    (
        &["bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync.aligned", "barrier.sync.aligned"],
        "st.shared.u32 [%s], %t; FORM 0; sub.u32 %n, 159, %t; mul.wide.u32 %at, %n, 4;
         mov.u64 %s, cells; add.u64 %s, %s, %at; ld.shared.u32 %o, [%s];",
        160,
        |t| 159 - t,
    ),
    // Threads that have ended are not waited for.
    (
        &["bar.sync", "barrier.cta.sync"],
        "setp.lt.u32 %p, %t, 70; mov.u32 %o, 9; @%p st.global.u32 [%g], %o; @%p exit;
         st.shared.u32 [%s], %t; FORM 3; xor.b32 %n, %t, 1; mul.wide.u32 %at, %n, 4;
         mov.u64 %s, cells; add.u64 %s, %s, %at; ld.shared.u32 %o, [%s];",
        128,
        |t| if t < 70 { 9 } else { t ^ 1 },
    ),
    // Two of four warps, by number and by count in a register.
    (
        &["bar.sync", "barrier.sync.aligned"],
        "st.shared.u32 [%s], %t; setp.lt.u32 %p, %t, 64; @!%p bra done; mov.u32 %n, 64;
         mov.u32 %o, 5; FORM %o, %n; xor.b32 %n, %t, 32; mul.wide.u32 %at, %n, 4;
         mov.u64 %s, cells; add.u64 %s, %s, %at; ld.shared.u32 %o, [%s]; done:",
        128,
        |t| if t < 64 { t ^ 32 } else { 0 },
    ),
    // The second warp has only eight threads, and counts as a whole one.
    (
        &["bar.sync", "barrier.cta.sync.aligned"],
        "st.shared.u32 [%s], %t; FORM 1, 64; xor.b32 %n, %t, 32; mul.wide.u32 %at, %n, 4;
         mov.u64 %s, cells; add.u64 %s, %s, %at; setp.lt.u32 %p, %n, 40;
         @%p ld.shared.u32 %o, [%s];",
        40,
        |t| if (t ^ 32) < 40 { t ^ 32 } else { 0 },
    ),
    // One warp produces and does not wait, one waits; twice, with two barriers.
    (
        &["bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive.aligned"],
        "setp.lt.u32 %p, %t, 32; @!%p bra waits; st.shared.u32 [%s], %t; FORM 1, 64;
         bar.sync 2, 64; ld.shared.u32 %o, [%s]; bra.uni done;
         waits: bar.sync 1, 64; ld.shared.u32 %n, [%s-128]; add.u32 %n, %n, 100;
         st.shared.u32 [%s-128], %n; bar.sync 2, 64; mov.u32 %o, %n; done:",
        64,
        |t| t % 32 + 100,
    ),
    // Both sides of a branch within each warp reach the same barrier.
    (
        &["barrier.sync", "barrier.cta.sync"],
        "st.shared.u32 [%s], %t; and.b32 %n, %t, 1; setp.ne.u32 %p, %n, 0; @%p bra odd;
         FORM 0; mov.u32 %o, 1; bra.uni join; odd: FORM 0; mov.u32 %o, 2;
         join: xor.b32 %n, %t, 33; mul.wide.u32 %at, %n, 4; mov.u64 %s, cells;
         add.u64 %s, %s, %at; ld.shared.u32 %n, [%s]; mad.lo.u32 %o, %n, 4, %o;",
        64,
        |t| (t ^ 33) * 4 + 1 + t % 2,
    ),
    (
        &["bar.red.popc.u32", "bar.cta.red.popc.u32", "barrier.red.popc.u32", "barrier.cta.red.popc.aligned.u32"],
        "mul.lo.u32 %n, %t, 11; and.b32 %n, %n, 4; setp.ne.u32 %q, %n, 0; FORM %o, 0, %q;
         FORM %n, 1, 96, !%q; mad.lo.u32 %o, %o, 1000, %n;",
        96,
        |_| {
            let held = (0..96).filter(|t| (t * 11) & 4 != 0).count() as u32;
            held * 1000 + 96 - held
        },
    ),
    (
        &["bar.red.and.pred", "barrier.cta.red.and.pred", "barrier.red.and.aligned.pred", "barrier.red.and.pred"],
        "setp.lt.u32 %q, %t, 95; FORM %r, 0, %q; selp.u32 %o, 1, 0, %r; setp.lt.u32 %q, %t, 96;
         FORM %r, 0, %q; @%r add.u32 %o, %o, 2; FORM %r, 2, 96, !%q; @%r add.u32 %o, %o, 4;",
        96,
        |_| 2,
    ),
    (
        &["bar.red.or.pred", "barrier.cta.red.or.pred", "barrier.red.or.aligned.pred", "barrier.red.or.pred"],
        "setp.eq.u32 %q, %t, 95; FORM %r, 0, %q; selp.u32 %o, 1, 0, %r; setp.gt.u32 %q, %t, 96;
         FORM %r, 0, %q; @%r add.u32 %o, %o, 2; FORM %r, 2, 96, !%q; @%r add.u32 %o, %o, 4;",
        96,
        |_| 5,
    ),
    // A cluster of one block, with work between arrival and wait; then once more.
    (
        &["barrier.cluster.arrive", "barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed.aligned",
          "barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed"],
        "st.shared.u32 [%s], %t; FORM; add.u32 %o, %t, 1; barrier.cluster.wait;
         sub.u32 %n, 95, %t; mul.wide.u32 %at, %n, 4; mov.u64 %s, cells; add.u64 %s, %s, %at;
         ld.shared.u32 %n, [%s]; FORM; barrier.cluster.wait.acquire.aligned;
         st.shared.u32 [%s], %o; FORM; barrier.cluster.wait.acquire; ld.shared.u32 %w, [%s];
         mad.lo.u32 %o, %n, 1000, %w;",
        96,
        |t| (95 - t) * 1000 + t + 1,
    ),
    // A warp that ends while the others wait for it.
    (
        &["barrier.cluster.wait", "barrier.cluster.wait.acquire", "barrier.cluster.wait.aligned"],
        "setp.lt.u32 %p, %t, 32; @%p exit; barrier.cluster.arrive.release; FORM; mov.u32 %o, 3;",
        96,
        |t| if t < 32 { 0 } else { 3 },
    ),
];

fn check(form: &str, (_, text, threads, want): Case) {
    for isa in isas() {
        let text = text.replace("FORM", form);
        let got = run(isa, &text, threads).unwrap_or_else(|error| panic!("{text}: {error}"));
        let want: Vec<u32> = (0..threads).map(want).collect();
        assert!(got == want, "{text} {isa:?}: {got:?}");
    }
}

/// Barriers that cannot open end as a fault, and invalid forms are rejected.
fn mistakes() {
    for isa in isas() {
        let waits = "setp.lt.u32 %p, %t, 32; @%p bar.sync 1, 64;";
        assert!(run(isa, waits, 64).is_err(), "nobody else comes");
        assert!(run(isa, "bar.sync 16;", 32).is_err(), "there is no barrier 16");
    }
    let lines = ["bar.arrive 1;", "bar.red.xor.pred %p, 0, %p;", "barrier.cluster.sync;"];
    refused(".reg .pred %p;", &lines);
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for case in CASES {
        for form in case.0 {
            tests.push(Test::check(vec![(*form).to_owned()], move || check(form, case)));
        }
    }
    tests.push(Test::check(Vec::new(), mistakes));
    tests
}
