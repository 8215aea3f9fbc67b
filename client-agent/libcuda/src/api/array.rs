//! Arrays.

use std::ffi::{c_int, c_uint};

use super::device::device;
use crate::abi::{In, Out};
use crate::array::{
    self, Descriptor, Element, Flat, array, create_mipmapped, destroy_mipmapped, level,
};
use crate::attribute::LINEAR;
use crate::current_context::current_device;
use crate::guard::api;
use crate::process::process;
use crate::status::Result;

/// Makes an array, or something of arrays, and hands it over.
fn create(handle: Out<'_, usize>, make: impl FnOnce() -> Result<usize>) -> Result {
    current_device()?;
    handle.check()?;
    handle.put(make()?)
}

api! {
    fn cuArrayCreate_v2(handle: Out<'_, usize>, descriptor: In<'_, Flat>) {
        create(handle, || array::create(descriptor.take()?.into()))
    }

    fn cuArray3DCreate_v2(handle: Out<'_, usize>, descriptor: In<'_, Descriptor>) {
        create(handle, || array::create(descriptor.take()?))
    }

    fn cuArrayGetDescriptor_v2(descriptor: Out<'_, Flat>, handle: usize) {
        process()?;
        descriptor.put(array(handle)?.descriptor.into())
    }

    fn cuArray3DGetDescriptor_v2(descriptor: Out<'_, Descriptor>, handle: usize) {
        process()?;
        descriptor.put(array(handle)?.descriptor)
    }

    fn cuArrayDestroy(handle: usize) {
        process()?;
        array::destroy(handle)
    }

    fn cuMipmappedArrayCreate(handle: Out<'_, usize>, descriptor: In<'_, Descriptor>, levels: c_uint) {
        create(handle, || create_mipmapped(descriptor.take()?, levels))
    }

    fn cuMipmappedArrayGetLevel(handle: Out<'_, usize>, mipmapped: usize, number: c_uint) {
        process()?;
        handle.put(level(mipmapped, number)?)
    }

    fn cuMipmappedArrayDestroy(handle: usize) {
        process()?;
        destroy_mipmapped(handle)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        width: Out<'_, usize>,
        format: c_int,
        channels: c_uint,
        number: c_int,
    ) {
        device(number)?;
        Element::of(format, channels)?;
        width.put(LINEAR as usize)
    }
}
