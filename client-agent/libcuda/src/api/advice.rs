//! Hints about memory, and the answers about them.

use std::ffi::{c_int, c_uint};

use super::device::device;
use super::memory::range;
use crate::abi::{Count, Handle, List, Out, OutList};
use crate::guard::api;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::stream::Stream;

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

// A hint about memory of the devices' is followed by doing what is done anyway.
api! {
    fn cuMemPrefetchAsync(address: u64, _bytes: usize, _device: c_int, stream: Handle<Stream>)
        also cuMemPrefetchAsync_ptsz => stream.op_number().and(range(address));
    fn cuMemPrefetchAsync_v2(
        address: u64, _bytes: usize, _location: Location, _flags: c_uint, stream: Handle<Stream>,
    ) also cuMemPrefetchAsync_v2_ptsz => stream.op_number().and(range(address));
    fn cuMemAdvise(address: u64, _bytes: usize, _advice: c_int, _device: c_int) => range(address);
    fn cuMemAdvise_v2(address: u64, _bytes: usize, _advice: c_int, _location: Location) => range(address);
    fn cuMemRangeGetAttribute<'c>(
        data: OutList<'c, c_int>, bytes: Count<'c>, attribute: c_int, address: u64, _count: usize,
    ) => advised(data, bytes, attribute, address);

    fn cuMemRangeGetAttributes<'c, 'd>(
        data: List<'c, OutList<'d, c_int>>, bytes: List<'c, Count<'d>>, attributes: List<'c, c_int>,
        number: Count<'c>, address: u64, _count: usize,
    ) {
        if number.number() == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let places = data.items(number)?.zip(bytes.items(number)?);
        let mut asked = places.zip(attributes.items(number)?);
        asked.try_for_each(|((to, room), attribute)| advised(to, room, attribute, address))
    }

    fn cuDeviceGraphMemTrim(number: c_int) => device(number);

    fn cuDeviceGetGraphMemAttribute(number: c_int, attribute: c_int, value: Out<'_, u64>) {
        device(number)?;
        if !(0..=3).contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        // No graph here holds memory of its own; CUDA types all of these as 64 bits.
        value.put(0)
    }
}
