//! Branches, calls, returns and the ends of threads, in warps with diverged lanes.

use crate::launch::launch;
use crate::vector::Test;
use device_cpu::{EngineConfig, FaultKind, Grid, LaunchError, Program};

const THREADS: u32 = 72;

/// Runs a body that stores `%r` for every thread; a missing result is `NONE`.
fn run(body: &str, outside: &str) -> Result<Vec<u32>, LaunchError> {
    let source = format!(
        ".version 8.3\n.target sm_90\n.address_size 64\n{outside}
        .entry k(.param .u64 out) {{ .reg .b64 %out, %at, %d<9>; .reg .b32 %t, %r, %x<9>; .reg .pred %p<9>;
        ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %out; mov.u32 %r, 0;
        {body}
        st.global.u32 [%at], %r; ret; }}"
    );
    let program = Program::build(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let bytes = NONE.to_le_bytes().repeat(THREADS as usize);
    launch(&program, EngineConfig::default(), Grid::flat(1, THREADS), bytes, &[])
}

const NONE: u32 = 0xdead_beef;

/// A test of a body against the expected result of every thread.
fn test(forms: &[&str], body: &'static str, outside: &'static str, want: fn(u32) -> u32) -> Test {
    let forms = forms.iter().map(|form| (*form).to_owned()).collect();
    Test::check(forms, move || {
        let found = run(body, outside).unwrap_or_else(|error| panic!("{error}: {body}"));
        let wanted: Vec<u32> = (0..THREADS).map(want).collect();
        assert_eq!(found, wanted, "{body}");
    })
}

/// A test of a body that must end in a fault of a thread.
fn faulty(forms: &[&str], body: &'static str, kind: FaultKind, thread: u32) -> Test {
    let forms = forms.iter().map(|form| (*form).to_owned()).collect();
    Test::check(forms, move || match run(body, "") {
        Err(LaunchError::Fault(fault)) => {
            assert_eq!((fault.kind, fault.thread[0]), (kind, thread), "{body}: {fault}");
        }
        other => panic!("{body}: {other:?}"),
    })
}

const FUNCTIONS: &str = "
    .func (.param .b32 r) factorial(.param .b32 n) { .reg .b32 %n, %m, %v; .reg .pred %p;
      ld.param.b32 %n, [n]; mov.b32 %v, 1; setp.lt.u32 %p, %n, 2; @%p bra done; sub.u32 %m, %n, 1;
      { .param .b32 a; .param .b32 b; st.param.b32 [a], %m; call.uni (b), factorial, (a); ld.param.b32 %v, [b]; }
      mul.lo.u32 %v, %v, %n;
      done: st.param.b32 [r], %v; ret.uni; }
    .func (.reg .b32 r) plus(.reg .b32 a) { add.u32 r, a, 1; ret; }
    .func (.reg .b32 r) minus(.reg .b32 a) { sub.u32 r, a, 1; ret; }
    .func (.reg .b32 r) early(.reg .b32 a) { .reg .pred p; mov.u32 r, 5; setp.gt.u32 p, a, 40; @p ret; add.u32 r, r, a; ret; }
    .func leave(.reg .b32 a) { .reg .pred p; setp.gt.u32 p, a, 40; @p exit; ret; }
    .global .u64 table[3] = {plus, minus, early};";

fn collatz(thread: u32) -> u32 {
    let (mut n, mut steps) = (thread + 1, 0);
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn branches() -> Vec<Test> {
    vec![
        test(
            &["bra", "bra.uni"],
            "add.u32 %x1, %t, 1; again: setp.eq.u32 %p1, %x1, 1; @%p1 bra done; and.b32 %x2, %x1, 1;
            setp.eq.u32 %p2, %x2, 0; add.u32 %r, %r, 1; @!%p2 bra odd; shr.u32 %x1, %x1, 1; bra.uni again;
            odd: mad.lo.u32 %x1, %x1, 3, 1; bra again; done:",
            "",
            collatz,
        ),
        test(
            &["brx.idx"],
            "rem.u32 %x1, %t, 3; ways: .branchtargets zero, one, two; brx.idx %x1, ways;
            zero: mov.u32 %r, 10; bra done; one: add.u32 %r, %t, 100; bra done; two: mov.u32 %r, 30; done:",
            "",
            |t| [10, 100 + t, 30][t as usize % 3],
        ),
        test(
            &["brx.idx.uni"],
            "mov.u32 %x1, 1; ways: .branchtargets zero, one; brx.idx.uni %x1, ways; zero: mov.u32 %r, 1; one:",
            "",
            |_| 0,
        ),
        faulty(
            &["brx.idx"],
            "setp.eq.u32 %p1, %t, 50; selp.u32 %x1, 2, 1, %p1; ways: .branchtargets on, on; brx.idx %x1, ways; on:",
            FaultKind::IllegalInstruction,
            50,
        ),
    ]
}

/// Calls, and threads that end in a function.
fn calls() -> Vec<Test> {
    vec![
        test(
            &["call", "call.uni", "ret", "ret.uni"],
            "rem.u32 %x1, %t, 11; { .param .b32 a; .param .b32 b; st.param.b32 [a], %x1;
            call (b), factorial, (a); ld.param.b32 %r, [b]; }",
            FUNCTIONS,
            |t| (1..=t % 11).product(),
        ),
        test(
            &["call"],
            "rem.u32 %x1, %t, 3; mul.wide.u32 %d1, %x1, 8; mov.u64 %d2, table; add.u64 %d1, %d1, %d2;
            ld.global.u64 %d1, [%d1]; call (%r), %d1, (%t), shape;
            shape: .callprototype (.reg .b32 _) _ (.reg .b32 _);",
            FUNCTIONS,
            |t| [t + 1, t.wrapping_sub(1), if t > 40 { 5 } else { 5 + t }][t as usize % 3],
        ),
        test(
            &["call"],
            "mov.u64 %d1, early; setp.gt.u32 %p1, %t, 20; @%p1 mov.u64 %d1, plus;
            some: .calltargets early, plus; @%p1 call (%r), %d1, (%t), some; @!%p1 call (%r), %d1, (%t), some;",
            FUNCTIONS,
            |t| if t > 20 { t + 1 } else { 5 + t },
        ),
        faulty(
            &["call"],
            "mov.u64 %d1, 64; setp.ne.u32 %p1, %t, 3; @%p1 bra on; call %d1, (), shape;
            shape: .callprototype _ (); on:",
            FaultKind::IllegalInstruction,
            3,
        ),
        test(
            &["exit"],
            "mov.u32 %r, 9; call leave, (%t); setp.lt.u32 %p1, %t, 8; @%p1 exit; bar.sync 0;",
            FUNCTIONS,
            |t| if (8..=40).contains(&t) { 9 } else { NONE },
        ),
        faulty(&["brkpt"], "setp.eq.u32 %p1, %t, 33; @%p1 brkpt;", FaultKind::Trap, 33),
        faulty(&["trap"], "setp.eq.u32 %p1, %t, 70; @%p1 trap;", FaultKind::Trap, 70),
        test(
            &["nanosleep.u32", "pmevent"],
            "nanosleep.u32 100; setp.lt.u32 %p1, %t, 9; @%p1 nanosleep.u32 %t; pmevent 7; mov.u32 %r, %t;",
            "",
            |t| t,
        ),
    ]
}

pub(crate) fn tests() -> Vec<Test> {
    branches().into_iter().chain(calls()).collect()
}
