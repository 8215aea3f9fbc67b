//! Directed rounding: through MXCSR with AVX2, in integers elsewhere.
//!
//! Rust assumes the default float environment. So setting the mode, the operation and restoring the
//! mode are one block of assembly.

#![expect(
    unsafe_code,
    reason = "assembly around MXCSR, lane loops over raw register files"
)]

use super::rules::{finish32, flush, payload};
use super::soft;
use crate::decode::form::{Float1, Float2, Inst, Mode, Op, Round, Slot};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::{LANES, Row};
use ptx::Scalar;

/// The supported operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    Rcp,
    Fma,
}

fn kind(op: Op) -> Option<(Kind, Mode)> {
    Some(match op {
        Op::Float2(Float2::Add, _, mode) => (Kind::Add, mode),
        Op::Float2(Float2::Sub, _, mode) => (Kind::Sub, mode),
        Op::Float2(Float2::Mul, _, mode) => (Kind::Mul, mode),
        Op::Float2(Float2::Div, _, mode) => (Kind::Div, mode),
        Op::Float1(Float1::Sqrt, _, mode) => (Kind::Sqrt, mode),
        Op::Float1(Float1::Rcp, _, mode) => (Kind::Rcp, mode),
        Op::Fma(_, mode, false) => (Kind::Fma, mode),
        _ => return None,
    })
}

fn soft_one(format: soft::Format, kind: Kind, a: u64, b: u64, c: u64, round: Round) -> u64 {
    let sign = if format == soft::F64 {
        1 << 63
    } else {
        1 << 31
    };
    let one = if format == soft::F64 {
        1_f64.to_bits()
    } else {
        u64::from(1_f32.to_bits())
    };
    match kind {
        Kind::Add => soft::add(format, a, b, round),
        Kind::Sub => soft::add(format, a, b ^ sign, round),
        Kind::Mul => soft::mul(format, a, b, round),
        Kind::Div => soft::div(format, a, b, round),
        Kind::Sqrt => soft::sqrt(format, a, round),
        Kind::Rcp => soft::div(format, one, a, round),
        Kind::Fma => soft::fma(format, a, b, c, round),
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use super::{Kind, Round};
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm256_loadu_pd, _mm256_loadu_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_storeu_pd,
        _mm256_storeu_ps,
    };

    /// All exceptions masked, flags clear, the rounding mode as given.
    const fn control(round: Round) -> u32 {
        0x1f80
            | match round {
                Round::Down => 1 << 13,
                Round::Up => 2 << 13,
                Round::Zero => 3 << 13,
                Round::Nearest | Round::Away => 0,
            }
    }

    macro_rules! under {
        ($control:expr, $a:ident, $b:expr, $text:literal) => {{
            let (new, old) = ($control, control(Round::Nearest));
            asm!(
                "ldmxcsr dword ptr [{new}]",
                $text,
                "ldmxcsr dword ptr [{old}]",
                new = in(reg) &raw const new,
                old = in(reg) &raw const old,
                a = inout(ymm_reg) $a,
                b = in(ymm_reg) $b,
                options(nostack, readonly, preserves_flags),
            );
        }};
    }

    macro_rules! groups {
        ($name:ident, $ty:ty, $width:literal, $load:ident, $save:ident, $set:ident,
         $add:literal, $sub:literal, $mul:literal, $div:literal, $sqrt:literal, $fma:literal) => {
            /// # Safety
            /// Needs AVX2 and FMA; the rows hold 32 lanes.
            #[target_feature(enable = "avx2,fma")]
            pub(super) unsafe fn $name(
                kind: Kind,
                round: Round,
                rows: [*const $ty; 3],
                out: *mut $ty,
            ) {
                let mode = control(round);
                for group in 0..32 / $width {
                    // SAFETY: each group is within its row; the blocks restore MXCSR.
                    unsafe {
                        let at = group * $width;
                        let mut a = $load(rows[0].add(at));
                        let b = $load(rows[1].add(at));
                        match kind {
                            Kind::Add => under!(mode, a, b, $add),
                            Kind::Sub => under!(mode, a, b, $sub),
                            Kind::Mul => under!(mode, a, b, $mul),
                            Kind::Div => under!(mode, a, b, $div),
                            Kind::Sqrt => under!(mode, a, b, $sqrt),
                            Kind::Rcp => {
                                let divisor = a;
                                a = $set(1.0);
                                under!(mode, a, divisor, $div);
                            }
                            Kind::Fma => {
                                let c = $load(rows[2].add(at));
                                let (new, old) = (mode, control(Round::Nearest));
                                asm!(
                                    "ldmxcsr dword ptr [{new}]",
                                    $fma,
                                    "ldmxcsr dword ptr [{old}]",
                                    new = in(reg) &raw const new,
                                    old = in(reg) &raw const old,
                                    a = inout(ymm_reg) a,
                                    b = in(ymm_reg) b,
                                    c = in(ymm_reg) c,
                                    options(nostack, readonly, preserves_flags),
                                );
                            }
                        }
                        $save(out.add(at), a);
                    }
                }
            }
        };
    }

    groups!(
        singles,
        f32,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        "vaddps {a}, {a}, {b}",
        "vsubps {a}, {a}, {b}",
        "vmulps {a}, {a}, {b}",
        "vdivps {a}, {a}, {b}",
        "vsqrtps {a}, {a} # {b}",
        "vfmadd213ps {a}, {b}, {c}"
    );
    groups!(
        doubles,
        f64,
        4,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        "vaddpd {a}, {a}, {b}",
        "vsubpd {a}, {a}, {b}",
        "vmulpd {a}, {a}, {b}",
        "vdivpd {a}, {a}, {b}",
        "vsqrtpd {a}, {a} # {b}",
        "vfmadd213pd {a}, {b}, {c}"
    );
}

/// f32 with ftz and sat.
struct Single;
/// f64.
struct Double;

/// The slots of up to three sources; missing ones repeat the first.
fn sources(inst: &Inst, kind: Kind) -> [Slot; 3] {
    let count = match kind {
        Kind::Sqrt | Kind::Rcp => 1,
        Kind::Fma => 3,
        _ => 2,
    };
    [0, 1, 2].map(|at| inst.slots[if at < count { at + 1 } else { 1 }])
}

impl Kernel for Single {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Some((kind, mode)) = kind(inst.op) else {
            return true;
        };
        let mut rows = [[0_f32; LANES]; 3];
        let mut out = [0_f32; LANES];
        // SAFETY: the caller vouches for the slots; `SIMD` for the features.
        unsafe {
            for (row, slot) in rows.iter_mut().zip(sources(inst, kind)) {
                let from = source::<u32>(cx, slot);
                for lane in 0..LANES {
                    let value = f32::from_bits(from[lane]);
                    row[lane] = if mode.ftz { flush(value) } else { value };
                }
            }
            #[cfg(target_arch = "x86_64")]
            if SIMD {
                let pointers = [rows[0].as_ptr(), rows[1].as_ptr(), rows[2].as_ptr()];
                vector::singles(kind, mode.round, pointers, out.as_mut_ptr());
            }
            if !SIMD {
                for lane in 0..LANES {
                    let [a, b, c] = [0, 1, 2].map(|at: usize| u64::from(rows[at][lane].to_bits()));
                    let bits = soft_one(soft::F32, kind, a, b, c, mode.round);
                    out[lane] = f32::from_bits(bits as u32);
                }
            }
            let row: Row<u32> = out.map(|value| finish32(value, mode.ftz, mode.sat).to_bits());
            store(cx, inst.slots[0], mask, &row);
        }
        true
    }
}

impl Kernel for Double {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Some((kind, mode)) = kind(inst.op) else {
            return true;
        };
        let mut out = [0_u64; LANES];
        // SAFETY: the caller vouches for the slots; `SIMD` for the features.
        unsafe {
            let rows = sources(inst, kind).map(|slot| source::<u64>(cx, slot));
            #[cfg(target_arch = "x86_64")]
            if SIMD {
                let pointers = rows.map(|row| row.as_ptr().cast());
                vector::doubles(kind, mode.round, pointers, out.as_mut_ptr().cast());
            }
            if !SIMD {
                for lane in 0..LANES {
                    let [a, b, c] = rows.map(|row| row[lane]);
                    out[lane] = soft_one(soft::F64, kind, a, b, c, mode.round);
                }
            }
            for lane in 0..LANES {
                let number = f64::from_bits(out[lane]);
                out[lane] = payload(number, rows.map(|row| f64::from_bits(row[lane])));
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// The loop for an operation with a rounding mode other than to nearest.
pub(super) fn handler(op: Op, ty: Scalar, isa: Isa) -> Option<Handler> {
    kind(op)?;
    match ty {
        Scalar::F32 => Some(pick::<Single>(isa)),
        Scalar::F64 => Some(pick::<Double>(isa)),
        _ => None,
    }
}
