//! Values in the encoding of the store.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Encodes a value for the store.
///
/// # Panics
/// Never: the values are plain data.
#[must_use]
pub fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data encodes")
}

/// Decodes a value from the store.
#[must_use]
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    rmp_serde::from_slice(bytes).ok()
}

/// True if a block of the record says that inputs after it go unrecorded.
#[must_use]
pub(crate) fn names_gap(block: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        gap: bool,
    }
    unpack::<Head>(block).is_some_and(|head| head.gap)
}
