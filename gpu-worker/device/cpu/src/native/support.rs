//! Functions that generated code calls if its own fast paths do not apply.

#![expect(unsafe_code, reason = "called from generated code with raw pointers")]

use super::access::Access;
use super::site::{SITES, Site};
use crate::decode::form::Inst;
use crate::engine::context::Context;
use crate::memory::Live;
use std::ptr;

/// Bytes of scratch: eight addresses, then the values, part by part.
pub(super) const VALUES: i32 = 64;
pub(super) const SCRATCH: i32 = 192;

/// Runs eight lanes of a load or store one by one; 0 after a fault.
///
/// # Safety
/// The context is that of the running warp, the instruction a load or store, and the scratch holds
/// addresses and values as laid out above.
pub(super) unsafe extern "sysv64" fn access(
    cx: *mut Context<'_>,
    inst: *const Inst,
    group: u64,
    lanes: u32,
    scratch: *mut u8,
) -> u32 {
    // SAFETY: the caller vouches for all pointers.
    let (cx, inst) = unsafe { (&mut *cx, &*inst) };
    let Some(Access {
        place,
        ty,
        parts,
        wide,
        write,
    }) = Access::of(inst)
    else {
        return 0;
    };
    let bytes = ty.size() as usize;
    let size = ty.size() * parts as u64;
    for lane in (0..8).filter(|lane| lanes >> lane & 1 != 0) {
        // SAFETY: the scratch has room for eight lanes; each access follows its check.
        unsafe {
            let address = if wide {
                (*scratch.cast::<u64>().add(lane)).wrapping_add(inst.imm as u64)
            } else {
                u64::from((*scratch.cast::<u32>().add(lane)).wrapping_add(inst.imm as u32))
            };
            let index = group as u32 * 8 + lane as u32;
            let Some(at) = cx.resolve(place, address, (size, size), write, index) else {
                return 0;
            };
            for part in 0..parts {
                let values = scratch.add(VALUES as usize);
                let value = if bytes == 8 {
                    values.add(8 * lane)
                } else {
                    values.add(32 * part + 4 * lane)
                };
                let there = at.add(part * bytes);
                if write {
                    ptr::copy_nonoverlapping(value, there, bytes);
                    continue;
                }
                match (bytes, ty.is_signed()) {
                    (1, false) => *value.cast::<u32>() = u32::from(*there),
                    (1, true) => *value.cast::<i32>() = i32::from(*there.cast::<i8>()),
                    (2, false) => {
                        *value.cast::<u32>() = u32::from(there.cast::<u16>().read_unaligned());
                    }
                    (2, true) => {
                        *value.cast::<i32>() = i32::from(there.cast::<i16>().read_unaligned());
                    }
                    _ => ptr::copy_nonoverlapping(there, value, bytes),
                }
            }
        }
    }
    1
}

/// Finds the allocation that contains a range and records it; 0 if none permits the access.
///
/// # Safety
/// The context is that of the running warp.
pub(super) unsafe extern "sysv64" fn find(
    cx: *mut Context<'_>,
    site: u64,
    address: u64,
    len: u64,
    write: u32,
) -> u32 {
    // SAFETY: the caller vouches for the context.
    let cx = unsafe { &mut *cx };
    let Some(Live {
        start,
        end,
        writable,
    }) = cx.memory.find(address, len)
    else {
        return 0;
    };
    if write != 0 && !writable {
        return 0;
    }
    cx.sites[site as usize % SITES] = Site {
        start,
        span: end - start,
    };
    1
}
