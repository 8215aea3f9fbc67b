//! Modules of a given size, one for each thing that a module can have in large numbers.

use std::fmt::Write as _;

/// A shape's name, and its module of a given size.
pub(crate) type Shape = (&'static str, fn(usize) -> String);

/// Every shape.
pub(crate) const SHAPES: &[Shape] = &[
    ("scattered", scattered),
    ("registers", registers),
    ("alive", alive),
    ("block", block),
    ("accesses", accesses),
    ("functions", functions),
    ("entries", entries),
    ("chain", chain),
    ("reach", reach),
    ("labels", labels),
    ("ranges", ranges),
    ("globals", globals),
    ("initialiser", initialiser),
    ("expression", expression),
    ("tables", tables),
    ("predicates", predicates),
    ("logic", logic),
    ("shared", shared),
    ("scopes", scopes),
    ("calls", calls),
    ("digits", digits),
    ("modifiers", modifiers),
    ("segments", segments),
];

fn entry(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 out) {{\n{body}\nret;\n}}\n"
    )
}

/// Numbers without a pattern, the same in each run.
fn scramble(at: usize) -> usize {
    (at as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize
        >> 8
}

/// Conditional branches, each to an arbitrary target.
fn scattered(n: usize) -> String {
    let mut body = ".reg .pred %p<4>; .reg .b32 %r<8>;\n".to_owned();
    for at in 0..n {
        let (to, register) = (scramble(at) % n, at % 7);
        let _ = writeln!(
            body,
            "L{at}: add.u32 %r{register}, %r{register}, 1; setp.lt.u32 %p1, %r{register}, 5; @%p1 bra L{to};"
        );
    }
    entry(&body)
}

/// As `scattered`, but every block writes a register that another one reads.
fn registers(n: usize) -> String {
    let mut body = format!(".reg .pred %p<{n}>; .reg .b32 %r<{n}>;\n");
    for at in 0..n {
        let (to, from) = (scramble(at) % n, scramble(at + n) % n);
        let _ = writeln!(
            body,
            "L{at}: add.u32 %r{at}, %r{from}, 1; setp.lt.u32 %p{at}, %r{at}, 5; @%p{at} bra L{to};"
        );
    }
    entry(&body)
}

/// Registers that are all live at once.
fn alive(n: usize) -> String {
    let n = n.min(100_000);
    let mut body =
        format!(".reg .b32 %r<{n}>; .reg .b32 %s; .reg .b64 %a;\nld.param.u64 %a, [out];\n");
    for at in 0..n {
        let _ = writeln!(body, "ld.global.u32 %r{at}, [%a+{}];", 4 * (at % 1000));
    }
    for at in 0..n {
        let _ = writeln!(body, "add.u32 %s, %s, %r{};", n - 1 - at);
    }
    entry(&body)
}

/// One straight block with a repeated instruction that is not generated.
fn block(n: usize) -> String {
    let mut body = format!(".reg .b32 %r<{n}>; .reg .b32 %s, %t;\n");
    for at in 0..n {
        let _ = writeln!(
            body,
            "add.u32 %r{at}, %s, {at}; mul.lo.u32 %t, %r{at}, %r{at}; popc.b32 %s, %t;"
        );
    }
    for at in 0..n {
        let _ = writeln!(body, "xor.b32 %s, %s, %r{at};");
    }
    entry(&body)
}

/// Loads through as many addresses, without anything in between.
fn accesses(n: usize) -> String {
    let mut body = format!(
        ".reg .b64 %a<{n}>; .reg .b32 %r<{n}>; .reg .b64 %b; .reg .b32 %s;\nld.param.u64 %b, [out];\n"
    );
    for at in 0..n {
        let _ = writeln!(body, "add.u64 %a{at}, %b, {};", 4 * at);
        let _ = writeln!(body, "ld.global.u32 %r{at}, [%a{at}];");
        let _ = writeln!(body, "add.u32 %s, %s, %r{at};");
    }
    entry(&body)
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn functions(n: usize) -> String {
    let mut text = HEAD.to_owned();
    for at in 0..n {
        let _ = writeln!(
            text,
            ".func f{at}() {{ .reg .b32 %r<4>; add.u32 %r1, %r2, {at}; ret; }}"
        );
    }
    text + ".visible .entry k(.param .u64 out) { ret; }\n"
}

fn entries(n: usize) -> String {
    let mut text = HEAD.to_owned();
    for at in 0..n {
        let _ = writeln!(
            text,
            ".visible .entry k{at}(.param .u64 out) {{ .reg .b32 %r<4>; mov.u32 %r2, %laneid; add.u32 %r1, %r2, {at}; ret; }}"
        );
    }
    text
}

/// Functions that form one chain of calls.
fn chain(n: usize) -> String {
    let mut text = format!("{HEAD}.func f0() {{ ret; }}\n");
    for at in 1..n {
        let _ = writeln!(text, ".func f{at}() {{ call f{}; ret; }}", at - 1);
    }
    let _ = writeln!(
        text,
        ".visible .entry k(.param .u64 out) {{ call f{}; ret; }}",
        n - 1
    );
    text
}

/// Entries that each reach every function, with a constant in each.
fn reach(n: usize) -> String {
    let mut text = format!("{HEAD}.func f0() {{ ret; }}\n");
    for at in 1..n {
        let _ = writeln!(
            text,
            ".func f{at}() {{ .reg .b32 %r; add.u32 %r, %r, {at}; call f{}; ret; }}",
            at - 1
        );
    }
    for at in 0..n {
        let _ = writeln!(
            text,
            ".visible .entry k{at}(.param .u64 out) {{ call f{}; ret; }}",
            n - 1
        );
    }
    text
}

fn labels(n: usize) -> String {
    let mut body = ".reg .pred %p;\n".to_owned();
    (0..n).for_each(|at| {
        let _ = writeln!(body, "L{at}:");
    });
    (0..n).for_each(|at| {
        let _ = writeln!(body, "@%p bra L{};", n - 1 - at);
    });
    entry(&body)
}

fn ranges(n: usize) -> String {
    let mut body = String::new();
    for at in 0..n {
        let _ = writeln!(body, ".reg .b32 %r{at}x<3>;");
    }
    for at in 0..n {
        let _ = writeln!(body, "add.u32 %r{at}x1, %r{at}x2, 1;");
    }
    entry(&body)
}

fn globals(n: usize) -> String {
    let mut text = HEAD.to_owned();
    for at in 0..n {
        let _ = writeln!(text, ".global .align 4 .u32 g{at} = {at};");
    }
    text + ".visible .entry k(.param .u64 out) { ret; }\n"
}

fn initialiser(n: usize) -> String {
    let list: Vec<String> = (0..10 * n).map(|at| at.to_string()).collect();
    format!(
        "{HEAD}.global .u32 g[{}] = {{{}}};\n.visible .entry k(.param .u64 out) {{ ret; }}\n",
        10 * n,
        list.join(",")
    )
}

fn expression(n: usize) -> String {
    let mut body = ".reg .b32 %r;\n".to_owned();
    let deep = format!("{}1{}", "(1+".repeat(14), ")".repeat(14));
    let long = vec!["1"; n].join("+");
    let signs = "-".repeat(n);
    let _ = writeln!(body, "add.u32 %r, %r, {long};\nadd.u32 %r, %r, {signs}1;");
    (0..n).for_each(|at| {
        let _ = writeln!(body, "add.u32 %r, %r, {at}?{deep}:{deep};");
    });
    entry(&body)
}

/// As many jumps by one list as the list has labels.
fn tables(n: usize) -> String {
    let mut body = ".reg .b32 %r;\n".to_owned();
    let list: Vec<String> = (0..n).map(|at| format!("L{at}")).collect();
    let _ = writeln!(body, "all: .branchtargets {};", list.join(","));
    for at in 0..n {
        let _ = writeln!(body, "L{at}: add.u32 %r, %r, {at}; brx.idx %r, all;");
    }
    entry(&body)
}

fn predicates(n: usize) -> String {
    let mut body = format!(".reg .pred %p<{}>; .reg .b32 %r<4>;\n", n + 1);
    for at in 0..n {
        let _ = writeln!(
            body,
            "@%p{at} setp.eq.u32 %p{}, %r1, {at}; @!%p{at} add.u32 %r1, %r1, %r2;",
            at + 1
        );
    }
    entry(&body)
}

/// Predicates that each decide the previous one, up to a branch, in kernels that are short enough
/// for native control flow.
fn logic(n: usize) -> String {
    let mut text = HEAD.to_owned();
    for function in 0..n.div_ceil(1000) {
        let _ = writeln!(
            text,
            ".visible .entry k{function}() {{ .reg .pred %p<1001>; .reg .b32 %r<1001>;\nbra B;\nA:"
        );
        for at in 0..500 {
            let _ = writeln!(text, "and.pred %p{at}, %p{}, %p{};", at + 1, at + 1);
            let _ = writeln!(text, "add.u32 %r{at}, %r{}, %r{};", at + 1, at + 1);
        }
        let _ = writeln!(
            text,
            "@%p0 bra A; ret;\nB: mov.u32 %r500, %laneid; setp.eq.u32 %p500, %r500, 3; @%p500 add.u32 %r1, %r1, 1; bra A; }}"
        );
    }
    text
}

/// Loads and stores of shared memory, each with its own constant.
fn shared(n: usize) -> String {
    let mut body =
        ".reg .b32 %a, %s; .reg .b32 %r<8>;\n.shared .b32 x[64];\nmov.u32 %a, x;\n".to_owned();
    for at in 0..n {
        let _ = writeln!(body, "ld.shared.u32 %r{}, [%a+{}];", at % 8, 4 * at % 4096);
    }
    entry(&body)
}

/// Nested scopes, and names from outside all of them.
fn scopes(n: usize) -> String {
    let mut body = ".reg .b32 %r<9>;\n".to_owned();
    for _ in 0..n.div_ceil(250) {
        (0..250).for_each(|at| {
            let _ = writeln!(
                body,
                "{{ .reg .b32 %s{at}; .reg .b32 %t<4>; add.u32 %r1, %s{at}, %t2;"
            );
        });
        body += &"}".repeat(250);
    }
    entry(&body)
}

/// Calls with parameters in separate scopes, as compilers write them.
fn calls(n: usize) -> String {
    let mut text = format!(
        "{HEAD}.func (.param .b32 r) f(.param .b32 a) {{ .reg .b32 %r<3>; ld.param.u32 %r1, [a]; st.param.b32 [r], %r1; ret; }}\n\
         .visible .entry k(.param .u64 out) {{ .reg .b32 %r<{}>;\n",
        n + 1
    );
    for at in 0..n {
        let _ = writeln!(
            text,
            "{{ .param .b32 a0; st.param.b32 [a0], %r{at}; .param .b32 r0; call.uni (r0), f, (a0); ld.param.b32 %r{}, [r0]; }}",
            at + 1
        );
    }
    text + "ret; }\n"
}

/// One name with very many digits; no register has such a name.
fn digits(n: usize) -> String {
    let name = format!("%r{}", "1".repeat(10 * n));
    entry(&format!(
        ".reg .b32 %r<4>; .reg .b32 {name};\nadd.u32 {name}, %r1, {name};"
    ))
}

/// Many instructions with many modifiers.
fn modifiers(n: usize) -> String {
    let mut body =
        ".reg .f32 %f<4>; .reg .pred %p; .reg .b64 %a; ld.param.u64 %a, [out];\n".to_owned();
    for _ in 0..n {
        body += "fma.rn.ftz.sat.f32 %f1, %f2, %f3, %f1; ld.relaxed.gpu.global.L1::evict_last.L2::128B.f32 %f2, [%a];\n";
    }
    entry(&body)
}

/// Kernels of alternating loads and stores, with many values that live across all of them.
fn segments(n: usize) -> String {
    let mut text = HEAD.to_owned();
    for function in 0..n.div_ceil(1000) {
        let _ = writeln!(
            text,
            ".visible .entry k{function}(.param .u64 out) {{ .reg .b64 %a; .reg .b32 %r<400>, %s; .reg .pred %p; ld.param.u64 %a, [out];"
        );
        (0..400).for_each(|at| {
            let _ = writeln!(text, "ld.global.u32 %r{at}, [%a+{}];", 4 * at);
        });
        (0..300).for_each(|at| {
            let _ = writeln!(
                text,
                "ld.global.u32 %s, [%a+{}]; st.global.u32 [%a+{}], %s;",
                4 * at,
                4 * at
            );
        });
        (0..400).for_each(|at| {
            let _ = writeln!(text, "add.u32 %s, %s, %r{at};");
        });
        let _ = writeln!(text, "st.global.u32 [%a], %s; ret; }}");
    }
    text
}
