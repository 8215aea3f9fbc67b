//! Code that detects the pattern of a register's eight addresses, once for every access through it.

use super::Lower;
use crate::decode::form::Place;
use crate::native::access::{Access, Stub};
use crate::native::address_pattern::{
    AddressPattern, CONTIGUOUS, SAME, around, bounds, mark, scatter, site,
};
use crate::native::assembler::{
    Assembler, Cc, R8, RAX, RBX, RCX, RDI, RDX, RSI, RSP, Rm, VMOVMSKPD, VMOVMSKPS, VPADDD, VPADDQ,
    VPAND, VPBROADCASTD, VPCMPEQD, VPCMPEQQ, Vex, Ymm,
};
use crate::native::extent::{Extent, extents};
use crate::native::support;

impl Lower<'_> {
    /// The shape of an address register; emits its check if there is none yet.
    pub(super) fn shape(&mut self, index: usize, it: Access) -> AddressPattern {
        let (var, stride) = (it.var(&self.code[index]), it.stride());
        let id = self.values.of(var);
        let imm = self.code[index].imm;
        let same = |shape: &&AddressPattern| {
            (shape.id, shape.stride, shape.place) == (id, stride, it.place)
                && (shape.least..=shape.most - stride).contains(&imm)
                && (shape.write || !it.write)
        };
        if let Some(shape) = self.shapes.iter().find(same) {
            return *shape;
        }
        let Extent { least, most, write } = self.reach(index, it);
        let shape = AddressPattern {
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

    /// Range of the accesses through this one's register from here on.
    fn reach(&mut self, index: usize, it: Access) -> Extent {
        if self.extents.is_empty() {
            self.extents = extents(self.code, false);
        }
        let inst = &self.code[index];
        self.extents[index].unwrap_or(Extent {
            least: inst.imm,
            most: inst.imm + it.stride(),
            write: it.write,
        })
    }

    /// Emits the check.
    fn look(&mut self, shape: AddressPattern, wide: bool) {
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
        in_steps(asm, shape.stride, (low, high), (a, b));
        asm.jump_if(Cc::NotEqual, other);
        asm.bind(retry);
        let span = shape.most - shape.least;
        let all = span + 7 * shape.stride;
        bounds(asm, shape, all, (misaligned, miss), wide);
        mark(asm, shape, CONTIGUOUS);
        asm.bind(done);
        self.values.release(a);
        self.values.release(b);
        let (live, save) = (self.values.busy(), self.save_at);
        let miss_same = self.values.asm.label();
        self.stubs.push(Stub {
            entry: other,
            emit: Box::new(move |asm| {
                all_same(asm, (low, high), (a, b));
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
        for (entry, back, len) in [(miss, retry, all), (miss_same, same, span)] {
            let live = live.clone();
            self.stubs.push(Stub {
                entry,
                emit: Box::new(move |asm| {
                    if shape.place == Place::Shared {
                        return asm.jump(misaligned);
                    }
                    find(asm, shape, len, (save, &live));
                    asm.jump_if(Cc::NotEqual, back);
                    asm.jump(misaligned);
                }),
            });
        }
    }
}

/// Compares eight addresses with the first one and steps from it; sets "equal" if they match. The
/// first is in rax afterwards.
fn in_steps(asm: &mut Assembler, stride: i64, (low, high): (Ymm, Option<Ymm>), (a, b): (Ymm, Ymm)) {
    let step = |lane: i64| (lane * stride) as u32;
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
}

/// Compares eight addresses with the first one; sets "equal" if all are the same.
fn all_same(asm: &mut Assembler, (low, high): (Ymm, Option<Ymm>), (a, b): (Ymm, Ymm)) {
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
}

/// Searches the allocation that contains the range from the first address in rax, which is
/// preserved. Sets "not equal" if there is one; the shape's site then has it.
fn find(asm: &mut Assembler, shape: AddressPattern, len: i64, (save, live): (i32, &[Ymm])) {
    asm.save(Rm::At(RSP, 8), RAX);
    around(asm, save, live, |asm| {
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
}
