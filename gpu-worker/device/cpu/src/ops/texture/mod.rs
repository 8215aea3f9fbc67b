//! Textures and surfaces: lookups, loads and stores through objects.
//!
//! An object is a descriptor in the session's memory, and its handle is where it lies. The
//! descriptor and what it points to are read and written as a kernel's own loads and stores are:
//! every access is checked, so that whatever a descriptor says reaches nothing else.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]

mod address;
mod lookup;
mod objects;
mod query;
mod sample;
mod surface;
mod texel;

use crate::decode::form::{Inst, Op};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick};

struct Textures;

impl Kernel for Textures {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: passed on.
        unsafe {
            match inst.op {
                Op::Sample(sample) => lookup::look_up(cx, inst, sample, mask),
                Op::Surface(surface) => surface::access(cx, inst, surface, mask),
                Op::Ask(asked, surface) => query::ask(cx, inst, (asked, surface), mask),
                Op::IsObject(surface) => query::is_object(cx, inst, surface, mask),
                _ => true,
            }
        }
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Sample(_) | Op::Surface(_) | Op::Ask(..) | Op::IsObject(_) => {
            Some(pick::<Textures>(isa))
        }
        _ => None,
    }
}
