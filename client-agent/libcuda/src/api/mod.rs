//! The exported functions.

#![expect(
    unsafe_code,
    reason = "a C interface: pointers of the caller's, exported names"
)]

mod advice;
mod array;
mod array_copy;
mod capture;
mod context;
mod copy;
mod device;
mod edge;
mod event;
mod exec;
mod general;
mod graph;
mod host;
mod launch;
mod link;
mod mapping;
mod memory;
mod module;
mod node;
mod object;
mod options;
mod pool;
mod stream;
mod texture;

pub(crate) use advice::*;
pub(crate) use array::*;
pub(crate) use array_copy::*;
pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use device::*;
pub(crate) use edge::*;
pub(crate) use event::*;
pub(crate) use exec::*;
pub(crate) use general::*;
pub(crate) use graph::*;
pub(crate) use host::*;
pub(crate) use launch::*;
pub(crate) use link::*;
pub(crate) use mapping::*;
pub(crate) use memory::*;
pub(crate) use module::*;
pub(crate) use node::*;
pub(crate) use object::*;
pub(crate) use pool::*;
pub(crate) use stream::*;
pub(crate) use texture::*;

use crate::status::{Result, Status};

/// Writes through a pointer of the caller's.
///
/// # Safety
/// The pointer is valid for a write, or null.
unsafe fn put<T>(to: *mut T, value: T) -> Result {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes through a pointer of the caller's that may be null.
///
/// # Safety
/// The pointer is valid for a write, or null.
unsafe fn put_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { to.write_unaligned(value) };
    }
}

/// A name of the caller's.
///
/// # Safety
/// The pointer is null or to a text that ends with a zero byte.
unsafe fn text<'a>(from: *const std::ffi::c_char) -> Result<&'a str> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let text = unsafe { std::ffi::CStr::from_ptr(from) };
    text.to_str().map_err(|_| Status::INVALID_VALUE)
}
