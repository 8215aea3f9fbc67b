//! Entries of a warp's code from the interpreter; registers that must go in steps are checked.

use super::blocks::Piece;
use super::{Region, ending, on_stack};
use crate::decode::form::Bank;
use crate::native::assembler::{
    Cc, RAX, RBP, RCX, Rm, VMOVMSKPS, VPADDD, VPADDQ, VPAND, VPCMPEQD, Ymm,
};
use crate::native::def_use::Var;
use std::collections::HashSet;

impl Region<'_> {
    /// The entry at a piece. Registers of the warp's place are not checked.
    pub(super) fn entry(&mut self, piece: &Piece, places: &HashSet<Var>) {
        let frame = self.lower.reserve();
        self.frames.push(frame);
        self.begun = piece.start;
        let refused = self.exit(ending::LEFT, piece.start, Vec::new());
        let (value, sum, all) = (Ymm(0), Ymm(1), Ymm(2));
        let mut looked = false;
        for var in &piece.scalars {
            let Some(step) = self.classes.step(*var) else {
                continue;
            };
            let place = on_stack(self.homes[var]);
            if var.bank() == Bank::Pred {
                let asm = self.asm();
                asm.g(false, 0x8b, RAX.0, Rm::At(RBP, var.1 as i32 * 4));
                asm.g(false, 0x89, RAX.0, place);
                asm.lea(RCX, RAX, 1);
                asm.with(false, 7, RCX, 1);
                asm.jump_if(Cc::Above, refused);
                continue;
            }
            let wide = var.bank() == Bank::Double;
            let values = &mut self.lower.values;
            values.group = 0;
            let first = values.place(*var, 0);
            values.asm.g(wide, 0x8b, RAX.0, first);
            values.asm.g(wide, 0x89, RAX.0, place);
            if places.contains(var) {
                continue;
            }
            if !looked {
                values.asm.v3(VPCMPEQD, all, all, all);
                looked = true;
            }
            values.spread(value, var.bank(), 0, (place, 0));
            for group in 0..4 {
                values.group = group;
                for half in 0..if wide { 2 } else { 1 } {
                    let home = values.place(*var, half);
                    let mut expected = value;
                    if step != 0 {
                        let steps = values.steps(var.bank(), half, step);
                        let add = if wide { VPADDQ } else { VPADDD };
                        values.asm.v3(add, sum, value, steps);
                        expected = sum;
                    }
                    values.asm.v3(VPCMPEQD, sum, expected, home);
                    values.asm.v3(VPAND, all, all, sum);
                }
            }
            values.group = 0;
        }
        let label = self.labels[&piece.start];
        let asm = self.asm();
        if looked {
            asm.movmsk(VMOVMSKPS, RAX, all);
            asm.with(false, 7, RAX, 255);
            asm.jump_if(Cc::NotEqual, refused);
        }
        asm.jump(label);
    }
}
