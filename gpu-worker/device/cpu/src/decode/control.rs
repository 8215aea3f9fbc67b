//! Dispatch of an instruction to its family; and control flow.

use super::form::Op;
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{FunctionKind, Instruction, Operand, Scalar};

impl<'a> Body<'_, 'a> {
    /// Rejects instructions that this device does not support, whatever their operands are.
    fn possible(&self, i: &Instruction<'a>) -> Result<()> {
        let head = i.opcode.split('.').next().unwrap_or_default();
        let why = match head {
            "tex" | "tld4" | "txq" | "suld" | "sust" | "suq" | "istypep" => return Ok(()),
            "sured" => "this device has no reductions on surfaces",
            "wgmma" | "tcgen05" => "this device has no asynchronous matrix products",
            _ if i.opcode.contains("tensormap") => "this device has no tensor maps",
            _ => {
                let coordinates = |operand: &Operand<'_>| {
                    matches!(operand, Operand::Coordinates(..) | Operand::VectorPair(..))
                };
                if !i.operands.iter().any(coordinates) {
                    return Ok(());
                }
                "this device has no tensor maps"
            }
        };
        self.fail(format!("`{}` is not supported: {why}", i.opcode))
    }

    /// Decodes one instruction.
    pub(super) fn instruction(&mut self, i: &Instruction<'a>) -> Result<()> {
        let spelt = self.spelt_out(i);
        let i = spelt.as_ref().unwrap_or(i);
        self.possible(i)?;
        let mut parts = Parts::new(i);
        let first = self.builder.out.code.len();
        let known = self.arithmetic(i, &mut parts)?
            || self.video(i, &mut parts)?
            || self.stack(i, &mut parts)?
            || self.data(i, &mut parts)?
            || self.control(i, &mut parts)?
            || self.atomics(i, &mut parts)?
            || self.matrix(i, &mut parts)?
            || self.copies(i, &mut parts)?
            || self.textures(i, &mut parts)?
            || self.warp_wide(i, &mut parts)?;
        if !known {
            return self.fail(format!("instruction `{}` is not supported", i.opcode));
        }
        if let Some(part) = parts.rest() {
            return self.fail(format!("`.{part}` of `{}` is not supported", i.opcode));
        }
        for at in first..self.builder.out.code.len() {
            if !crate::engine::code::runs(self.builder.out.code[at].op) {
                return self.fail(format!("`{}` is not supported for this type", i.opcode));
            }
        }
        Ok(())
    }

    fn control(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        if matches!(parts.head, "bra" | "brx" | "call" | "ret") {
            parts.take("uni");
        }
        match parts.head {
            "bra" => {
                let operands = self.exactly(i, 1)?;
                let Operand::Name(label) = operands[0] else {
                    return self.fail("`bra` takes a label");
                };
                let at = self.emit(Op::Branch, &[]);
                self.jumps.to(at, label, i.position);
            }
            "brx" => {
                parts.take("idx");
                let operands = self.exactly(i, 2)?;
                let Operand::Name(list) = operands[1] else {
                    return self.fail("`brx.idx` takes a list of targets");
                };
                let index = self.source(&operands[0], Scalar::U32)?;
                let at = self.emit(Op::BranchIndex, &[index]);
                self.jumps.by(at, list, i.position);
            }
            "call" => self.call(i)?,
            "ret" => {
                let entry = self.kind == FunctionKind::Entry;
                self.emit(if entry { Op::Exit } else { Op::Return }, &[]);
            }
            "exit" => {
                self.emit(Op::Exit, &[]);
            }
            "trap" => {
                self.emit(Op::Trap, &[]);
            }
            "brkpt" => {
                self.emit_with(Op::Trap, &[], 1);
            }
            "pmevent" => {
                parts.take("mask");
                self.emit(Op::Nothing, &[]);
            }
            "nanosleep" => {
                parts.ty();
                self.emit(Op::Yield, &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
