//! `alloca`, `stacksave`, `stackrestore`.

use crate::vector::{Expect, Inputs, Test};
use crate::warp::{Warp, isas};

/// Each thread has its own memory, of its own size, separate from its variables.
fn memory(tests: &mut Vec<Test>, ty: &str) {
    let bits = &ty[1..];
    let forms = [format!("alloca.{ty}"), format!("stacksave.{ty}"), format!("stackrestore.{ty}")];
    let widen = if bits == "64" { "mov.b64" } else { "cvt.u64.u32" };
    let declared = format!(
        ".reg .b{bits} p, q, s, n; .reg .b64 w, v; .reg .b32 r; .reg .pred x, y;
         .local .b32 own; st.local.b32 [own], 77; and.b32 r, %b, 255; cvt.u{bits}.u32 n, r;"
    );
    let kept = |[a, b, ..]: Inputs| [a, b, (a + b) & 0xffff_ffff, 77];
    let four = Test::with(&forms[0], "b32 b32 b32 b32 = b32 b32", Expect::Each(Box::new(kept)));
    tests.push(four.body(format!(
        "{declared} alloca.{ty} p, n; alloca.{ty} q, 8, 64; alloca.{ty} s, 4, 1;
         setp.gt.u32 x, r, 3; @!x alloca.{ty} p, 16;
         st.local.b32 [p], %a; st.local.b32 [q], %b; st.local.b32 [q+4], %b;
         add.u32 r, %a, %b; st.local.b32 [s], r;
         ld.local.b32 %d, [p]; ld.local.b32 %e, [q+4]; ld.local.b32 %f, [s];
         ld.local.b32 %g, [own];"
    )));
    // Aligned, one behind the other, and back at the start.
    let places = |[_, b, ..]: Inputs| [1, 1, if b & 0xff == 0 { 0 } else { 1 }, 1];
    let four = Test::with(&forms[0], "b32 b32 b32 b32 = b32 b32", Expect::Each(Box::new(places)));
    tests.push(
        four.also(forms[1..].iter().cloned()).body(format!(
            "{declared} stacksave.{ty} s; alloca.{ty} p, n, 256; {widen} w, p;
             and.b64 v, w, 255; setp.eq.u64 x, v, 0; selp.b32 %d, 1, 0, x;
             stacksave.{ty} q; sub.u{bits} q, q, p; setp.eq.u{bits} x, q, n; selp.b32 %e, 1, 0, x;
             stacksave.{ty} q; setp.gt.u{bits} x, q, p; selp.b32 %f, 1, 0, x;
             stackrestore.{ty} s; stacksave.{ty} q; setp.eq.u{bits} x, q, s; selp.b32 %g, 1, 0, x;"
        )),
    );
    // Freed memory can be used again: a thousand times half of the stack.
    tests.push(
        Test::new(&forms[2], "b32 = b32", |[a, ..]| (a + 999) & 0xffff_ffff).also([&forms[0]]).body(
            format!(
                ".reg .b{bits} p, s; .reg .b32 n, r; .reg .pred more; mov.b32 n, 0;
                 AGAIN: stacksave.{ty} s; alloca.{ty} p, 8192; add.u32 r, %a, n;
                 st.local.b32 [p+8188], r; ld.local.b32 %d, [p+8188]; stackrestore.{ty} s;
                 add.u32 n, n, 1; setp.lt.u32 more, n, 1000; @more bra AGAIN;"
            ),
        ).lanes(128),
    );
    // A function's stack is not its caller's.
    tests.push(
        Test::new(&forms[0], "b32 = b32 b32", |[a, b, ..]| (a + 2 * b) & 0xffff_ffff)
            .module(format!(
                ".func (.reg .b32 r) twice(.reg .b32 a) {{
                    .reg .b{bits} p; .reg .b64 w; alloca.{ty} p, 64; st.local.b32 [p+60], a;
                    {widen} w, p; cvta.local.u64 w, w; ld.b32 r, [w+60]; add.u32 r, r, a; ret; }}"
            ))
            .body(format!(
                ".reg .b{bits} p; .reg .b32 r; alloca.{ty} p, 64; st.local.b32 [p+60], %a;
                 call (r), twice, (%b); ld.local.b32 %d, [p+60]; add.u32 %d, %d, r;"
            )),
    );
}

/// An allocation that does not fit faults when it is used, and not before.
fn check_overflow(ty: &str, size: &str) {
    let bits = &ty[1..];
    for isa in isas() {
        for used in [false, true] {
            let access = if used { "st.local.b32 [p], %o0;" } else { "" };
            let text = format!(
                ".reg .b{bits} p, n; mov.u{bits} n, {size}; alloca.{ty} p, 16; alloca.{ty} p, n;
                 {access}"
            );
            let warp = Warp { text: &text, inputs: &[], outputs: &[32], buffer: &[], shared: false };
            assert_eq!(warp.result(isa).is_err(), used, "{text}");
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (ty, most) in [("u32", "0xffffffff"), ("u64", "0xffffffffffffffff")] {
        memory(&mut tests, ty);
        for size in ["16380", "1000000", "0x80000000", most] {
            let check = move || check_overflow(ty, size);
            tests.push(Test::check(vec![format!("alloca.{ty}")], check));
        }
    }
    tests
}
