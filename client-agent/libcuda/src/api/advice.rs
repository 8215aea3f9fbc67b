//! Hints about memory, and what is asked of them.

use std::ffi::{c_int, c_uint};

use super::device::device;
use crate::abi::{Count, List, Out, OutList};
use crate::current_context::current;
use crate::guard::api;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// `CUmemLocation`: a kind and, of several such places, which.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// A location on a device.
pub(crate) const DEVICE: c_int = 1;
/// `CU_DEVICE_INVALID`: none was advised.
const NOWHERE: c_int = -2;

/// Attributes of ranges that are no places: whether mostly read, and kinds of places.
const PLAIN: [c_int; 3] = [1, 5, 7];

/// A hint about memory is heeded by doing what is done anyway.
fn hint(address: u64) -> Result {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let found = device.with(|session| session.channel().range(address));
    found.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

/// Answers what was advised about managed memory: nothing.
fn advised<'a>(
    data: OutList<'a, c_int>,
    bytes: Count<'a>,
    attribute: c_int,
    address: u64,
) -> Result {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let ints = bytes.divided(4).filter(|ints| ints.number() > 0);
    let ints = ints.ok_or(Status::INVALID_VALUE)?;
    if !device.managed.holds(address) || !(1..=8).contains(&attribute) {
        return Err(Status::INVALID_VALUE);
    }
    let value = if PLAIN.contains(&attribute) {
        0
    } else {
        NOWHERE
    };
    data.put(ints, std::iter::repeat(value))
}

api! {
    fn cuMemPrefetchAsync_v2(
        address: u64,
        bytes: usize,
        location: Location,
        flags: c_uint,
        stream: usize,
    ) also cuMemPrefetchAsync_v2_ptsz {
        let _ = (bytes, location, flags);
        number_of(stream)?;
        hint(address)
    }

    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: Location) {
        let _ = (bytes, advice, location);
        hint(address)
    }

    fn cuMemRangeGetAttribute(
        data: OutList<'_, c_int>,
        bytes: Count<'_>,
        attribute: c_int,
        address: u64,
        count: usize,
    ) {
        let _ = count;
        advised(data, bytes, attribute, address)
    }

    fn cuMemRangeGetAttributes(
        data: List<'_, OutList<'_, c_int>>,
        bytes: List<'_, Count<'_>>,
        attributes: List<'_, c_int>,
        number: Count<'_>,
        address: u64,
        count: usize,
    ) {
        let _ = count;
        if number.number() == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let places = data.items(number)?.zip(bytes.items(number)?);
        let mut asked = places.zip(attributes.items(number)?);
        asked.try_for_each(|((to, room), attribute)| advised(to, room, attribute, address))
    }

    fn cuDeviceGraphMemTrim(number: c_int) {
        device(number).map(|_| ())
    }

    fn cuDeviceGetGraphMemAttribute(number: c_int, attribute: c_int, value: Out<'_, u64>) {
        device(number)?;
        if !(0..=3).contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        // No graph here holds memory of its own; CUDA types all of these as 64 bits.
        value.put(0)
    }

    fn cuCtxResetPersistingL2Cache() {
        current().map(|_| ())
    }
}
