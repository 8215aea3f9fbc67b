//! Texture and surface objects: each is a descriptor in the session's memory, and where that lies is the
//! object's handle.

mod resource;
mod sampling;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bus_schemas::{Shape, TEXTURE_BYTES, Texture};

pub(crate) use resource::{Resource, View};
pub(crate) use sampling::Sampling;

use crate::current_context::current_device;
use crate::device::Device;
use crate::process::holder;
use crate::status::{Result, Status, note};
use crate::work;

/// What an object was made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) resource: Resource,
    /// A surface has none.
    pub(crate) sampling: Option<Sampling>,
    pub(crate) view: Option<View>,
}

/// By handle.
static OBJECTS: LazyLock<Mutex<HashMap<u64, Object>>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, HashMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where textures can be: on workers with our own compiler.
fn device() -> Result<&'static Device> {
    let device = current_device()?;
    if device.properties.is_cpu() {
        return Ok(device);
    }
    let why = "textures and surfaces run on CPU workers only, and this device is a GPU";
    note(Status::NOT_SUPPORTED, why.into());
    Err(Status::NOT_SUPPORTED)
}

/// Writes a descriptor; the object's handle.
fn keep(device: &Device, texture: &Texture, object: Object) -> Result<u64> {
    if !device.holds(texture.address) {
        return Err(Status::INVALID_VALUE);
    }
    let handle = device.alloc(TEXTURE_BYTES)?;
    let bytes = texture.to_bytes();
    let written = work::submit_at(device, handle, |session| session.copy_in(handle, &bytes));
    if let Err(status) = written {
        device.free(handle)?;
        return Err(status);
    }
    objects().insert(handle, object);
    Ok(handle)
}

/// Makes a texture object; its handle.
pub(crate) fn create(resource: Resource, sampling: Sampling, view: Option<View>) -> Result<u64> {
    let device = device()?;
    let data = resource.data(view.as_ref())?;
    if data.shape == Shape::Linear || data.shape == Shape::Pitched {
        // Behind the last row there need be nothing.
        let rows = u64::from(data.height.max(1));
        let bytes = (rows - 1) * data.pitch + u64::from(data.width) * data.element();
        let checked = device.with(|session| session.channel().check(data.address, bytes));
        checked.map_err(|_| Status::INVALID_VALUE)?;
    }
    let object = Object {
        resource,
        sampling: Some(sampling),
        view,
    };
    keep(device, &sampling.of(data)?, object)
}

/// Makes a surface object; its handle.
pub(crate) fn create_surface(resource: Resource) -> Result<u64> {
    let device = device()?;
    let surface = resource.surface()?;
    let object = Object {
        resource,
        sampling: None,
        view: None,
    };
    keep(device, &surface, object)
}

/// What an object was made of: of a texture's handle or of a surface's.
pub(crate) fn object(handle: u64, surface: bool) -> Result<Object> {
    let found = objects().get(&handle).copied();
    found
        .filter(|object| object.sampling.is_none() == surface)
        .ok_or(Status::INVALID_VALUE)
}

/// Ends an object.
pub(crate) fn destroy(handle: u64, surface: bool) -> Result {
    let device = holder(handle)?.ok_or(Status::INVALID_VALUE)?;
    object(handle, surface)?;
    objects().remove(&handle).ok_or(Status::INVALID_VALUE)?;
    device.free(handle)
}

/// Forgets the objects whose memory is freed already.
pub(crate) fn forget(is_freed: impl Fn(u64) -> bool) {
    objects().retain(|handle, _| !is_freed(*handle));
}
