//! Values as the store keeps them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A value as the store keeps it.
///
/// # Panics
/// Never: the values are plain data.
#[must_use]
pub fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data encodes")
}

/// A value the store kept.
#[must_use]
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    rmp_serde::from_slice(bytes).ok()
}

/// Whether a block of the record says that what follows goes unrecorded.
#[must_use]
pub(crate) fn names_gap(block: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        gap: bool,
    }
    unpack::<Head>(block).is_some_and(|head| head.gap)
}
