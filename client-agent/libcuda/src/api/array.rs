//! Arrays.

use std::ffi::{c_int, c_uint};

use super::device::device;
use crate::abi::{Handle, In, Out};
use crate::array::{
    self, Array, Descriptor, Element, Flat, Mipmapped, create_mipmapped, destroy_mipmapped, level,
};
use crate::attribute::LINEAR;
use crate::guard::api;

api! {
    fn cuArrayCreate_v2(array: Out<'_, Handle<Array>>, descriptor: In<'_, Flat>)
        => array.put_made(|| array::create(descriptor.take()?.into()));
    fn cuArray3DCreate_v2(array: Out<'_, Handle<Array>>, descriptor: In<'_, Descriptor>)
        => array.put_made(|| array::create(descriptor.take()?));
    fn cuArrayGetDescriptor_v2(descriptor: Out<'_, Flat>, array: Handle<Array>)
        => descriptor.put(array.get()?.descriptor.into());
    fn cuArray3DGetDescriptor_v2(descriptor: Out<'_, Descriptor>, array: Handle<Array>)
        => descriptor.put(array.get()?.descriptor);
    fn cuArrayDestroy(array: Handle<Array>) => array::destroy(array);
    fn cuMipmappedArrayCreate(
        mipmapped: Out<'_, Handle<Mipmapped>>, descriptor: In<'_, Descriptor>, levels: c_uint,
    ) => mipmapped.put_made(|| create_mipmapped(descriptor.take()?, levels));
    fn cuMipmappedArrayGetLevel(array: Out<'_, Handle<Array>>, mipmapped: Handle<Mipmapped>, number: c_uint)
        => array.put(level(mipmapped, number)?);
    fn cuMipmappedArrayDestroy(mipmapped: Handle<Mipmapped>) => destroy_mipmapped(mipmapped);

    fn cuDeviceGetTexture1DLinearMaxWidth(
        width: Out<'_, usize>, format: c_int, channels: c_uint, number: c_int,
    ) {
        device(number)?;
        Element::of(format, channels)?;
        width.put(LINEAR as usize)
    }
}
