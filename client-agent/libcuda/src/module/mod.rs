//! Images, libraries and kernels.
//!
//! Loading is lazy. An image is classified when it is given. It is unpacked and parsed when one of
//! its kernels or variables is requested, and sent to a device at its first use there. Of a large
//! text, only the part that a kernel needs is parsed and sent; machine code is sent whole.
//!
//! | module | what |
//! | --- | --- |
//! | [`mod@image`] | kinds of images, by their first bytes |
//! | [`source`] | the source of a library's program, and the report if none of them runs |
//! | [`library`] | a `CUmodule` or `CUlibrary`: kernels and variables by name |
//! | [`part`] | an image that goes to devices as a whole, and its state there |
//! | [`kernel`] | a `CUfunction` or `CUkernel` |

mod image;
mod kernel;
mod library;
mod opened;
mod part;
mod source;

pub(crate) use image::{Image, Place, image, machine_code, origin};
pub(crate) use kernel::Kernel;
pub(crate) use library::{Library, Refused, limit_registers, reset, unload, unload_all};
pub(crate) use source::{Missing, Source, Wrong, last_refusal, refusals, refused};
