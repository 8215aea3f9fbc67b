//! An image that is linked, and the error that names it.

use crate::PtxError;
use thiserror::Error;

/// One image to be linked.
#[derive(Clone, Copy, Debug)]
pub struct LinkImage<'a> {
    /// How errors call it.
    pub name: &'a str,
    /// Its PTX; what follows a NUL is ignored.
    pub image: &'a [u8],
}

/// The reason why images cannot be linked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("image `{image}`, {error}")]
pub struct LinkError {
    /// The image at fault.
    pub image: String,
    /// Where in it, and what is wrong.
    pub error: PtxError,
}
