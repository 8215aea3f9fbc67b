//! The modifiers that go with each opcode and type.

use ptx::Scalar;

/// The modifiers of an opcode for a type; none if it does not support the type.
pub(super) fn modifiers(head: &str, ty: Scalar) -> Option<&'static [&'static str]> {
    use Scalar::{Bf16, Bf16x2, F16, F16x2, F32, F64, S16, S16x2, S32, S64, U16, U16x2, U32, U64};
    let rounds: &[&str] = &["rn", "rz", "rm", "rp"];
    Some(match (head, ty) {
        ("add" | "sub", S32) => &["sat"],
        ("add" | "sub" | "div" | "min" | "max", U16 | U32 | U64 | S16 | S64) => &[],
        ("div", S32) => &[],
        ("min" | "max", S32 | S16x2) => &["relu"],
        ("add" | "min" | "max", U16x2 | S16x2) => &[],
        ("mad", S32) => &["lo", "hi", "wide", "sat"],
        ("mul" | "mad", U16 | U32 | S16 | S32) => &["lo", "hi", "wide"],
        ("mul" | "mad", U64 | S64) => &["lo", "hi"],
        ("abs" | "neg", S16 | S32 | S64) => &[],
        ("add" | "sub" | "mul" | "fma" | "mad", F32) => &["rn", "rz", "rm", "rp", "ftz", "sat"],
        ("add" | "sub" | "mul" | "fma" | "mad" | "div", F64) => rounds,
        ("add" | "sub" | "mul", F16 | F16x2) => &["rn", "ftz", "sat"],
        ("add" | "sub" | "mul", Bf16 | Bf16x2) => &["rn"],
        ("fma", F16 | F16x2) => &["rn", "ftz", "sat", "relu"],
        ("fma", Bf16 | Bf16x2) => &["rn", "relu"],
        ("div", F32) => &["rn", "rz", "rm", "rp", "approx", "full", "ftz"],
        ("min" | "max", F32 | F16 | F16x2) => &["ftz", "NaN", "xorsign", "abs"],
        ("min" | "max", Bf16 | Bf16x2) => &["NaN", "xorsign", "abs"],
        ("min" | "max" | "abs" | "neg", F64) => &[],
        ("abs" | "neg", F32 | F16 | F16x2) => &["ftz"],
        ("abs" | "neg", Bf16 | Bf16x2) => &[],
        ("rcp" | "sqrt", F32) => &["rn", "rz", "rm", "rp", "approx", "ftz"],
        ("rcp", F64) => &["rn", "rz", "rm", "rp", "approx", "ftz"],
        ("sqrt", F64) => rounds,
        ("rsqrt", F32 | F64) | ("ex2" | "lg2" | "sin" | "cos", F32) => &["approx", "ftz"],
        ("ex2", F16 | F16x2 | Bf16 | Bf16x2) => &["approx", "ftz"],
        ("tanh", F32 | F16 | F16x2 | Bf16 | Bf16x2) => &["approx"],
        ("copysign", F32 | F64) => &[],
        _ => return None,
    })
}

/// The modifiers of an opcode for integers or bits, whatever the type.
pub(super) fn of_integers(head: &str) -> &'static [&'static str] {
    match head {
        "mul24" => &["lo", "hi"],
        "mad24" => &["lo", "hi", "sat"],
        "dp2a" => &["lo", "hi"],
        "lop3" => &["and", "or"],
        "bfind" => &["shiftamt"],
        "shf" => &["l", "r", "wrap", "clamp"],
        "bmsk" | "szext" => &["wrap", "clamp"],
        "prmt" => &["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"],
        _ => &[],
    }
}
