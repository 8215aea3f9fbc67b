//! Registers that are read before they are written hold zero, whatever ran before.

mod launch;

use device_cpu::{EngineConfig, Grid, Program};
use launch::launch;

/// Runs blocks of 64 threads of entry `k`; each thread has 64 bytes for its results.
fn found(body: &str, functions: &str, blocks: u32, threads: usize) -> Vec<u64> {
    let source = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{functions}
        .entry k(.param .u64 base) {{
        .reg .b64 %at, %me; .reg .b32 %block, %thread, %odd; .reg .pred %is_odd, %first;
        ld.param.u64 %at, [base];
        mov.u32 %block, %ctaid.x; mov.u32 %thread, %tid.x;
        and.b32 %odd, %block, 1; setp.ne.u32 %is_odd, %odd, 0; setp.eq.u32 %first, %block, 0;
        mad.lo.u32 %thread, %block, 64, %thread; mul.wide.u32 %me, %thread, 64;
        add.u64 %at, %at, %me;
        {body} ret; }}"
    );
    let program = Program::build(&source).unwrap_or_else(|error| panic!("{error}"));
    let bytes = vec![0; 64 * 64 * blocks as usize];
    let config = EngineConfig {
        threads,
        ..EngineConfig::default()
    };
    launch(&program, config, Grid::flat(blocks, 64), bytes, &[])
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Checks the results of every thread, by block: eight words each.
fn check(body: &str, functions: &str, want: impl Fn(u64) -> [u64; 8]) {
    for threads in [1, 2] {
        let all = found(body, functions, 128, threads);
        for (thread, words) in all.chunks(8).enumerate() {
            let block = thread as u64 / 64;
            assert_eq!(
                words,
                want(block),
                "thread {thread} of {threads} workers:\n{body}"
            );
        }
    }
}

#[test]
fn a_block_sees_nothing_of_an_earlier_one() {
    // Each path around a write: a branch, a guard, a loop that may not run.
    let body = "
        .reg .b32 %word; .reg .b64 %wide; .reg .b16 %half; .reg .f64 %number; .reg .pred %p;
        .reg .b32 %guarded, %looped, %left, %held;
        @%is_odd bra skip;
        mov.u32 %word, 7; mov.u64 %wide, 8; mov.u16 %half, 9; mov.f64 %number, 0d4000000000000000;
        setp.eq.u32 %p, %odd, %odd;
        skip:
        @!%is_odd mov.u32 %guarded, 11;
        sub.u32 %left, 1, %odd;
        again: setp.eq.u32 %first, %left, 0;
        @%first bra done;
        mov.u32 %looped, 12; sub.u32 %left, %left, 1; bra again;
        done:
        selp.u32 %held, 1, 0, %p;
        st.u32 [%at], %word; st.u64 [%at+8], %wide; st.u16 [%at+16], %half;
        st.f64 [%at+24], %number; st.u32 [%at+32], %held; st.u32 [%at+40], %guarded;
        st.u32 [%at+48], %looped;";
    check(body, "", |block| {
        if block % 2 == 1 {
            return [0; 8];
        }
        [7, 8, 9, 2_f64.to_bits(), 1, 11, 12, 0]
    });
}

#[test]
fn a_register_that_is_never_written_is_zero() {
    let body = "
        .reg .b32 %word, %other; .reg .b64 %wide; .reg .pred %p;
        add.u32 %other, %word, 1; add.u64 %wide, %wide, 2;
        selp.u32 %word, 3, 4, %p; setp.eq.u32 %p, 0, 0;
        st.u32 [%at], %other; st.u64 [%at+8], %wide; st.u32 [%at+16], %word;";
    check(body, "", |_| [1, 2, 4, 0, 0, 0, 0, 0]);
}

#[test]
fn a_function_sees_nothing_of_what_used_its_frame_before() {
    let functions = "
        .func (.reg .b32 %out) dirty(.reg .b32 %in) {
            .reg .b32 %r<40>; .reg .b64 %d<10>; .reg .pred %p<4>;
            mov.u32 %r0, -1; mov.u32 %r1, -1; mov.u32 %r2, -1; mov.u32 %r3, -1; mov.u64 %d0, -1;
            mov.u64 %d1, -1; setp.eq.u32 %p0, %in, %in; setp.eq.u32 %p1, %in, %in;
            add.u32 %r4, %r0, %r1; add.u32 %r5, %r2, %r3; add.u64 %d0, %d0, %d1;
            cvt.u32.u64 %r6, %d0; add.u32 %out, %r5, %r6; @%p0 add.u32 %out, %out, 1;
            @%p1 add.u32 %out, %out, %r4; ret;
        }
        .func (.reg .b32 %out) clean(.reg .b32 %in) {
            .reg .b32 %a, %b, %c; .reg .b64 %d; .reg .pred %p;
            setp.gt.u32 %p, %in, 100; @%p mov.u32 %a, 5; @%p mov.u64 %d, 5;
            cvt.u32.u64 %b, %d; selp.u32 %c, 0, 1, %p; add.u32 %b, %b, %a;
            @%p bra end; add.u32 %out, %b, %c;
            end: ret;
        }";
    // A result that a path through the function does not write is zero too.
    let body = "
        .reg .b32 %one, %two, %in;
        call (%one), dirty, (%thread); call (%one), clean, (%odd);
        call (%two), dirty, (%thread); mov.u32 %in, 200; call (%two), clean, (%in);
        st.u32 [%at], %one; st.u32 [%at+8], %two;";
    check(body, functions, |_| [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn lanes_of_one_warp_are_apart() {
    let body = "
        .reg .b32 %bit, %word; .reg .pred %set;
        and.b32 %bit, %thread, 1; setp.ne.u32 %set, %bit, 0;
        @%set bra skip; mov.u32 %word, 1; skip:
        @%is_odd bra clean; @%set mov.u32 %word, 1;
        clean: @%is_odd mov.u32 %word, 0; st.u32 [%at], %word;";
    check(body, "", |block| [1 - block % 2, 0, 0, 0, 0, 0, 0, 0]);
}

/// A kernel of `count` registers that are all live at once, then as many one after the other. Each
/// thread folds the first ones backwards and the others in order.
fn many(count: usize) -> String {
    use std::fmt::Write as _;
    let mut body = format!(".reg .b32 %r<{count}>, %s<{count}>, %sum; .reg .b64 %d<{count}>;\n");
    for at in 0..count {
        let _ = writeln!(body, "mad.lo.u32 %r{at}, %thread, {}, {};", at + 3, at * at);
    }
    for at in (0..count).rev() {
        let _ = writeln!(body, "mad.lo.u32 %sum, %sum, 31, %r{at};");
    }
    for at in 0..count {
        let _ = writeln!(
            body,
            "add.u32 %s{at}, %sum, {at}; mul.wide.u32 %d{at}, %s{at}, 7; cvt.u32.u64 %sum, %d{at};"
        );
    }
    body + "st.u32 [%at], %sum;"
}

fn folded(count: u32, thread: u32) -> u32 {
    let first = |at: u32| {
        let product = thread.wrapping_mul(at + 3);
        product.wrapping_add(at.wrapping_mul(at))
    };
    let sum = (0..count).rev().fold(0_u32, |sum, at| {
        sum.wrapping_mul(31).wrapping_add(first(at))
    });
    (0..count).fold(sum, |sum, at| sum.wrapping_add(at).wrapping_mul(7))
}

#[test]
fn a_kernel_has_as_many_registers_as_it_likes() {
    let count = 40_000;
    let words = found(&many(count), "", 2, 1);
    for (thread, words) in words.chunks(8).enumerate().take(128) {
        let want = folded(count as u32, thread as u32);
        assert_eq!(words[0], u64::from(want), "thread {thread}");
    }
}

#[test]
fn what_no_assembler_could_spill_is_refused() {
    let source = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 base) {{
        .reg .b32 %thread; .reg .b64 %at; {} ret; }}",
        many(300_000)
    );
    let error = Program::build(&source).expect_err("38 MB for a warp");
    assert!(
        error.to_string().contains("registers live at once"),
        "{error}"
    );
}
