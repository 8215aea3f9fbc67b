//! The parser on real shapes of every emitter, on errors, and on garbage.

use proptest::prelude::*;
use ptx::{
    Init, Instruction, ModuleInfo, Operand, ParsedFunction, ParsedModule, Scalar, Space, Statement,
};

const HEAD: &str = ".version 8.3\n.target sm_80, debug\n.address_size 64\n";

const SAMPLE: &str = r#"
//
// Generated
//
.version 8.8
.target sm_80
.address_size 64
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.extern .shared .align 16 .b8 dyn[];
.global .align 1 .b8 $str[4] = {104, 105, 10};
.const .align 4 .f32 table[2][2] = {{0f3F800000, 2.5}, {1}};
.common .global .align 8 .u64 slot;
.global .align 8 .u64 ptrs[2] = {generic(slot)+8, table};
.visible .entry saxpy(
	.param .u64 .ptr .global .align 4 saxpy_param_0,
	.param .f32 saxpy_param_1,
	.param .align 8 .b8 saxpy_param_2[24],
	.param .u8 saxpy_param_3
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<6>;
	.reg .b64 %rd<8>;
	.shared .align 4 .b8 tile[1024];
	.loc	1 12 3
	.pragma "nounroll";
	ld.param.u64 	%rd1, [saxpy_param_0];
	mov.u32 	%r1, %ctaid.x;
	setp.ge.s32 	%p1, %r1, -5;
	@%p1 bra 	$L__BB0_2;
	ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1+-16];
	@!%p1 shfl.sync.bfly.b32 %r2|%p1, %r3, 0x1f, 31, -1;
	mov.u64 %rd2, tile[0];
	st.shared.f32 [%rd2+4], 0f3F800000;
	{
	.param .b64 param0;
	st.param.b64 	[param0+0], %rd3;
	call.uni (retval0), vprintf, (param0, param1);
	}
	fma.rn.f64 %fd1, 0d3FF0000000000000, 1.5, %fd2;
	prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _);
	call (%r4), %rd5, (%r1), prototype_0;
$L__BB0_2:
	ret;
}
.file	1 "x.cu"
.section	.debug_str
{
 .b8 1,2
 info:
}
"#;

fn instructions<'m, 'a>(function: &'m ParsedFunction<'a>) -> Vec<&'m Instruction<'a>> {
    let body = function.body.as_deref().unwrap_or_default();
    body.iter()
        .filter_map(|s| {
            if let Statement::Instruction(i) = s {
                Some(i)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn a_whole_module_becomes_a_tree() {
    let module = ParsedModule::parse(SAMPLE).expect("the sample is PTX");
    assert_eq!(module.version, (8, 8));
    assert_eq!(module.target, ["sm_80"]);
    let by_name = |name: &str| {
        module
            .variables
            .iter()
            .find(|v| v.name == name)
            .expect("declared")
    };
    assert_eq!(by_name("$str").init.len(), 3);
    assert_eq!(by_name("$str").size(), Some(4));
    assert_eq!(by_name("dyn").dims, [0]);
    assert_eq!(
        by_name("table").init,
        [0x3f80_0000, 0x4020_0000, 0x3f80_0000, 0].map(Init::Bits),
        "short rows are padded, integers become floats"
    );
    assert_eq!(
        by_name("ptrs").init[0],
        Init::Symbol {
            name: "slot",
            offset: 8,
            generic: true,
            mask: None
        }
    );
    let entry = &module.functions[1];
    let all = instructions(entry);
    assert_eq!(all.len(), 13);
    assert_eq!(
        all[3].guard.map(|g| (g.name, g.negated)),
        Some(("%p1", false))
    );
    assert_eq!(all[5].operands[0], Operand::Pair("%r2", "%p1"));
    assert_eq!(all[5].operands[4], Operand::Integer(-1));
    assert_eq!(
        all[6].operands[1],
        Operand::Symbol {
            name: "tile",
            offset: 0,
            index: true
        }
    );
    assert_eq!(all[10].operands[2], Operand::Double(1.5_f64.to_bits()));
    let shared = entry.body.iter().flatten().any(|s| {
        matches!(s, Statement::Variable(v) if v.space == Space::Shared && v.scalar == Scalar::B8)
    });
    assert!(shared);
}

#[test]
fn constant_expressions_stand_wherever_constants_do() {
    let text = format!(
        "{HEAD}.global .b32 a[2*(3+1)] = {{ (1<<4)|3, -3+4, 5 > 4 ? WARP_SZ : 0 }};
        .global .f32 f[2] = {{ 1.0/4, -0f3F800000 }}; .global .f64 d = 2.5*2;
        .global .u64 p = a+4*(1+1);
        .entry k() {{ .reg .b32 %r<2*2>; .local .b8 room[WARP_SZ*4];
        mov.u32 %r1, (1+2)*3; mov.f32 %f, 1.5+1; mov.f32 %f, -0f3F800000; add.s32 %r1, %r1, -3+4;
        ld.global.u32 %r1, [%r2+4*(2+1)]; ld.global.u32 %r1, [a-4+12]; st.global.u32 [(1<<4)], %r1;
        mov.v2.u32 {{%r1, %r2}}, {{(1+1), !5}}; mov.u32 %r1, a[1+1]; call f, (1+1, (2)); }}"
    );
    let module = ParsedModule::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let bits = |at: usize| module.variables[at].init.clone();
    assert_eq!(module.variables[0].dims, [8]);
    assert_eq!(bits(0), [19, 1, 32].map(Init::Bits));
    assert_eq!(bits(1), [0x3e80_0000, 0xbf80_0000].map(Init::Bits));
    assert_eq!(bits(2), [Init::Bits(5.0_f64.to_bits())]);
    assert!(matches!(bits(3)[..], [Init::Symbol { offset: 8, .. }]));
    let all = instructions(&module.functions[0]);
    let operand = |at: usize, which: usize| all[at].operands[which].clone();
    let address = |base, offset| {
        let index = None;
        Operand::Address(ptx::Address {
            base,
            offset,
            index,
        })
    };
    assert_eq!(operand(0, 1), Operand::Integer(9));
    assert_eq!(operand(1, 1), Operand::Double(2.5_f64.to_bits()));
    assert_eq!(operand(2, 1), Operand::Single(0xbf80_0000));
    assert_eq!(operand(3, 2), Operand::Integer(1));
    assert_eq!(operand(4, 1), address(Some("%r2"), 12));
    assert_eq!(operand(5, 1), address(Some("a"), 8));
    assert_eq!(operand(6, 0), address(None, 16));
    let both = [2, 0].map(Operand::Integer);
    assert_eq!(operand(7, 1), Operand::Vector(both.to_vec()));
    let symbol = Operand::Symbol {
        name: "a",
        offset: 2,
        index: true,
    };
    assert_eq!(operand(8, 1), symbol);
    let passed = [2, 2].map(Operand::Integer);
    assert_eq!(operand(9, 1), Operand::List(passed.to_vec()));
}

#[test]
fn parameters_are_laid_out_as_the_driver_packs_them() {
    let info = ModuleInfo::parse(SAMPLE.as_bytes()).expect("the sample is PTX");
    let entry = info.entry("saxpy").expect("defined");
    let places: Vec<_> = entry
        .params
        .iter()
        .map(|p| (p.offset, p.size, p.align))
        .collect();
    assert_eq!(places, [(0, 8, 8), (8, 4, 4), (16, 24, 8), (40, 1, 1)]);
    assert_eq!((entry.param_bytes, entry.static_shared), (41, 1024));
    assert_eq!(entry.maxntid, Some([256, 1, 1]));
    assert!(info.entry("vprintf").is_none());
    assert_eq!(info.globals.len(), 4);
}

#[test]
fn errors_name_line_and_column() {
    let cases: &[(&str, u32, u32, &str)] = &[
        ("", 1, 1, "`.version`"),
        (".target sm_80", 1, 1, "`.version`"),
        (".version x", 1, 10, "version"),
        (".version 8.3\n.bogus", 2, 1, "`.bogus`"),
        (
            ".version 8.3\n.entry k() {\n  add.s32 %r1 %r2;\n}",
            3,
            15,
            "`,` or `;`",
        ),
        (
            ".version 8.3\n.entry k() {\n  add.s32 %r1, ;\n}",
            3,
            16,
            "operand",
        ),
        (
            ".version 8.3\n.entry k() {\n  ret;",
            3,
            7,
            "the end of the text",
        ),
        (".version 8.3\n/* x", 2, 1, "never closed"),
        (
            ".version 8.3\n.global .b32 x = 0f12;",
            2,
            18,
            "not a number",
        ),
        (".version 8.3\n.global .quad x;", 2, 15, "a type"),
    ];
    for (text, line, column, words) in cases {
        let error = ParsedModule::parse(text).expect_err(text);
        assert_eq!(
            (error.line, error.column),
            (*line, *column),
            "{text:?}: {error}"
        );
        assert!(error.message.contains(words), "{text:?}: {error}");
    }
    let error = ParsedModule::parse_bytes(b".version 8.3\n \xff").expect_err("not UTF-8");
    assert_eq!((error.line, error.column), (2, 2));
}

#[test]
fn a_trailing_nul_ends_the_image() {
    let mut image = SAMPLE.as_bytes().to_vec();
    image.extend_from_slice(b"\0\xff\xff");
    assert!(ParsedModule::parse_bytes(&image).is_ok());
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    for (open, close) in [("{", "}"), ("(", ")")] {
        let deep = format!(
            "{HEAD}.global .b32 x[2] = {}1{};",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        assert!(ParsedModule::parse(&deep).is_err());
    }
    let scopes = format!("{HEAD}.entry k() {}", "{".repeat(100_000));
    assert!(ParsedModule::parse(&scopes).is_err());
    let signs = format!("{HEAD}.global .b32 x = {}1;", "-".repeat(100_000));
    assert!(ParsedModule::parse(&signs).is_ok());
}

#[test]
fn huge_declarations_cost_no_memory() {
    let text = format!("{HEAD}.entry k() {{ .reg .b32 %r<4000000000>; ret; }}");
    assert!(ParsedModule::parse(&text).is_ok());
    let text = format!("{HEAD}.global .b8 x[0xffffffffffffffff][16];");
    assert!(ParsedModule::parse(&text).is_err());
    let text = format!("{HEAD}.global .b8 x[99999999][99999] = {{{{1}},{{2}}}};");
    assert!(ParsedModule::parse(&text).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = ModuleInfo::parse(&bytes);
        let mut headed = HEAD.as_bytes().to_vec();
        headed.extend_from_slice(&bytes);
        let _ = ModuleInfo::parse(&headed);
    }

    #[test]
    fn mutated_modules_never_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12)
    ) {
        let mut text = SAMPLE.as_bytes().to_vec();
        for (index, byte, kind) in edits {
            let at = index.index(text.len());
            match kind {
                0 => text[at] = byte,
                1 => { text.remove(at); }
                2 => text.insert(at, b"{}[]()<>.,;:@!+-|\"0f\n"[usize::from(byte) % 21]),
                _ => text.truncate(at.max(40)),
            }
        }
        let _ = ModuleInfo::parse(&text);
    }
}

/// Notes end with their numbers, and not with their lines, as in assemblers.
#[test]
fn an_instruction_may_follow_a_note_on_its_line() {
    let text = "# 1 \"a.cu\"\n.version 8.3\n.target sm_80\n.file 1 \"a.cu\", 12, 34 .entry k() {\n\
        .reg .f32 f; .reg .pred p; .reg .b64 t; .reg .u32 r; .global .u32 own[2] = {1, 2};\n\
        .loc 1 2 3 mov.f32 f, .5; .loc 1 2 3, function_name $L__name+4, inlined_at 1 2 3 @p exit;\n\
        # 7\n\
        tex.2d.v4.f32.f32 {f, f, f, f}|p, [t, {f, f}]; vmad.s32.s32.u32 r, r, -r.b1, r;\n\
        ld.global.u32 r, own[r+1]; ld.global.u32 r, own[1]; ret; }";
    let module = ParsedModule::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let all = instructions(&module.functions[0]);
    let opcodes: Vec<_> = all.iter().map(|it| it.opcode).collect();
    let rest = ["vmad.s32.s32.u32", "ld.global.u32", "ld.global.u32", "ret"];
    assert_eq!(opcodes[..3], ["mov.f32", "exit", "tex.2d.v4.f32.f32"]);
    assert_eq!(opcodes[3..], rest);
    assert_eq!(all[0].operands[1], Operand::Double(0.5_f64.to_bits()));
    let four = vec![Operand::Name("f"); 4];
    let two = Operand::Vector(vec![Operand::Name("f"); 2]);
    let place = ptx::Address {
        base: Some("t"),
        offset: 0,
        index: None,
    };
    assert_eq!(all[2].operands[0], Operand::VectorPair(four, "p"));
    assert_eq!(all[2].operands[1], Operand::Coordinates(place, vec![two]));
    assert_eq!(all[3].operands[2], Operand::Minus("r.b1"));
    let indexed = Operand::Indexed {
        name: "own",
        register: "r",
        offset: 1,
    };
    assert_eq!(all[4].operands[1], indexed);
}
