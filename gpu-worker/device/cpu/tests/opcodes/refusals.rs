//! What is no form of the ISA is refused when it is built, at its place.

use device_cpu::{BuildError, Program};

/// Forms with a modifier or a type too many, a modifier too few, or from a later ISA.
const FORMS: [&str; 54] = [
    "add.wide.s32 %r, %r, %r",
    "add.sat.u32 %r, %r, %r",
    "add.rn.s32 %r, %r, %r",
    "add.sat.f64 %d, %d, %d",
    "add.ftz.f64 %d, %d, %d",
    "add.rz.f16 %h, %h, %h",
    "add.ftz.bf16 %h, %h, %h",
    "add.b32 %r, %r, %r",
    "add.u8 %h, %h, %h",
    "add.f32 %r, %r",
    "add.f32 %r, %r, %r, %r",
    "add.cc.u16 %h, %h, %h",
    "addc.f32 %r, %r, %r",
    "sub.relu.f32 %r, %r, %r",
    "mul.wide.u64 %d, %d, %d",
    "mul.rn.u32 %r, %r, %r",
    "mul.approx.f32 %r, %r, %r",
    "fma.rn.sat.f64 %d, %d, %d, %d",
    "fma.rn.relu.f32 %r, %r, %r, %r",
    "fma.rn.s32 %r, %r, %r, %r",
    "mad.rn.f16 %h, %h, %h, %h",
    "div.sat.f32 %r, %r, %r",
    "div.approx.f64 %d, %d, %d",
    "div.f16 %h, %h, %h",
    "min.NaN.f64 %d, %d, %d",
    "min.relu.u32 %r, %r, %r",
    "max.f32 %r, %r, %r, %r",
    "neg.u32 %r, %r",
    "abs.ftz.bf16 %h, %h",
    "ex2.approx.f64 %d, %d",
    "sin.approx.sat.f32 %r, %r",
    "sqrt.approx.f64 %d, %d",
    "tanh.approx.ftz.f32 %r, %r",
    "popc.hi.b32 %r, %r",
    "bfind.wrap.u32 %r, %r",
    "sad.sat.s32 %r, %r, %r, %r",
    "lop3.b32 %r, %r, %r, %r",
    "lop3.or.b32 %r, %r, %r, %r, 1, %p",
    "lop3.or.b32 %r|%p, %r, %r, %r, 1",
    "lop3.xor.b32 %r|%p, %r, %r, %r, 1, %p",
    "vabsdiff4.s32.u32.u32.add %r, %r, %r, %r",
    "vabsdiff2.u32.s32.u32.add %r, %r, %r, %r",
    "vabsdiff4.u32.u32.f32 %r, %r, %r, %r",
    "shf.wrap.b32 %r, %r, %r, %r",
    "prmt.b32.abc %r, %r, %r, %r",
    "setp.s32 %p, %r, %r",
    "setp.lt.lo.u32 %p, %r, %r",
    "testp.f32 %p, %r",
    "cvt.f32 %r, %r",
    "cvt.rni.f32.f16 %r, %h",
    "cvt.rn.e4m3x2.f32 %h, %r, %r",
    "cvt.rs.satfinite.f16x2.f32 %r, %r, %r, %r",
    "cvt.pack.u8.s32.b32 %r, %r, %r, %r",
    "add.f32x2 %d, %d, %d",
];

#[test]
fn what_is_no_form_is_refused_at_its_place() {
    for form in FORMS {
        let source = format!(
            ".version 8.3\n.target sm_90\n.address_size 64\n.entry k() {{\n\
             .reg .b16 %h; .reg .b32 %r; .reg .b64 %d; .reg .pred %p;\n  {form};\nret; }}"
        );
        match Program::build(&source) {
            Err(BuildError::Ptx(error)) => {
                let text = error.to_string();
                assert!(text.contains("line 6, column 3"), "{form}: {text}");
            }
            other => panic!("{form}: {other:?}"),
        }
    }
}
