//! Queries of textures and surfaces: their sizes, formats and kinds.

use super::address;
use super::objects::Objects;
use crate::decode::form::{Asked, Inst};
use crate::engine::context::Context;
use crate::lane_loop::{source, store};
use crate::lane_value::LANES;
use bus_schemas::{AddressMode, Channel, TEXTURE_BYTES, Texture, TextureShape};
use std::ptr;

/// Answer of an object, in the ISA's numbers, which come from OpenCL.
fn answer(texture: &Texture, asked: Asked) -> u32 {
    let layered = texture.shape == TextureShape::Layered;
    match asked {
        Asked::Width => texture.width,
        Asked::Height => texture.height,
        Asked::Depth if layered => 0,
        Asked::Depth => texture.depth,
        Asked::Layers if layered => address::layers(texture),
        Asked::Layers | Asked::Never => 0,
        Asked::One => 1,
        Asked::ChannelType => channel_type(texture),
        Asked::ChannelOrder => match texture.channels {
            1 => 0x10b0,
            2 => 0x10b2,
            _ => 0x10b5,
        },
        Asked::Normalized => u32::from(texture.normalized),
        Asked::Filter => u32::from(texture.linear),
        Asked::Mode(axis) => match texture.modes[usize::from(axis) % 3] {
            AddressMode::Wrap => 0,
            AddressMode::Mirror => 1,
            AddressMode::Clamp => 3,
            AddressMode::Border => 4,
        },
        Asked::Linear => u32::from(matches!(
            texture.shape,
            TextureShape::Linear | TextureShape::Pitched
        )),
    }
}

fn channel_type(texture: &Texture) -> u32 {
    let wider = match texture.bits {
        8 => 0,
        16 => 1,
        _ => 2,
    };
    let scaled = texture.normalized_read && texture.bits < 32;
    match texture.channel {
        Channel::Float if texture.bits == 16 => 0x10dd,
        Channel::Float => 0x10de,
        Channel::Signed if scaled => 0x10d0 + wider,
        Channel::Unsigned if scaled => 0x10d2 + wider,
        Channel::Signed => 0x10d7 + wider,
        Channel::Unsigned => 0x10da + wider,
    }
}

/// Answers the lanes of a mask.
///
/// # Safety
/// As [`crate::lane_loop::Kernel::run`].
pub(super) unsafe fn ask(
    cx: &mut Context<'_>,
    inst: &Inst,
    (asked, surface): (Asked, bool),
    mask: u32,
) -> bool {
    // SAFETY: the caller vouches for the slot.
    let handles = unsafe { source::<u64>(cx, inst.slots[1]) };
    let mut objects = Objects::default();
    let mut row = [0; LANES];
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let Some(texture) = objects.find(cx, handles[lane], surface, lane as u32) else {
            return false;
        };
        row[lane] = answer(&texture, asked);
    }
    // SAFETY: the caller vouches for the slot.
    unsafe { store(cx, inst.slots[0], mask, &row) };
    true
}

/// Tests handles: true for those of textures, of surfaces, or of neither.
///
/// # Safety
/// As [`crate::lane_loop::Kernel::run`].
pub(super) unsafe fn is_object(
    cx: &mut Context<'_>,
    inst: &Inst,
    surface: Option<bool>,
    mask: u32,
) -> bool {
    // SAFETY: the caller vouches for the slot.
    let handles = unsafe { source::<u64>(cx, inst.slots[1]) };
    let mut held = 0;
    for (lane, handle) in handles.iter().enumerate() {
        let live = cx.memory.find(*handle, TEXTURE_BYTES as u64).is_some();
        if mask >> lane & 1 == 0 || !live {
            continue;
        }
        let at = handle.wrapping_add(cx.delta) as *const u8;
        // SAFETY: these bytes are within a live allocation.
        let bytes = unsafe { ptr::read_unaligned(at.cast::<[u8; TEXTURE_BYTES]>()) };
        let is = Texture::read(&bytes).map(|texture| texture.surface);
        held |= u32::from(is.is_some() && is == surface) << lane;
    }
    // SAFETY: the caller vouches for the slot.
    unsafe { cx.set_pred(inst.slots[0], mask, held) };
    true
}
