//! Texture and surface objects. Each is a descriptor in the session's memory, and the descriptor's
//! address is the object's handle.

mod resource;
mod sampling;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use bus_schemas::{TEXTURE_BYTES, Texture, TextureShape};

pub(crate) use resource::{Resource, View};
pub(crate) use sampling::Sampling;

use crate::abi::Handle;
use crate::current_context::current_device;
use crate::device::Device;
use crate::lock::lock;
use crate::process::holder;
use crate::status::{Result, Status, note};
use crate::work;

/// Texture objects: `CUtexObject`. Their handles, and those of surfaces, are addresses of device
/// memory, because kernels get them as parameters.
pub(crate) enum Sampled {}

/// Surface objects: `CUsurfObject`.
pub(crate) enum Surface {}

/// The two kinds of objects.
pub(crate) trait Kind: Sized {
    const IS_SURFACE: bool;
}

impl Kind for Sampled {
    const IS_SURFACE: bool = false;
}

impl Kind for Surface {
    const IS_SURFACE: bool = true;
}

/// The parameters that an object was created from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) resource: Resource,
    /// The sampling; a surface has none.
    pub(crate) sampling: Option<Sampling>,
    pub(crate) view: Option<View>,
}

/// Objects by address.
static OBJECTS: LazyLock<Mutex<HashMap<u64, Object>>> = LazyLock::new(Mutex::default);

/// The device, if it supports textures: those of workers with our own compiler.
fn device() -> Result<&'static Device> {
    let device = current_device()?;
    if device.properties.is_cpu() {
        return Ok(device);
    }
    let why = "textures and surfaces run on CPU workers only, and this device is a GPU";
    note(Status::NOT_SUPPORTED, why.into());
    Err(Status::NOT_SUPPORTED)
}

/// Writes a descriptor and returns the object's handle.
fn keep<K>(device: &Device, texture: &Texture, object: Object) -> Result<Handle<K>> {
    if !device.holds(texture.address) {
        return Err(Status::INVALID_VALUE);
    }
    let address = device.alloc(TEXTURE_BYTES)?;
    let bytes = texture.to_bytes();
    let written = work::submit_at(device, address, |session| session.copy_in(address, &bytes));
    if let Err(status) = written {
        device.free(address)?;
        return Err(status);
    }
    lock(&OBJECTS).insert(address, object);
    Ok(Handle::new(address as usize))
}

/// Creates a texture object and returns its handle.
pub(crate) fn create(
    resource: Resource,
    sampling: Sampling,
    view: Option<View>,
) -> Result<Handle<Sampled>> {
    let device = device()?;
    let data = resource.data(view.as_ref())?;
    if data.shape == TextureShape::Linear || data.shape == TextureShape::Pitched {
        // There need not be any padding behind the last row.
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

/// Creates a surface object and returns its handle.
pub(crate) fn create_surface(resource: Resource) -> Result<Handle<Surface>> {
    let device = device()?;
    let surface = resource.surface()?;
    let object = Object {
        resource,
        sampling: None,
        view: None,
    };
    keep(device, &surface, object)
}

/// The parameters that an object was created from.
pub(crate) fn object<K: Kind>(handle: Handle<K>) -> Result<Object> {
    let found = lock(&OBJECTS).get(&(handle.number() as u64)).copied();
    found
        .filter(|object| object.sampling.is_none() == K::IS_SURFACE)
        .ok_or(Status::INVALID_VALUE)
}

/// Destroys an object.
pub(crate) fn destroy<K: Kind>(handle: Handle<K>) -> Result {
    let address = handle.number() as u64;
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    object(handle)?;
    let removed = lock(&OBJECTS).remove(&address);
    removed.ok_or(Status::INVALID_VALUE)?;
    device.free(address)
}

/// Forgets objects with memory that is already freed.
pub(crate) fn forget(is_freed: impl Fn(u64) -> bool) {
    lock(&OBJECTS).retain(|handle, _| !is_freed(*handle));
}
