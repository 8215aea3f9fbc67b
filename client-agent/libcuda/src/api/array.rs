//! Arrays.

use std::ffi::{c_int, c_uint};

use super::device::device;
use super::put;
use crate::array::{
    self, Descriptor, Element, Flat, array, create_mipmapped, destroy_mipmapped, level,
};
use crate::attribute::LINEAR;
use crate::current::current_device;
use crate::graph::params::take;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

/// Makes an array, or something of arrays, and hands it over.
///
/// # Safety
/// The pointer is valid, or null.
unsafe fn create(handle: *mut usize, make: impl FnOnce() -> Result<usize>) -> Result {
    current_device()?;
    if handle.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    unsafe { put(handle, make()?) }
}

api! {
    fn cuArrayCreate_v2(handle: *mut usize, descriptor: *const Flat) {
        // SAFETY: the caller's pointers.
        unsafe { create(handle, || array::create(take(descriptor)?.into())) }
    }

    fn cuArray3DCreate_v2(handle: *mut usize, descriptor: *const Descriptor) {
        // SAFETY: the caller's pointers.
        unsafe { create(handle, || array::create(take(descriptor)?)) }
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut Flat, handle: usize) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(descriptor, array(handle)?.descriptor.into()) }
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut Descriptor, handle: usize) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(descriptor, array(handle)?.descriptor) }
    }

    fn cuArrayDestroy(handle: usize) {
        process()?;
        array::destroy(handle)
    }

    fn cuMipmappedArrayCreate(handle: *mut usize, descriptor: *const Descriptor, levels: c_uint) {
        // SAFETY: the caller's pointers.
        unsafe { create(handle, || create_mipmapped(take(descriptor)?, levels)) }
    }

    fn cuMipmappedArrayGetLevel(handle: *mut usize, mipmapped: usize, number: c_uint) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, level(mipmapped, number)?) }
    }

    fn cuMipmappedArrayDestroy(handle: usize) {
        process()?;
        destroy_mipmapped(handle)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        width: *mut usize,
        format: c_int,
        channels: c_uint,
        number: c_int,
    ) {
        device(number)?;
        Element::of(format, channels)?;
        // SAFETY: the caller's pointer.
        unsafe { put(width, LINEAR as usize) }
    }
}
