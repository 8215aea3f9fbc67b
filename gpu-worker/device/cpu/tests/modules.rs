//! Modules apart from their code: variables and their initial values, parameters, directives,
//! special registers, function pointers; and linked images.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Memory, Program};
use std::fmt::Write as _;

const BASE: u64 = 0x1000_0000_0000;
const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

/// Runs entry `k` of a module in one warp; returns the 64-bit words at its first parameter.
fn run_image(text: &str, grid: Grid, more: &[u8], words: usize) -> Vec<u64> {
    let program = Program::build(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new(BASE, 64 << 20, 32 << 20).expect("reserved");
    memory.alloc(BASE, 4096).expect("room");
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let engine = Engine::new(EngineConfig::default());
    let params = [&BASE.to_le_bytes()[..], more].concat();
    let entry = program.entry("k").expect("defined");
    engine
        .launch(&instance, entry, grid, &params, &mut memory)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut out = vec![0; 8 * words];
    memory.read(BASE, &mut out).expect("live");
    let (chunks, _) = out.as_chunks::<8>();
    chunks
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect()
}

const ONE: Grid = Grid::flat(1, 1);

/// A module with one thread, which stores each of these expressions: text that leaves `%v`.
fn values(outside: &str, list: &[&str]) -> Vec<u64> {
    let mut text = format!(
        "{HEAD}{outside}\n.visible .entry k(.param .u64 out) {{ .reg .b64 %o, %v, %c<9>;
        .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .pred %p<9>;
        ld.param.u64 %o, [out];\n"
    );
    for (at, one) in list.iter().enumerate() {
        writeln!(
            text,
            "mov.u64 %v, 0; {one} st.global.u64 [%o+{}], %v;",
            8 * at
        )
        .expect("a string");
    }
    text.push_str("ret; }\n");
    run_image(&text, ONE, &[], list.len())
}

#[test]
fn initial_values_are_numbers() {
    let outside = "
        .global .b8 bytes[7] = {1, 0x02, 0b11, 04, 'never'};";
    assert!(
        Program::build(&format!("{HEAD}{outside}")).is_err(),
        "no characters in PTX"
    );
}

#[test]
fn initial_values_of_every_type() {
    let outside = "
        .global .align 8 .b8 bytes[16] = {1, 0x02, 0b11, 010, -1, 0U, 255, 1+2*3};
        .global .s8 small = -3; .global .u16 half[2] = {0xffff, 1}; .global .s16 minus = -2;
        .global .s32 word = ~5; .global .u32 mixed[2][2] = {{1}, {2, 3}};
        .global .u64 long = 0xffffffffffffffff; .global .s64 longer = -9223372036854775808;
        .global .f32 one = 1.5, single = 0f40490fdb, whole = 3;
        .global .f64 two = -2.5, double = 0d400921fb54442d18;
        .global .b16 bits = 0x3c00; .global .v4 .f32 four = {1.0, 2.0, 3.0, 4.0};
        .const .align 4 .b8 table[8] = {1, 0, 0, 0, 2}; .global .align 256 .b8 aligned[3];
        .visible .global .u32 zero; .weak .global .u32 feeble = 9; .common .global .u32 shared_one;
        .global .u32 open[] = {5, 6, 7};";
    let minus = |n: i64| n as u64;
    let cases = [
        ("ld.global.u64 %v, [bytes];", 0x07ff_00ff_0803_0201),
        ("ld.global.s8 %v, [small];", minus(-3)),
        (
            "ld.global.u32 %r1, [half]; cvt.u64.u32 %v, %r1;",
            0x0001_ffff,
        ),
        ("ld.global.s16 %v, [minus];", minus(-2)),
        ("ld.global.s32 %v, [word];", minus(-6)),
        ("ld.global.u64 %v, [mixed];", 1),
        ("ld.global.u64 %v, [mixed+8];", 3 << 32 | 2),
        ("ld.global.u64 %v, [long];", u64::MAX),
        ("ld.global.u64 %v, [longer];", 1 << 63),
        ("ld.global.u32 %v, [one];", 0x3fc0_0000),
        ("ld.global.u32 %v, [single];", 0x4049_0fdb),
        ("ld.global.u32 %v, [whole];", 0x4040_0000),
        ("ld.global.u64 %v, [two];", (-2.5_f64).to_bits()),
        ("ld.global.u64 %v, [double];", 0x4009_21fb_5444_2d18),
        ("ld.global.u16 %v, [bits];", 0x3c00),
        ("ld.global.u64 %v, [four+8];", 0x4080_0000_4040_0000),
        ("ld.const.u32 %v, [table+4];", 2),
        ("mov.u64 %v, aligned; and.b64 %v, %v, 255;", 0),
        ("ld.global.u32 %v, [zero];", 0),
        ("ld.global.u32 %v, [feeble];", 9),
        ("ld.global.u32 %v, [shared_one];", 0),
        ("ld.global.u32 %v, [open+8];", 7),
        (
            "mov.u64 %v, open; mov.u64 %c1, open[2]; sub.u64 %v, %c1, %v;",
            8,
        ),
    ];
    let found = values(outside, &cases.map(|(body, _)| body));
    assert_eq!(found, cases.map(|(_, value)| value));
}

#[test]
fn addresses_as_initial_values() {
    let outside = "
        .global .u32 x[4] = {10, 11, 12, 13}; .const .u32 c = 77; .shared .align 16 .b8 s[64];
        .global .u64 direct = x; .global .u64 moved[2] = {x+8, generic(x)+12};
        .global .u64 constant = generic(c); .global .u64 shared_at = generic(s);
        .global .align 8 .b8 pieces[8] = {0xFF(x), 0xFF00(x), 0xFF0000(x), 0xFF000000(x),
            0xFF00000000(x), 0xFF0000000000(x), 0xFF000000000000(x), 0xFF00000000000000(x)};
        .func (.reg .u32 r) twice(.reg .u32 a) { add.u32 r, a, a; ret; }
        .func (.reg .u32 r) thrice(.reg .u32 a) { mul.lo.u32 r, a, 3; ret; }
        .alias again, twice;
        .global .u64 calls[3] = {twice, thrice, again};";
    let call = |at: u32| {
        format!(
            "ld.global.u64 %c1, [calls+{at}]; call (%r1), %c1, (21), shape{at}; cvt.u64.u32 %v, %r1;
            shape{at}: .callprototype (.reg .u32 _) _ (.reg .u32 _);"
        )
    };
    let found = values(
        outside,
        &[
            "ld.global.u64 %c1, [direct]; ld.global.u32 %v, [%c1+4];",
            "ld.global.u64 %c1, [moved]; ld.global.u32 %v, [%c1];",
            "ld.global.u64 %c1, [moved+8]; ld.u32 %v, [%c1];",
            "ld.global.u64 %c1, [constant]; ld.u32 %v, [%c1];",
            "ld.global.u64 %c1, [pieces]; mov.u64 %c2, x; sub.u64 %v, %c1, %c2;",
            "ld.global.u64 %c1, [shared_at]; st.u32 [%c1+4], 99; ld.shared.u32 %v, [s+4];",
            &call(0),
            &call(8),
            &call(16),
        ],
    );
    assert_eq!(found, [11, 12, 13, 77, 0, 99, 42, 63, 42]);
}

/// Structs, arrays, small types; by name, by vector, and by address as compilers index arrays.
#[test]
fn parameters_of_kernels() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 .ptr .global .align 16 out, .param .u8 small,
            .param .align 8 .b8 block[24], .param .s16 minus, .param .f64 real, .param .align 16 .b8 wide[16])
        .maxntid 32 .minnctapersm 1 .maxnreg 64 {{ .reg .b64 %o, %v, %a; .reg .b32 %r<9>; .reg .pred %p;
        .reg .b128 %w;
        ld.param.u64 %o, [out]; ld.param.u8 %v, [small]; st.global.u64 [%o], %v;
        ld.param.u32 %v, [block+4]; st.global.u64 [%o+8], %v;
        ld.param.v2.u32 {{%r1, %r2}}, [block+8]; st.global.v2.u32 [%o+16], {{%r1, %r2}};
        ld.param.s16 %v, [minus]; st.global.u64 [%o+24], %v;
        ld.param.b64 %v, [real]; st.global.u64 [%o+32], %v;
        mov.b64 %a, block; add.s64 %a, %a, 16; ld.param.u64 %v, [%a]; st.global.u64 [%o+40], %v;
        mov.b64 %a, block; cvta.param.u64 %a, %a; ld.u16 %v, [%a+2]; st.global.u64 [%o+48], %v;
        isspacep.param %p, %a; selp.u64 %v, 1, 0, %p; st.global.u64 [%o+56], %v;
        isspacep.global %p, %a; selp.u64 %v, 1, 0, %p; st.global.u64 [%o+64], %v;
        ld.param.b128 %w, [wide]; st.global.b128 [%o+80], %w;
        ret; }}"
    );
    let mut params = vec![200, 0, 0, 0, 0, 0, 0, 0];
    params.extend((0..24_u8).map(|byte| byte + 1));
    params.extend((-7_i16).to_le_bytes());
    params.resize(40, 0);
    params.extend(2.75_f64.to_le_bytes());
    params.resize(56, 0);
    params.extend([0x11; 8]);
    params.extend([0x22; 8]);
    let found = run_image(&text, ONE, &params, 12);
    let wanted = [
        200,
        0x0807_0605,
        0x100f_0e0d_0c0b_0a09,
        (-7_i64) as u64,
        2.75_f64.to_bits(),
        0x1817_1615_1413_1211,
        0x0403,
        1,
        0,
        0,
        0x1111_1111_1111_1111,
        0x2222_2222_2222_2222,
    ];
    assert_eq!(found, wanted);
}

#[test]
fn registers_of_128_bits() {
    let found = values(
        ".global .align 16 .b64 pair[2] = {3, 4}; .global .align 16 .b8 to[16];",
        &[
            "{ .reg .b128 %w<2>; .reg .b64 %x, %y; ld.global.b128 %w0, [pair]; mov.b128 %w1, %w0;
        mov.b128 {%x, %y}, %w1; mad.lo.u64 %v, %y, 10, %x; }",
            "{ .reg .b128 w; mov.b64 %c1, 7; mov.b128 w, {%c1, 8}; st.global.b128 [to], w;
        ld.global.u64 %v, [to+8]; }",
        ],
    );
    assert_eq!(found, [43, 8]);
}

#[test]
fn special_registers() {
    let expressions = [
        "mov.u32 %r1, %ntid.x; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %nctaid.y; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %dynamic_smem_size; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %total_smem_size; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %laneid; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %warpid; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, WARP_SZ; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %lanemask_lt; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %lanemask_ge; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %smid; cvt.u64.u32 %v, %r1;",
        "mov.b32 %r1, %envreg3; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %pm0; cvt.u64.u32 %v, %r1;",
        "mov.u64 %v, %gridid;",
        "mov.u32 %r1, %cluster_ctarank; cvt.u64.u32 %v, %r1;",
        "mov.u64 %c1, %clock64; mov.u64 %c2, %clock64; setp.lt.u64 %p1, %c1, %c2; selp.u64 %v, 1, 0, %p1;",
        "mov.u64 %c1, %globaltimer; mov.u64 %c2, %globaltimer; setp.lt.u64 %p1, %c1, %c2; selp.u64 %v, 1, 0, %p1;",
        "mov.u32 %r1, %clock; mov.u32 %r2, %clock; setp.ne.u32 %p1, %r1, %r2; selp.u64 %v, 1, 0, %p1;",
        "mov.u32 %r1, %clock_hi; cvt.u64.u32 %v, %r1;",
        "mov.u32 %r1, %globaltimer_hi; setp.ne.u32 %p1, %r1, 0; selp.u64 %v, 1, 0, %p1;",
    ];
    let mut text = format!(
        "{HEAD}.extern .shared .align 16 .b8 dynamic[];
        .visible .entry k(.param .u64 out) {{ .reg .b64 %o, %v, %c<9>; .reg .b32 %r<9>; .reg .pred %p<9>;
        .shared .b8 fixed[32]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 37; @%p1 ret;
        mov.u32 %r1, %ctaid.y; setp.ne.u32 %p1, %r1, 1; @%p1 ret; ld.param.u64 %o, [out];\n"
    );
    for (at, one) in expressions.iter().enumerate() {
        writeln!(
            text,
            "mov.u64 %v, 0; {one} st.global.u64 [%o+{}], %v;",
            8 * at
        )
        .expect("a string");
    }
    text.push_str("ret; }\n");
    let grid = Grid {
        grid: [1, 2, 1],
        block: [40, 1, 1],
        shared: 100,
    };
    let found = run_image(&text, grid, &[], expressions.len());
    let wanted = [
        40,
        2,
        100,
        132,
        5,
        1,
        32,
        31,
        0xffff_ffe0,
        0,
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        0,
        1,
    ];
    assert_eq!(found, wanted);
}

/// Reserved shared memory exists if a kernel, or a function that it calls, uses it.
#[test]
fn reserved_shared_memory_lies_between_what_is_static_and_what_is_dynamic() {
    let text = format!(
        "{HEAD}.extern .shared .align 16 .b8 dynamic[];
        .func (.param .b32 at) second() {{ .reg .b32 %r; mov.u32 %r, %reserved_smem_offset_1;
        st.param.b32 [at], %r; ret; }}
        .visible .entry k(.param .u64 out) {{ .reg .b64 %o, %v; .reg .b32 %r<9>; .param .b32 found;
        .shared .b8 fixed[20]; ld.param.u64 %o, [out];
        mov.u32 %r1, fixed; mov.u32 %r2, dynamic; call (found), second, (); ld.param.b32 %r3, [found];
        mov.u32 %r4, %reserved_smem_offset_begin; mov.u32 %r5, %total_smem_size;
        st.shared.u32 [%r1], 1; st.shared.u32 [%r4], 2; st.shared.u32 [%r3+508], 3;
        st.shared.u32 [%r2], 4;
        cvt.u64.u32 %v, %r4; st.global.u64 [%o], %v; cvt.u64.u32 %v, %r3; st.global.u64 [%o+8], %v;
        cvt.u64.u32 %v, %r2; st.global.u64 [%o+16], %v; cvt.u64.u32 %v, %r5; st.global.u64 [%o+24], %v;
        ld.shared.u32 %r6, [%r1]; cvt.u64.u32 %v, %r6; st.global.u64 [%o+32], %v;
        ld.shared.u32 %r6, [%r4]; cvt.u64.u32 %v, %r6; st.global.u64 [%o+40], %v;
        ld.shared.u32 %r6, [%r3+508]; cvt.u64.u32 %v, %r6; st.global.u64 [%o+48], %v;
        ret; }}\n"
    );
    let grid = |shared| Grid {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        shared,
    };
    let found = run_image(&text, grid(16), &[], 7);
    assert_eq!(found, [32, 32 + 512, 32 + 1024, 32 + 16, 1, 2, 3]);
    // It is not part of the program's shared memory, so the limit of that stays the same.
    let most = 163 * 1024 - 32;
    assert_eq!(run_image(&text, grid(most), &[], 1), [32]);
}

/// Directives that compilers write around code, without any effect.
#[test]
fn directives_without_effect() {
    let text = format!(
        "{HEAD}.file 1 \"a.cu\"\n@@DWARF .byte 1, 2\n.pragma \"nounroll\";
        .section .debug_abbrev {{ .b8 1 .b8 2, 3\n end: .b64 .debug_str+4 }}
        .weak .func .attribute(.unified(0xAB, 0xCD)) (.param .b32 r) f(.param .b32 a) .noreturn {{ .reg .b32 x; ld.param.b32 x, [a];
          add.u32 x, x, 1; st.param.b32 [r], x; ret; }}
        .visible .entry k(.param .u64 out)\n.reqntid 1, 1, 1\n.minnctapersm 2\n.maxnreg 32\n.maxclusterrank 1\n.reqnctapercluster 1
        {{ .reg .b64 %o, %v, %pol; .reg .b32 %r<4>; .pragma \"used_bytes_mask 15\"; .loc 1 3 4, function_name a, inlined_at 1 2 3
        @@DWARF .byte 3
        .file 2 \"b.cu\"
        ld.param.u64 %o, [out]; .branchtargets_unused: bra.uni on; on:
        {{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0+0], 41; call.uni (r0), f, (p0); ld.param.b32 %r1, [r0+0]; }}
        createpolicy.fractional.L2::evict_first.b64 %pol, 1.0;
        st.global.L1::evict_last.L2::cache_hint.u32 [%o], %r1, %pol;
        ld.global.L1::evict_first.L2::cache_hint.L2::256B.u32 %r2, [%o].unified, %pol; st.global.u32 [%o+4], %r2;
        prefetch.global.L2 [%o]; prefetchu.L1 [%o]; discard.global.L2 [%o], 128; applypriority.global.L2::evict_normal [%o], 128;
        pmevent 3; membar.sys; fence.proxy.alias; ret; }}"
    );
    let text = text.replace(".branchtargets_unused: ", "");
    assert_eq!(run_image(&text, ONE, &[], 1), [42 << 32 | 42]);
}

#[test]
fn what_contradicts_itself_or_is_not_there_names_its_place() {
    for (text, line, words) in [
        (".global .u32 x;\n.global .u32 x;", 5, "defined twice"),
        (".func f() { ret; }\n.func f() { ret; }", 5, "defined twice"),
        (".global .u32 f;\n.func f() { ret; }", 5, "variable already"),
        ("\n.extern .global .u32 x;", 5, "link the image"),
        ("\n.tex .u64 t;", 5, "textures"),
        (
            ".entry e() { ret; }\n.entry k() { call e; ret; }",
            5,
            "launched",
        ),
        ("\n.entry k() .reqnctapercluster 2 { ret; }", 5, "clusters"),
        ("\n.entry k() .bogus 2 { ret; }", 5, "`{` or `;`"),
        (
            "\n.entry k() { .reg .v4 .f64 v; ret; }",
            5,
            "at most 128 bits",
        ),
        (
            ".extern .func g();\n.entry k() { call g; ret; }",
            5,
            "no body",
        ),
        (
            "\n.entry k() { tex.2d.v4.f32.s32 {a, b, c, d}, [t, {x, y}]; }",
            5,
            "",
        ),
    ] {
        let error = Program::build(&format!("{HEAD}{text}")).expect_err(text);
        let device_cpu::BuildError::Ptx(error) = error else {
            panic!("{text}: {error}")
        };
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
    for head in [
        ".version 8.3\n.target sm_80\n.address_size 32\n",
        ".version 8.3\n.target q9\n",
    ] {
        assert!(
            Program::build(&format!("{head}.entry k() {{ ret; }}")).is_err(),
            "{head}"
        );
    }
}

/// Functions, variables, function pointers, dynamic shared memory and local names, over three
/// images.
#[test]
fn linked_images_run_as_one() {
    let main = format!(
        "{HEAD}.extern .func (.param .b32 r) scale(.param .b32 a); .extern .global .align 4 .u32 table[4];
        .extern .const .u32 step; .extern .shared .align 16 .b8 room[]; .global .u32 own = 5;
        .common .global .u32 counter; .weak .global .u32 feeble = 1; .extern .func none();
        .func (.reg .u32 r) local(.reg .u32 a) {{ add.u32 r, a, 1; ret; }}
        .extern .global .u64 pointers[2];
        .visible .entry k(.param .u64 out) {{ .reg .b64 %o, %a; .reg .b32 %r<9>; .reg .b64 %c;
        ld.param.u64 %o, [out]; ld.global.u32 %r1, [table+8]; ld.const.u32 %r2, [step]; ld.global.u32 %r3, [own];
        {{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), scale, (p); ld.param.b32 %r4, [q]; }}
        call (%r5), local, (%r4); ld.global.u32 %r6, [feeble];
        st.shared.u32 [room], %r5; ld.shared.u32 %r5, [room];
        st.global.v4.u32 [%o], {{%r1, %r2, %r3, %r4}}; st.global.v2.u32 [%o+16], {{%r5, %r6}};
        ld.global.u64 %c, [pointers+8]; call (%r7), %c, (%r3), shape; st.global.u32 [%o+24], %r7; .loc 1 2 3
        ld.global.u32 %r8, [counter+12]; st.global.u32 [%o+28], %r8;
        ret; shape: .callprototype (.reg .u32 _) _ (.reg .u32 _); }}"
    );
    let library = format!(
        "{HEAD}.global .u32 own = 100; .visible .global .align 4 .u32 table[4] = {{7, 8, 9, 10}};
        .visible .const .u32 step = 3; .weak .global .u32 feeble = 2;
        .func (.reg .u32 r) local(.reg .u32 a) {{ .reg .u32 x; ld.global.u32 x, [own]; mad.lo.u32 r, a, 2, x; ret; }}
        .visible .func (.param .b32 r) scale(.param .b32 a) {{ .reg .b32 x, y; ld.param.b32 x, [a];
        call (y), local, (x); st.param.b32 [r], y; ret; }}
        .common .global .u32 counter[4];
        .visible .global .u64 pointers[2] = {{table, local}};"
    );
    let third =
        ".version 8.7\n.target sm_89, debug\n.address_size 64\n.visible .global .u32 feeble = 3;";
    let image = |name, text: &'static str| ptx::LinkImage {
        name,
        image: text.as_bytes(),
    };
    let images = [
        image("main", main.leak()),
        image("library", library.leak()),
        image("third", third),
    ];
    let linked = ptx::link(&images).unwrap_or_else(|error| panic!("{error}"));
    let grid = Grid { shared: 64, ..ONE };
    let found = run_image(&linked, grid, &[], 4);
    // table[2] = 9; step = 3; own = 5; scale(9) = 118; local(118) = 119; feeble = 3; pointers[1](5) = 110.
    assert_eq!(found, [3 << 32 | 9, 118 << 32 | 5, 3 << 32 | 119, 110]);
    assert!(linked.contains(".version 8.7\n.target sm_89"));
    // Linking a linked image again does not change the result.
    let again = ptx::link(&[image("linked", linked.leak())]).expect("links");
    assert_eq!(run_image(&again, grid, &[], 4), found);
}
