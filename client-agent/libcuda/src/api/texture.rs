//! Texture and surface objects.

use super::put;
use crate::current::current_device;
use crate::graph::params::take;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::texture::{self, Resource, Sampling, View, object};

/// Hands over a new object's handle.
///
/// # Safety
/// The pointer is valid, or null.
unsafe fn create(handle: *mut u64, make: impl FnOnce() -> Result<u64>) -> Result {
    current_device()?;
    if handle.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    unsafe { put(handle, make()?) }
}

api! {
    fn cuTexObjectCreate(
        handle: *mut u64,
        resource: *const Resource,
        sampling: *const Sampling,
        view: *const View,
    ) {
        let make = || {
            // SAFETY: the caller's pointers; a view need not be.
            let (resource, sampling, view) = unsafe {
                let view = if view.is_null() { None } else { Some(take(view)?) };
                (take(resource)?, take(sampling)?, view)
            };
            texture::create(resource, sampling, view)
        };
        // SAFETY: the caller's pointer.
        unsafe { create(handle, make) }
    }

    fn cuTexObjectDestroy(handle: u64) {
        process()?;
        texture::destroy(handle, false)
    }

    fn cuTexObjectGetResourceDesc(resource: *mut Resource, handle: u64) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(resource, object(handle, false)?.resource) }
    }

    fn cuTexObjectGetTextureDesc(sampling: *mut Sampling, handle: u64) {
        process()?;
        let found = object(handle, false)?.sampling;
        // SAFETY: the caller's pointer.
        unsafe { put(sampling, found.ok_or(Status::INVALID_VALUE)?) }
    }

    fn cuTexObjectGetResourceViewDesc(view: *mut View, handle: u64) {
        process()?;
        let found = object(handle, false)?.view;
        // SAFETY: the caller's pointer. Without a view there is none to tell.
        unsafe { put(view, found.ok_or(Status::INVALID_VALUE)?) }
    }

    fn cuSurfObjectCreate(handle: *mut u64, resource: *const Resource) {
        // SAFETY: the caller's pointers.
        unsafe { create(handle, || texture::create_surface(take(resource)?)) }
    }

    fn cuSurfObjectDestroy(handle: u64) {
        process()?;
        texture::destroy(handle, true)
    }

    fn cuSurfObjectGetResourceDesc(resource: *mut Resource, handle: u64) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(resource, object(handle, true)?.resource) }
    }
}
