//! An image to link, and the error that names it.

use crate::PtxError;
use thiserror::Error;

/// One image to link.
#[derive(Clone, Copy, Debug)]
pub struct LinkImage<'a> {
    /// The name of the image in errors.
    pub name: &'a str,
    /// Its PTX; bytes behind a NUL are ignored.
    pub image: &'a [u8],
}

/// The reason for which images cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("image `{image}`, {error}")]
pub struct LinkError {
    /// The image at fault.
    pub image: String,
    /// The error, with its place in the image.
    pub error: PtxError,
}
