//! Texture and surface objects.

use crate::abi::{Handle, In, Out};
use crate::current_context::current_device;
use crate::guard::api;
use crate::status::Status;
use crate::texture::{
    self, Resource, Sampled, Sampling, Surface, View, create_surface, destroy, object,
};

api! {
    fn cuTexObjectCreate(
        texture: Out<'_, Handle<Sampled>>, resource: In<'_, Resource>, sampling: In<'_, Sampling>,
        view: In<'_, View>,
    ) {
        current_device()?;
        texture.put_made(|| texture::create(resource.take()?, sampling.take()?, view.get()))
    }

    fn cuTexObjectDestroy(texture: Handle<Sampled>) => destroy(texture);
    fn cuTexObjectGetResourceDesc(resource: Out<'_, Resource>, texture: Handle<Sampled>)
        => resource.put(object(texture)?.resource);
    fn cuTexObjectGetTextureDesc(sampling: Out<'_, Sampling>, texture: Handle<Sampled>)
        => sampling.put(object(texture)?.sampling.ok_or(Status::INVALID_VALUE)?);

    // A texture without a view has none to answer with.
    fn cuTexObjectGetResourceViewDesc(view: Out<'_, View>, texture: Handle<Sampled>)
        => view.put(object(texture)?.view.ok_or(Status::INVALID_VALUE)?);

    fn cuSurfObjectCreate(surface: Out<'_, Handle<Surface>>, resource: In<'_, Resource>) {
        current_device()?;
        surface.put_made(|| create_surface(resource.take()?))
    }

    fn cuSurfObjectDestroy(surface: Handle<Surface>) => destroy(surface);
    fn cuSurfObjectGetResourceDesc(resource: Out<'_, Resource>, surface: Handle<Surface>)
        => resource.put(object(surface)?.resource);
}
