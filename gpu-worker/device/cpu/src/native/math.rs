//! Functions that the interpreter computes in f64, in the same steps.

use super::assembler::{
    Rm, VADDPD, VCMPPS, VCVTPD2PS, VCVTPS2PD, VEXTRACTF128, VINSERTF128, VMAXPD, VMINPD, VMOVAPS,
    VMULPD, VPADDQ, VSUBPD, Ymm,
};
use super::values::Values;

/// 1.5 * 2^52, as in `ops::math`.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

fn four(values: &mut Values, x: f64) -> Rm {
    let bits = x.to_bits();
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    values
        .asm
        .constant([low, high, low, high, low, high, low, high])
}

/// d = 2 to the a, as `ops::math::ex2`.
pub(super) fn ex2(values: &mut Values, d: Ymm, a: Ymm) {
    let (x, whole, p) = (values.fresh(), values.fresh(), values.fresh());
    let (most, least) = (four(values, 200.0), four(values, -200.0));
    let (rounder, ln2) = (four(values, ROUNDER), four(values, std::f64::consts::LN_2));
    let first = four(values, 1.0 / 3_628_800.0);
    let series = [
        362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0,
    ]
    .map(|c: f64| four(values, 1.0 / c));
    let asm = &mut values.asm;
    for half in 0..2 {
        if half == 0 {
            asm.v2(VCVTPS2PD, x, a);
        } else {
            asm.v2i_to(VEXTRACTF128, x, a, 1);
            asm.v2(VCVTPS2PD, x, x);
        }
        asm.v3(VMAXPD, x, x, least);
        asm.v3(VMINPD, x, x, most);
        // The shifted value stays in `p` until its bits are used as the exponent.
        asm.v3(VADDPD, whole, x, rounder);
        asm.v3(VSUBPD, p, whole, rounder);
        asm.v3(VSUBPD, x, x, p);
        asm.v3(VMULPD, x, x, ln2);
        asm.shift(0x73, 6, whole, whole, 52);
        asm.v2(VMOVAPS, p, first);
        for c in series {
            asm.v3(VMULPD, p, p, x);
            asm.v3(VADDPD, p, p, c);
        }
        asm.v3(VPADDQ, p, p, whole);
        asm.v2(VCVTPD2PS, p, p);
        if half == 0 {
            asm.v2(VMOVAPS, d, p);
        } else {
            asm.v3i(VINSERTF128, d, d, p, 1);
        }
    }
    // NaN stays NaN.
    asm.v3i(VCMPPS, whole, a, a, 3);
    asm.blend(d, d, a, whole);
    for register in [x, whole, p] {
        values.release(register);
    }
}
