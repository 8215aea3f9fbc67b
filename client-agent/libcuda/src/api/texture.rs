//! Texture and surface objects.

use crate::abi::{In, Out};
use crate::current_context::current_device;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::texture::{self, Resource, Sampling, View, object};

/// Hands over a new object's handle.
fn create(handle: Out<'_, u64>, make: impl FnOnce() -> Result<u64>) -> Result {
    current_device()?;
    handle.check()?;
    handle.put(make()?)
}

api! {
    fn cuTexObjectCreate(
        handle: Out<'_, u64>,
        resource: In<'_, Resource>,
        sampling: In<'_, Sampling>,
        view: In<'_, View>,
    ) {
        let make = || {
            texture::create(resource.take()?, sampling.take()?, view.get())
        };
        create(handle, make)
    }

    fn cuTexObjectDestroy(handle: u64) {
        process()?;
        texture::destroy(handle, false)
    }

    fn cuTexObjectGetResourceDesc(resource: Out<'_, Resource>, handle: u64) {
        process()?;
        resource.put(object(handle, false)?.resource)
    }

    fn cuTexObjectGetTextureDesc(sampling: Out<'_, Sampling>, handle: u64) {
        process()?;
        let found = object(handle, false)?.sampling;
        sampling.put(found.ok_or(Status::INVALID_VALUE)?)
    }

    fn cuTexObjectGetResourceViewDesc(view: Out<'_, View>, handle: u64) {
        process()?;
        let found = object(handle, false)?.view;
        // Without a view there is none to tell.
        view.put(found.ok_or(Status::INVALID_VALUE)?)
    }

    fn cuSurfObjectCreate(handle: Out<'_, u64>, resource: In<'_, Resource>) {
        create(handle, || texture::create_surface(resource.take()?))
    }

    fn cuSurfObjectDestroy(handle: u64) {
        process()?;
        texture::destroy(handle, true)
    }

    fn cuSurfObjectGetResourceDesc(resource: Out<'_, Resource>, handle: u64) {
        process()?;
        resource.put(object(handle, true)?.resource)
    }
}
