//! Linking of several images into one: the work of `cuLinkAddData` and `cuLinkComplete` for PTX.
//!
//! The result is PTX again, so that it travels, is hashed, decoded or compiled like any image. Internal names
//! of an image are renamed if another image has them too. Debug sections and line notes are left out.

mod adapt;
mod declaration;
mod grid;
mod image;
mod print;
mod resolve;

use crate::{ParsedModule, PtxError};
use print::Printer;
use resolve::Resolution;

pub use image::{LinkError, LinkImage};

/// Links images into one.
///
/// A definition that is `.visible` (or an entry) takes precedence over `.weak` ones, and those over `.common`
/// ones. Of several `.weak` definitions the first is taken, of several `.common` ones the largest. An
/// `.extern` symbol must be defined in one of the images, except for the runtime's own functions (`vprintf`,
/// `malloc`, …) and unsized shared memory. The device runtime's functions for barriers of a grid
/// (`cudaCGSynchronize` and its kin) are added if images declare them. A function may be declared with a
/// result and defined without, or the other way round. It is called all the same: the result is zero, or is
/// dropped.
///
/// # Errors
/// If an image is not PTX, or a symbol has two effective definitions, has none, or is declared unlike its
/// definition.
///
/// # Examples
///
/// ```
/// let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
/// let uses = format!("{head}.extern .func f();\n.visible .entry k() {{ call f; ret; }}");
/// let has = format!("{head}.visible .func f() {{ ret; }}");
/// let image = |name, text: &'static str| ptx::LinkImage { name, image: text.as_bytes() };
/// let linked = ptx::link(&[image("a", uses.leak()), image("b", has.leak())])?;
/// assert!(ptx::ParsedModule::parse(&linked).is_ok());
/// # Ok::<(), ptx::LinkError>(())
/// ```
pub fn link(images: &[LinkImage<'_>]) -> Result<String, LinkError> {
    let mut modules = Vec::with_capacity(images.len());
    for image in images {
        let parsed = ParsedModule::parse_bytes(image.image);
        modules.push(parsed.map_err(|error| failed(image, error))?);
    }
    let fail = |(image, error): (usize, PtxError)| failed(&images[image], error);
    let mut images = images.to_vec();
    if modules.iter().any(grid::is_needed_by) {
        let image = LinkImage {
            name: grid::NAME,
            image: grid::IMAGE.as_bytes(),
        };
        let parsed = ParsedModule::parse_bytes(image.image);
        modules.push(parsed.map_err(|error| failed(&image, error))?);
        images.push(image);
    }
    let images = &images;
    let resolution = Resolution::of(&modules, images).map_err(fail)?;
    Printer::new(&modules, &resolution).print().map_err(fail)
}

fn failed(image: &LinkImage<'_>, error: PtxError) -> LinkError {
    LinkError {
        image: image.name.to_owned(),
        error,
    }
}
