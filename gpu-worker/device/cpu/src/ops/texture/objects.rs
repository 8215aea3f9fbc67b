//! Objects by their handles: descriptors in the session's memory, read with every check.

use super::texel;
use crate::decode::form::Place;
use crate::engine::context::Context;
use crate::error::FaultKind;
use bus_schemas::{TEXTURE_BYTES, Texture};
use std::ptr;

/// The objects that the lanes of an instruction name: usually one.
#[derive(Default)]
pub(super) struct Objects {
    last: Option<(u64, Texture)>,
}

impl Objects {
    /// The object of a handle; records a fault if there is none.
    pub(super) fn find(
        &mut self,
        cx: &mut Context<'_>,
        handle: u64,
        surface: bool,
        lane: u32,
    ) -> Option<Texture> {
        if let Some((known, texture)) = self.last
            && known == handle
        {
            return Some(texture);
        }
        let want = (TEXTURE_BYTES as u64, 1);
        let at = cx.resolve(Place::Global, handle, want, false, lane)?;
        // SAFETY: the check allows reading all of the descriptor.
        let bytes = unsafe { ptr::read_unaligned(at.cast::<[u8; TEXTURE_BYTES]>()) };
        let found = Texture::read(&bytes).filter(texel::exists);
        let (wrong, detail) = match found {
            Some(texture) if texture.surface == surface => {
                self.last = Some((handle, texture));
                return Some(texture);
            }
            Some(_) if surface => (handle, "a texture object where a surface object is wanted"),
            Some(_) => (handle, "a surface object where a texture object is wanted"),
            None if surface => (handle, "not the handle of a surface object"),
            None => (handle, "not the handle of a texture object"),
        };
        cx.note(FaultKind::IllegalAddress, Some(wrong), lane, detail);
        None
    }
}

/// Records that a descriptor leads to no valid address.
pub(super) fn nowhere(cx: &mut Context<'_>, handle: u64, lane: u32) {
    let detail = "the object's sizes lead beyond all addresses";
    cx.note(FaultKind::IllegalAddress, Some(handle), lane, detail);
}
