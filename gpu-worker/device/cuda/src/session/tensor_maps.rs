//! Tensor maps: a client's recipes, encoded by the driver.

use bus_schemas::{Code, Failure, TENSOR_MAP_BYTES, TENSOR_MAP_PARAMETER, TensorMap, Window};

use crate::driver::encode;

/// Returns the driver's encoding of a recipe with its tensor in the session's window.
pub(super) fn encoded(window: Window, recipe: &[u8]) -> Result<[u8; TENSOR_MAP_BYTES], Failure> {
    let invalid = |why: &str| Failure::new(Code::BadLaunch, format!("tensor map: {why}"));
    let map = TensorMap::read(recipe).map_err(invalid)?;
    let offset = map.address.checked_sub(window.base);
    if offset.is_none_or(|offset| offset >= window.size) {
        return Err(invalid("the address is not the session's"));
    }
    encode(&map).map(|encoded| encoded.0)
}

/// Returns a launch's parameters with the maps in place of their recipes.
pub(super) fn in_place(window: Window, params: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut params = params.to_vec();
    let last = params.len().saturating_sub(TENSOR_MAP_BYTES - 1);
    for at in (0..last).step_by(TENSOR_MAP_PARAMETER) {
        let place = &mut params[at..at + TENSOR_MAP_BYTES];
        if TensorMap::begins(place) {
            place.copy_from_slice(&encoded(window, place)?);
        }
    }
    Ok(params)
}
