//! Divergence, barriers, calls, preemption; and hostile modules.

mod launch;

use device_cpu::{
    Engine, EngineConfig, FaultKind, Grid, Instance, LaunchError, Memory, Program, Progress,
};
use launch::{BASE, launch};
use std::sync::atomic::AtomicBool;

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

/// Each thread's word of the output: `%r` is stored at out + 4 * tid of a block of `threads`.
fn run(body: &str, outside: &str, threads: u32) -> Result<Vec<u32>, LaunchError> {
    let text = format!(
        "{HEAD}{outside}\n.entry k(.param .u64 out) {{
        .reg .b64 %out, %at; .reg .b32 %tid, %r, %t<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
        .shared .align 4 .b32 word; .shared .align 4 .b32 many[64];
        ld.param.u64 %out, [out]; mov.u32 %tid, %tid.x; mul.wide.u32 %at, %tid, 4;
        add.u64 %at, %at, %out; mov.u32 %r, 0;
        {body}
        st.global.u32 [%at], %r; ret; }}"
    );
    let program = Program::build(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let config = EngineConfig {
        fuel: 1 << 22,
        ..EngineConfig::default()
    };
    let mut words = launch(&program, config, Grid::flat(1, threads), vec![0; 4096], &[])?;
    words.truncate(threads as usize);
    Ok(words)
}

fn good(body: &str, outside: &str, threads: u32) -> Vec<u32> {
    run(body, outside, threads).unwrap_or_else(|error| panic!("{error}"))
}

fn fault(body: &str, outside: &str) -> FaultKind {
    match run(body, outside, 32) {
        Err(LaunchError::Fault(fault)) => fault.kind,
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn a_spin_lock_among_the_lanes_of_a_warp_makes_progress() {
    let body = "mov.u64 %d1, word; setp.ne.u32 %p1, %tid, 0; @!%p1 st.shared.u32 [%d1], 0;
        mov.u64 %d2, many; @!%p1 st.shared.u32 [%d2], 0; bar.sync 0;
        again: atom.shared.cas.b32 %t1, [%d1], 0, 1; setp.ne.u32 %p2, %t1, 0; @%p2 bra again;
        ld.shared.u32 %r, [%d2]; add.u32 %t2, %r, 1; st.shared.u32 [%d2], %t2; membar.cta;
        atom.shared.exch.b32 %t3, [%d1], 0;";
    let mut got = good(body, "", 96);
    got.sort_unstable();
    assert_eq!(got, (0..96).collect::<Vec<_>>());
}

/// Lanes below 16 write for three rounds, in which the others have no work; then all read the
/// written values. There is no barrier: as on a GPU, lanes wait where their paths meet.
#[test]
fn lanes_wait_where_ways_meet_however_the_text_is_laid() {
    let first = "mov.u64 %d1, word; mov.u32 %t1, 0; mov.u32 %t3, 0; setp.gt.u32 %p2, %tid, 15;";
    let next = "add.u32 %t1, %t1, 1; setp.lt.u32 %p1, %t1, 3;";
    let inner = "inner: add.u32 %t3, %t3, 1; st.shared.u32 [%d1], %t3; and.b32 %t4, %t3, 7;
        setp.ne.u32 %p3, %t4, 0; @%p3 bra inner;";
    let last = "ld.shared.u32 %r, [%d1];";
    let laid = [
        format!("{first} body: @%p2 bra next; {inner} next: {next} @%p1 bra body; {last}"),
        // The end of the loop, and the code behind it, come before its body.
        format!(
            "{first} bra body; next: {next} @%p1 bra body; {last} bra out;
            body: @%p2 bra next; {inner} bra next; out:"
        ),
        // The code behind the loop comes before the loop, which some lanes never enter.
        format!(
            "{first} top: setp.lt.u32 %p1, %t1, 3; not.pred %p4, %p2; and.pred %p1, %p1, %p4; @%p1 bra body; {last} bra out;
            body: {inner} add.u32 %t1, %t1, 1; bra top; out:"
        ),
    ];
    for text in laid {
        assert_eq!(good(&text, "", 32), [24; 32], "{text}");
    }
}

#[test]
fn barriers_count_reduce_and_forget_those_who_left() {
    let body = "setp.lt.u32 %p1, %tid, 37; bar.red.popc.u32 %r, 0, %p1;";
    assert_eq!(good(body, "", 100), [37; 100]);
    let body =
        "setp.lt.u32 %p1, %tid, 99; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 1, !%p1;
        selp.u32 %r, 1, 0, %p2; selp.u32 %t1, 2, 0, %p3; add.u32 %r, %r, %t1;";
    assert_eq!(good(body, "", 100), [2; 100]);
    assert_eq!(good(body, "", 99), [1; 99]);
    // Half of each warp exits; the others still meet.
    let body =
        "and.b32 %t1, %tid, 1; setp.eq.u32 %p1, %t1, 0; @%p1 exit; bar.sync 0; mov.u32 %r, 5;";
    let got = good(body, "", 64);
    assert!(
        got.iter()
            .enumerate()
            .all(|(i, r)| *r == if i % 2 == 1 { 5 } else { 0 })
    );
    // Producers arrive, consumers wait.
    let body = "mov.u64 %d1, word; setp.lt.u32 %p1, %tid, 32; @%p1 bra consume;
        setp.eq.u32 %p2, %tid, 32; @%p2 st.shared.u32 [%d1], 9; bar.arrive 3, 64; bra done;
        consume: bar.sync 3, 64; ld.shared.u32 %r, [%d1]; done:";
    assert_eq!(good(body, "", 64)[..33], [&[9; 32][..], &[0]].concat());
}

#[test]
fn lanes_that_diverged_meet_at_a_shuffle() {
    let body = "and.b32 %t1, %tid, 1; setp.eq.u32 %p1, %t1, 0; mov.u32 %t2, 100; @%p1 bra even;
        mov.u32 %t2, 200; even: add.u32 %t2, %t2, %tid;
        shfl.sync.bfly.b32 %r, %t2, 1, 31, -1;";
    let want: Vec<u32> = (0..32)
        .map(|i| (i ^ 1) + if i % 2 == 0 { 200 } else { 100 })
        .collect();
    assert_eq!(good(body, "", 32), want);
    let body = "setp.lt.u32 %p1, %tid, 9; @!%p1 bra done; activemask.b32 %r; done:";
    assert_eq!(
        good(body, "", 32)[..10],
        [[0x1ff; 9].as_slice(), &[0]].concat()
    );
    let body = "and.b32 %t1, %tid, 3; match.any.sync.b32 %r, %t1, -1;";
    assert_eq!(good(body, "", 32)[1], 0x2222_2222);
    assert_eq!(good("redux.sync.max.u32 %r, %tid, -1;", "", 32), [31; 32]);
}

#[test]
fn branches_by_index_and_calls_by_address() {
    let body = "and.b32 %t1, %tid, 3; list: .branchtargets a, b, c, b; brx.idx %t1, list;
        a: mov.u32 %r, 10; bra done; b: mov.u32 %r, 20; bra done; c: mov.u32 %r, 30; done:";
    assert_eq!(good(body, "", 5), [10, 20, 30, 20, 10]);
    let functions = ".func (.reg .b32 %o) twice(.reg .b32 %i) { add.u32 %o, %i, %i; ret; }
        .func (.reg .b32 %o) inc(.reg .b32 %i) { add.u32 %o, %i, 1; ret; }
        .func (.param .b32 o) fib(.param .b32 i) { .reg .b32 %a<5>; .reg .pred %p;
        ld.param.b32 %a1, [i]; setp.lt.u32 %p, %a1, 2; @%p bra base;
        { .param .b32 x; .param .b32 y; sub.u32 %a2, %a1, 1; st.param.b32 [x], %a2;
        call (y), fib, (x); ld.param.b32 %a3, [y]; sub.u32 %a2, %a1, 2; st.param.b32 [x], %a2;
        call (y), fib, (x); ld.param.b32 %a4, [y]; } add.u32 %a1, %a3, %a4;
        base: st.param.b32 [o], %a1; ret; }";
    let body = "mov.u64 %d1, twice; mov.u64 %d2, inc; and.b32 %t1, %tid, 1;
        setp.eq.u32 %p1, %t1, 0; selp.b64 %d3, %d1, %d2, %p1;
        proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
        call (%r), %d3, (%tid), proto;";
    assert_eq!(good(body, functions, 6), [0, 2, 4, 4, 8, 6]);
    let body = "{ .param .b32 x; .param .b32 y; rem.u32 %t1, %tid, 11; st.param.b32 [x], %t1;
        call (y), fib, (x); ld.param.b32 %r, [y]; }";
    assert_eq!(
        good(body, functions, 11),
        [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    );
    let wild = "mov.u64 %d3, 12345; proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
        call (%r), %d3, (%tid), proto;";
    assert_eq!(fault(wild, functions), FaultKind::IllegalInstruction);
    let endless = ".func down(.reg .b32 %i) { call down, (%i); ret; }";
    assert_eq!(
        fault("call down, (%tid);", endless),
        FaultKind::StackOverflow
    );
}

#[test]
fn generic_addresses_reach_every_space() {
    let body = ".local .align 4 .b8 own[16]; mov.u64 %d1, own; cvta.local.u64 %d2, %d1;
        st.u32 [%d2+4], %tid; ld.local.u32 %t1, [own+4]; mov.u64 %d3, many;
        cvta.shared.u64 %d4, %d3; add.u64 %d4, %d4, 8; and.b32 %t2, %tid, 7;
        mul.wide.u32 %d5, %t2, 4; add.u64 %d4, %d4, %d5; st.u32 [%d4], %t2;
        ld.u32 %t3, [%d4]; isspacep.shared %p1, %d4; selp.u32 %t4, 100, 0, %p1;
        add.u32 %r, %t1, %t3; add.u32 %r, %r, %t4; st.u32 [%at], %r;";
    let want: Vec<u32> = (0..32).map(|i| i + i % 8 + 100).collect();
    assert_eq!(good(body, "", 32), want);
    let write = "mov.u64 %d1, fixed; st.global.u32 [%d1], 1;";
    let fixed = ".const .align 4 .b32 fixed[2] = {7, 8};";
    assert_eq!(fault(write, fixed), FaultKind::IllegalAddress);
    assert_eq!(good("ld.const.u32 %r, [fixed+4];", fixed, 2), [8; 2]);
    assert_eq!(
        fault("mov.u64 %d1, 0; ld.u32 %r, [%d1];", ""),
        FaultKind::IllegalAddress
    );
    assert_eq!(
        fault("ld.local.u32 %r, [0];", ""),
        FaultKind::IllegalAddress
    );
    assert_eq!(fault("bar.sync 1, 64;", ""), FaultKind::Timeout);
}

#[test]
fn a_launch_stops_and_goes_on_between_instructions() {
    let text = format!(
        "{HEAD}.entry k(.param .u64 out) {{ .reg .b64 %o, %a; .reg .b32 %t, %n, %s, %c; .reg .pred %p;
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x;
        mad.lo.u32 %t, %c, 64, %t; mov.u32 %n, %t; mov.u32 %s, 1;
        again: mad.lo.u32 %s, %s, 1664525, 1013904223; sub.u32 %n, %n, 1;
        setp.gt.s32 %p, %n, 0; @%p bra again; bar.sync 0;
        mul.wide.u32 %a, %t, 4; add.u64 %o, %o, %a; st.global.u32 [%o], %s; ret; }}"
    );
    let program = Program::build(&text).expect("builds");
    let mut results = Vec::new();
    for (budget, threads) in [(u64::MAX, 1), (1, 1), (333, 1), (100, 3)] {
        let mut memory = Memory::new(BASE, 64 << 20, 32 << 20).expect("reserved");
        memory.alloc(BASE, 1 << 16).expect("room");
        let instance = Instance::new(&program, &mut memory).expect("placed");
        let engine = Engine::new(EngineConfig {
            threads,
            ..EngineConfig::default()
        });
        let grid = Grid::flat(16, 64);
        let mut running = engine
            .start(&instance, 0, grid, &BASE.to_le_bytes())
            .expect("a good launch");
        let kill = AtomicBool::new(false);
        let mut steps = 1;
        let stats = loop {
            match running.step(&mut memory, budget, &kill).expect("no fault") {
                Progress::Done(stats) => break stats,
                Progress::Running => steps += 1,
            }
        };
        assert!(budget == u64::MAX || steps > 5, "{steps} steps");
        assert_eq!(stats.blocks, 16);
        let mut out = vec![0; 4096];
        memory.read(BASE, &mut out).expect("live");
        results.push(out);
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_kill_flag_ends_a_launch() {
    let program = Program::build(&format!("{HEAD}.entry k() {{ a: bra a; }}")).expect("builds");
    let mut memory = Memory::new(BASE, 64 << 20, 1 << 20).expect("reserved");
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let engine = Engine::new(EngineConfig::default());
    let grid = Grid::flat(1, 1);
    let mut running = engine
        .start(&instance, 0, grid, &[])
        .expect("a good launch");
    let kill = AtomicBool::new(false);
    assert_eq!(
        running.step(&mut memory, 1000, &kill),
        Ok(Progress::Running)
    );
    kill.store(true, std::sync::atomic::Ordering::Relaxed);
    let fault = running
        .step(&mut memory, u64::MAX, &kill)
        .expect_err("killed");
    assert_eq!(fault.kind, FaultKind::Timeout);
}

#[test]
fn unknown_instructions_name_their_place() {
    for (body, line, column, words) in [
        ("frob.u32 %r1, %r1;", 5, 1, "frob"),
        ("add.u32 %r1, %r2;", 5, 1, "3 operands"),
        ("add.bogus.u32 %r1, %r1, 1;", 5, 1, "bogus"),
        ("add.u32 %x1, %r1, 1;", 5, 1, "%x1"),
        ("bra nowhere;", 5, 1, "nowhere"),
        ("add.q32 %r1, %r1, 1;", 5, 1, "type"),
    ] {
        let text = format!("{HEAD}.entry k() {{ .reg .b32 %r<9>;\n{body}\nret; }}");
        let error = Program::build(&text).expect_err(body);
        let device_cpu::BuildError::Ptx(error) = error else {
            panic!("{body}: {error}")
        };
        assert_eq!(
            (error.line, error.column),
            (line, column),
            "{body}: {error}"
        );
        assert!(error.message.contains(words), "{body}: {error}");
    }
}

/// Compilers keep shared variables in the only function that uses them.
#[test]
fn functions_keep_shared_variables_of_their_own() {
    let function = |name: &str| {
        format!(
            ".func (.param .b32 old) {name}(.param .b32 new) {{
            .shared .align 4 .b32 kept[3]; .reg .b64 %at; .reg .b32 %v;
            mov.u64 %at, kept; ld.shared.u32 %v, [%at+8]; st.param.b32 [old], %v;
            ld.param.u32 %v, [new]; st.shared.u32 [%at+8], %v; ret; }}\n"
        )
    };
    let outside = format!(
        ".shared .align 8 .b64 first;\n{}{}",
        function("a"),
        function("b")
    );
    let body = ".param .b32 in; .param .b32 back;
        mov.u64 %d1, word; st.shared.u32 [%d1], 1; mov.u64 %d2, first; st.shared.u32 [%d2], 2;
        st.param.b32 [in], 7; call (back), a, (in); st.param.b32 [in], 9; call (back), b, (in);
        st.param.b32 [in], 0; call (back), a, (in); ld.param.b32 %t1, [back];
        call (back), b, (in); ld.param.b32 %t2, [back];
        ld.shared.u32 %t3, [%d1]; ld.shared.u32 %t4, [%d2];
        mad.lo.u32 %r, %t1, 10, %t2; mad.lo.u32 %r, %r, 10, %t3; mad.lo.u32 %r, %r, 10, %t4;";
    assert_eq!(good(body, &outside, 1), [7912]);
}

/// Each block writes its word, waits for all, and reads the next one's, three times.
const GRID: &str = "
.extern .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(.param .b32 p0);
.extern .func (.param .b32 func_retval0) cudaCGSynchronize(.param .b64 p0, .param .b32 p1);
.visible .entry k(.param .u64 out) {
    .reg .b64 %out, %mine, %next, %grid; .reg .b32 %t, %value, %left; .reg .pred %first, %more;
    .param .b32 scope; .param .b64 handle; .param .b32 flags; .param .b32 status;
    ld.param.u64 %out, [out];
    st.param.b32 [scope], 1;
    call (handle), cudaCGGetIntrinsicHandle, (scope);
    ld.param.b64 %grid, [handle];
    mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
    mov.u32 %t, %ctaid.x; mul.wide.u32 %mine, %t, 4; add.u64 %mine, %out, %mine;
    mov.u32 %value, %t;
    add.u32 %t, %t, 1; mov.u32 %left, %nctaid.x; rem.u32 %t, %t, %left;
    mul.wide.u32 %next, %t, 4; add.u64 %next, %out, %next;
    mov.u32 %left, 3;
AGAIN:
    @%first st.global.u32 [%mine], %value;
    st.param.b64 [handle], %grid; st.param.b32 [flags], 0;
    call (status), cudaCGSynchronize, (handle, flags);
    ld.volatile.global.u32 %value, [%next];
    st.param.b64 [handle], %grid; st.param.b32 [flags], 0;
    call (status), cudaCGSynchronize, (handle, flags);
    sub.u32 %left, %left, 1; setp.ne.u32 %more, %left, 0;
    @%more bra AGAIN;
    @%first st.global.u32 [%mine], %value;
    ret;
}";

#[test]
fn a_grid_waits_for_all_its_blocks_again_and_again() {
    let text = format!("{HEAD}{GRID}");
    let image = ptx::LinkImage {
        name: "grid",
        image: text.as_bytes(),
    };
    let linked = ptx::link(&[image]).expect("links");
    let program = Program::build(&linked).unwrap_or_else(|error| panic!("{error}\n{linked}"));
    for threads in [1, 3] {
        let mut memory = Memory::new(BASE, 64 << 20, 32 << 20).expect("reserved");
        memory.alloc(BASE, 4096).expect("room");
        let instance = Instance::new(&program, &mut memory).expect("placed");
        let engine = Engine::new(EngineConfig {
            threads,
            ..EngineConfig::default()
        });
        // Grids of any size, one after the other, with one word shared by their blocks.
        for (blocks, block) in [(48, 96), (1, 32), (5, 64)] {
            let grid = Grid::flat(blocks, block);
            let done = engine.launch(&instance, 0, grid, &BASE.to_le_bytes(), &mut memory);
            done.unwrap_or_else(|error| panic!("{error}"));
            let mut out = vec![0; 4 * blocks as usize];
            memory.read(BASE, &mut out).expect("live");
            let (words, _) = out.as_chunks::<4>();
            for (at, word) in (0..).zip(words) {
                assert_eq!(u32::from_le_bytes(*word), (at + 3) % blocks);
            }
        }
    }
}
