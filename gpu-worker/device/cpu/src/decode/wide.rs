//! Registers of 128 bits: pairs of 64.

use super::form::{Op, Slot};
use super::operand::{Body, Named};
use crate::error::BuildError;
use ptx::{Instruction, Operand, Scalar, Space};

type Result<T> = std::result::Result<T, BuildError>;

impl<'a> Body<'_, 'a> {
    /// The halves of a register of 128 bits.
    pub(super) fn halves(&mut self, operand: &Operand<'a>) -> Result<[Slot; 2]> {
        match *operand {
            Operand::Name(name) => match self.find(name) {
                Some(Named::Wide(halves)) => Ok(halves),
                _ => self.fail(format!("`{name}` is not a register of 128 bits")),
            },
            _ => self.fail("a register of 128 bits is wanted here"),
        }
    }

    pub(super) fn move_wide(&mut self, to: &Operand<'a>, from: &Operand<'a>) -> Result<()> {
        let half = Scalar::B64;
        let (to, from) = match (to, from) {
            (Operand::Vector(list), from) if list.len() == 2 => {
                let from = self.halves(from)?;
                (
                    [self.target(&list[0], half)?, self.target(&list[1], half)?],
                    from,
                )
            }
            (to, Operand::Vector(list)) if list.len() == 2 => {
                let from = [self.source(&list[0], half)?, self.source(&list[1], half)?];
                (self.halves(to)?, from)
            }
            (to, from) => (self.halves(to)?, self.halves(from)?),
        };
        self.emit(Op::Move64, &[to[0], from[0]]);
        self.emit(Op::Move64, &[to[1], from[1]]);
        Ok(())
    }

    /// A register of 128 bits is loaded as two of 64, at the alignment of the whole.
    pub(super) fn load_wide(
        &mut self,
        i: &Instruction<'a>,
        space: Option<Space>,
        ordered: bool,
    ) -> Result<()> {
        let [low, high] = self.halves(&i.operands[0])?;
        let address = self.address(i.operands.get(1))?;
        if let Some(name) = address.base
            && let Some(Named::Param(at)) = self.find(name)
        {
            let at = i64::from(at).wrapping_add(address.offset);
            for (slot, at) in [(low, at), (high, at.wrapping_add(8))] {
                let from = self.param(Scalar::B64, at)?;
                self.emit(Op::Move64, &[slot, from]);
            }
            return Ok(());
        }
        let spot = self.spot(address, space)?;
        let op = Op::Load {
            place: spot.place,
            ty: Scalar::B64,
            lanes: 2,
            wide: spot.wide,
        };
        self.emit_with(op, &[spot.slot, low, high], spot.offset);
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        Ok(())
    }
}
