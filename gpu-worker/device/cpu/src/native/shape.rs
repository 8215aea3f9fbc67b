//! How the eight addresses of a register lie, and the check of their bounds.

use super::access::{Access, Stub};
use super::assembler::{
    Assembler, Cc, Label, R8, RAX, RBX, RCX, RDI, RDX, RSI, RSP, Rm, VMOVMSKPD, VMOVMSKPS, VMOVUPS,
    VMOVUPS_TO, VPADDD, VPADDQ, VPAND, VPBROADCASTD, VPCMPEQD, VPCMPEQQ, Vex, Ymm,
};
use super::lower::Lower;
use super::roles::roles;
use super::support::{self, SITES, Site};
use super::values::Id;
use crate::decode::form::Place;
use crate::engine::context::Context;
use std::mem::offset_of;

/// How eight addresses lie, as the flag in a shape's second word.
pub(super) const CONTIGUOUS: u8 = 1;
pub(super) const SAME: u8 = 2;

/// Where a register's addresses were looked at: host address and flag on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) id: Id,
    pub(super) stride: i64,
    /// Offset of the lowest access.
    pub(super) least: i64,
    /// Offset of the last byte.
    pub(super) most: i64,
    pub(super) write: bool,
    pub(super) place: Place,
    /// Counts the shapes: which site is looked at.
    pub(super) number: usize,
    pub(super) at: i32,
}

pub(super) fn field(offset: usize) -> Rm {
    Rm::At(RBX, offset as i32)
}

/// Marks a shape as one to be taken lane by lane.
fn scatter(asm: &mut Assembler, shape: Shape) {
    asm.code.extend([0xc6, 0x84, 0x24]);
    asm.code.extend((shape.at + 8).to_le_bytes());
    asm.code.push(0);
}

fn mark(asm: &mut Assembler, shape: Shape, flag: u8) {
    asm.save(Rm::At(RSP, shape.at), RCX);
    asm.code.extend([0xc6, 0x84, 0x24]);
    asm.code.extend((shape.at + 8).to_le_bytes());
    asm.code.push(flag);
}

/// From the first address in rax: checks the range, leaves the host address in rcx.
pub(super) fn bounds(
    asm: &mut Assembler,
    shape: Shape,
    len: i64,
    (misaligned, miss): (Label, Label),
    wide: bool,
) {
    if wide {
        asm.lea(RCX, RAX, shape.least as i32);
    } else {
        // Addresses of 32 bits wrap at 32 bits.
        asm.g(false, 0x8b, RCX.0, RAX);
        asm.with(false, 0, RCX, shape.least as i32);
    }
    let checked = !cfg!(unchecked_access);
    if checked && shape.stride > 1 {
        asm.code.extend([0xf6, 0xc1, shape.stride as u8 - 1]);
        asm.jump_if(Cc::NotEqual, misaligned);
    }
    let (limit, base) = if shape.place == Place::Shared {
        (
            offset_of!(Context<'_>, shared_len),
            offset_of!(Context<'_>, shared),
        )
    } else {
        let site = offset_of!(Context<'_>, sites) + site(shape) * size_of::<Site>();
        (
            site + offset_of!(Site, span),
            offset_of!(Context<'_>, delta),
        )
    };
    if checked {
        asm.load(RDX, field(limit));
        if shape.place == Place::Shared {
            asm.g(true, 0x2b, RDX.0, RCX);
        } else {
            asm.load(RSI, RCX);
            asm.g(true, 0x2b, RSI.0, field(limit - offset_of!(Site, span)));
            asm.g(true, 0x2b, RDX.0, RSI);
        }
        asm.jump_if(Cc::Below, miss);
        asm.with(true, 7, RDX, len as i32);
        asm.jump_if(Cc::Below, miss);
    }
    asm.g(true, 0x03, RCX.0, field(base));
}

/// Stores have sites of their own: an allocation noted for a load may be one not to be written.
pub(super) fn site(shape: Shape) -> usize {
    shape.number % (SITES / 2) + if shape.write { SITES / 2 } else { 0 }
}

/// Saves registers, calls, restores them; arguments are set in between.
pub(super) fn around(
    asm: &mut Assembler,
    save: i32,
    live: &[Ymm],
    call: impl FnOnce(&mut Assembler),
) {
    for (at, register) in live.iter().enumerate() {
        asm.v2(VMOVUPS_TO, *register, Rm::At(RSP, save + 32 * at as i32));
    }
    // The callee may be code without AVX.
    asm.code.extend([0xc5, 0xf8, 0x77]);
    call(asm);
    for (at, register) in live.iter().enumerate() {
        asm.v2(VMOVUPS, *register, Rm::At(RSP, save + 32 * at as i32));
    }
}

impl Lower<'_> {
    /// The shape of an address register, looked at here if it was not before.
    pub(super) fn shape(&mut self, index: usize, it: Access) -> Shape {
        let (var, stride) = (it.var(&self.code[index]), it.stride());
        let id = self.values.of(var);
        let imm = self.code[index].imm;
        let same = |shape: &&Shape| {
            (shape.id, shape.stride, shape.place) == (id, stride, it.place)
                && (shape.least..=shape.most - stride).contains(&imm)
                && (shape.write || !it.write)
        };
        if let Some(shape) = self.shapes.iter().find(same) {
            return *shape;
        }
        let (mut least, mut most, mut write) = (i64::MAX, i64::MIN, false);
        for inst in &self.code[index..] {
            if let Some(other) = Access::of(inst)
                && (other.var(inst), other.stride(), other.place) == (var, stride, it.place)
            {
                least = least.min(inst.imm);
                most = most.max(inst.imm + stride);
                write |= other.write;
            }
            if roles(inst).is_none_or(|roles| roles.writes.contains(&var)) {
                break;
            }
        }
        let shape = Shape {
            id,
            stride,
            least,
            most,
            write,
            place: it.place,
            number: self.shapes.len(),
            at: self.shape_at + 16 * self.shapes.len() as i32,
        };
        self.shapes.push(shape);
        self.look(shape, it.wide);
        shape
    }

    fn look(&mut self, shape: Shape, wide: bool) {
        let low = self.values.get(shape.id, 0);
        let high = if wide {
            Some(self.values.get(shape.id, 1))
        } else {
            None
        };
        let (a, b) = (self.values.fresh(), self.values.fresh());
        let asm = &mut self.values.asm;
        let (other, same, misaligned) = (asm.label(), asm.label(), asm.label());
        let (miss, retry, done) = (asm.label(), asm.label(), asm.label());
        let step = |lane: i64| (lane * shape.stride) as u32;
        if let Some(high) = high {
            asm.movq(RAX, low);
            let first = asm.constant([step(0), 0, step(1), 0, step(2), 0, step(3), 0]);
            let second = asm.constant([step(4), 0, step(5), 0, step(6), 0, step(7), 0]);
            asm.v2(Vex(1, 2, 0, 0x59), a, low);
            asm.v3(VPADDQ, b, a, first);
            asm.v3(VPCMPEQQ, b, b, low);
            asm.v3(VPADDQ, a, a, second);
            asm.v3(VPCMPEQQ, a, a, high);
            asm.v3(VPAND, a, a, b);
            asm.movmsk(VMOVMSKPD, RCX, a);
            asm.with(false, 7, RCX, 15);
        } else {
            asm.movd(RAX, low);
            let steps = asm.constant(std::array::from_fn(|lane| step(lane as i64)));
            asm.v2(VPBROADCASTD, a, low);
            asm.v3(VPADDD, a, a, steps);
            asm.v3(VPCMPEQD, a, a, low);
            asm.movmsk(VMOVMSKPS, RCX, a);
            asm.with(false, 7, RCX, 255);
        }
        asm.jump_if(Cc::NotEqual, other);
        asm.bind(retry);
        let span = shape.most - shape.least;
        bounds(
            asm,
            shape,
            span + 7 * shape.stride,
            (misaligned, miss),
            wide,
        );
        mark(asm, shape, CONTIGUOUS);
        asm.bind(done);
        self.values.release(a);
        self.values.release(b);
        let (live, save) = (self.values.busy(), self.save_at);
        let miss_same = self.values.asm.label();
        self.stubs.push(Stub {
            entry: other,
            emit: Box::new(move |asm| {
                if let Some(high) = high {
                    asm.v2(Vex(1, 2, 0, 0x59), a, low);
                    asm.v3(VPCMPEQQ, b, a, low);
                    asm.v3(VPCMPEQQ, a, a, high);
                    asm.v3(VPAND, a, a, b);
                    asm.movmsk(VMOVMSKPD, RCX, a);
                    asm.with(false, 7, RCX, 15);
                } else {
                    asm.v2(VPBROADCASTD, a, low);
                    asm.v3(VPCMPEQD, a, a, low);
                    asm.movmsk(VMOVMSKPS, RCX, a);
                    asm.with(false, 7, RCX, 255);
                }
                asm.jump_if(Cc::NotEqual, misaligned);
                asm.bind(same);
                bounds(asm, shape, span, (misaligned, miss_same), wide);
                mark(asm, shape, SAME);
                asm.jump(done);
                asm.bind(misaligned);
                scatter(asm, shape);
                asm.jump(done);
            }),
        });
        for (entry, back, len) in [
            (miss, retry, span + 7 * shape.stride),
            (miss_same, same, span),
        ] {
            let live = live.clone();
            self.stubs.push(Stub {
                entry,
                emit: Box::new(move |asm| {
                    if shape.place == Place::Shared {
                        return asm.jump(misaligned);
                    }
                    asm.save(Rm::At(RSP, 8), RAX);
                    around(asm, save, &live, |asm| {
                        asm.load(RDI, RBX);
                        asm.lea(RDX, RAX, shape.least as i32);
                        asm.set(RSI, site(shape) as u64);
                        asm.set(RCX, len as u64);
                        asm.set(R8, u64::from(shape.write));
                        asm.set(RAX, support::find as *const () as u64);
                        asm.call(RAX);
                    });
                    asm.code.extend([0x85, 0xc0]);
                    asm.load(RAX, Rm::At(RSP, 8));
                    asm.jump_if(Cc::NotEqual, back);
                    asm.jump(misaligned);
                }),
            });
        }
    }
}
