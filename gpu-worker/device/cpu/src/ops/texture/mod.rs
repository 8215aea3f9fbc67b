//! Textures and surfaces: lookups, loads and stores through objects.
//!
//! An object is a descriptor in the session's memory, and its handle is the address. The descriptor
//! and the memory that it points to are accessed like a kernel's own loads and stores. Every access
//! is checked, so that no descriptor can reach anything else.

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
        // SAFETY: forwarded from the caller.
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
