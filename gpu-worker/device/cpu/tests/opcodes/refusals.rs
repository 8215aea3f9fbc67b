//! Forms outside the ISA are rejected by the build, with their position.

use device_cpu::{BuildError, Program};

/// Checks that each of these lines is rejected in a kernel with these registers.
pub(crate) fn refused(registers: &str, lines: &[&str]) {
    for line in lines {
        let source = format!(
            ".version 8.5\n.target sm_90\n.address_size 64\n.entry k() {{ {registers}\n{line}\nret; }}"
        );
        assert!(Program::build(&source).is_err(), "{line}");
    }
}

/// Forms with an extra modifier or type, a missing modifier, or from a later ISA.
const FORMS: [&str; 75] = [
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
    "vabsdiff4.u32.u32.f32 %r, %r, %r, %r",
    "vadd.u32.u32.u32.add %r.b0, %r, %r, %r",
    "vadd.u32.u32.u32 %r, -%r, %r",
    "vadd.u32.u32.u32 %r, %r.b4, %r",
    "vshl.u32.u32.s32.clamp %r, %r, %r",
    "vshl.u32.u32.u32 %r, %r, %r",
    "vset.u32.u32.lt.sat %r, %r, %r",
    "vset.u32.u32.hi %r, %r, %r",
    "vmad.u32.u32.u32.po %r, -%r, %r, %r",
    "vmad.u32.u32.u32 %r, -%r, %r, -%r",
    "vadd2.u32.u32.u32 %r, %r, %r",
    "vadd2.u32.u32.u32 %r, %r, 5, %r",
    "vadd2.u32.u32.u32 %r.h01, %r, %r, %r",
    "vadd2.u32.u32.u32 %r, %r.h40, %r, %r",
    "vadd2.u32.u32.u32.sat.add %r, %r, %r, %r",
    "vadd4.u32.u32.u32 %r.b00, %r, %r, %r",
    "vavrg.u32.u32.u32 %r, %r, %r",
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 v, w, w, v, %r, 2",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 v, {%r, %r}, {%r, %r}, v, %r",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.s8.s8.f32 v, {%r, %r}, {%r, %r}, v, %r, 0",
    "mma.sp.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 v, {%r, %r}, {%r, %r}, v, %r, 0",
    "alloca.u64 %d, %d, 12",
    "alloca.s64 %d, %d",
    "stackrestore.u64 %d, %d",
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
             .reg .b16 %h; .reg .b32 %r; .reg .b64 %d; .reg .pred %p;\
             .reg .v4 .f32 v; .reg .v4 .b32 w;\n  {form};\nret; }}"
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

/// Forms that the assembler of CUDA 12.9 accepts for `sm_90a`, and that this device does not
/// support.
const UNSUPPORTED: [&str; 24] = [
    "tex.1d.v4.f32.s32 {%f, %f, %f, %f}, [image, {%r}]",
    "tex.3d.v4.f32.f32 v, [image, v]",
    "tex.2d.v4.f32.f32 {%f, %f, %f, %f}|%p, [%d, {%f, %f}], {%r, %r}, %f",
    "tex.2d.v4.f32.f32 {%f, %f, %f, %f}, [%d, {%f, %f}], %f",
    "tex.2d.v4.f32.f32 {%f, %f, %f, %f}, [%d, %d, {%f, %f}]",
    "tex.cube.v4.f32.f32 v, [%d, v]",
    "tex.2dms.v4.f32.s32 v, [%d, v]",
    "tld4.g.cube.v4.f32.f32 v, [%d, v]",
    "txq.width.b32 %r, [image]",
    "sust.p.1d.v4.b32.trap [surface, {%r}], {%r, %r, %r, %r}",
    "sured.b.add.2d.u32.trap [%d, {%r, %r}], %r",
    "suq.width.b32 %r, [surface]",
    "wgmma.fence.sync.aligned",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 v, %d, %d, %p, 1, -1, 0, 0",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r], 32",
    "tcgen05.ld.sync.aligned.16x64b.x2.b32 {%r, %r}, [%r]",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r], [%d], %r, [%r]",
    "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
     [%r], [%d, {%r, %r, %r}], [%r], {%h}",
    "cp.async.bulk.prefetch.tensor.1d.L2.global [%d, {%r}]",
    "tensormap.replace.tile.box_dim.global.b1024.b32 [%d], 1, %r",
    "prefetch.param.tensormap [%d]",
    "fence.proxy.tensormap::generic.acquire.gpu [%d], 128",
    "multimem.st.relaxed.sys.global.v4.f32 [%d], v",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r], %r, [%r]",
];

#[test]
fn what_the_device_has_not_got_is_parsed_and_refused_in_words() {
    for form in UNSUPPORTED {
        let source = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n
             .global .texref image = {{ width = 4, normalized_coords = 1 }};
             .global .surfref surface;
             .entry k(.param .texref t, .param .surfref s) {{
             .reg .v4 .f32 v; .reg .f32 %f; .reg .b16 %h; .reg .b32 %r; .reg .b64 %d; .reg .pred %p;
             {form};\nret; }}"
        );
        ptx::ModuleInfo::parse(source.as_bytes()).unwrap_or_else(|e| panic!("{form}: {e}"));
        let Err(error) = Program::build(&source) else {
            panic!("{form} is accepted");
        };
        let text = error.to_string();
        assert!(text.contains("not supported"), "{form}: {text}");
    }
}
