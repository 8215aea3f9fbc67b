//! The vector instruction of a logical operation on masks.

use crate::decode::form::Logic;
use crate::native::assembler::{VANDPS, VORPS, VXORPS, Vex};

pub(super) fn join(logic: Logic) -> Option<Vex> {
    match logic {
        Logic::And => Some(VANDPS),
        Logic::Or => Some(VORPS),
        Logic::Xor => Some(VXORPS),
        Logic::Not | Logic::Copy => None,
    }
}
