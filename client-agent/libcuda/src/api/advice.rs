//! Hints about memory, and the answers about them.

use std::ffi::{c_int, c_uint};

use super::device::device;
use crate::abi::{Count, Handle, List, Out, OutList, Word};
use crate::advised::{Advice, CPU, HOST, Place};
use crate::capture;
use crate::guard::api;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// `CUmemLocation`: a kind, and the index among places of that kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// A location on a device.
pub(crate) const DEVICE: c_int = 1;
/// Host memory, of a NUMA node or of the calling thread's node.
const HOST_NUMA: c_int = 3;
const HOST_NUMA_CURRENT: c_int = 4;

/// The place that a program names: an existing device, or the host.
fn place(location: Location) -> Result<Place> {
    match location.kind {
        DEVICE => device(location.id).map(drop)?,
        HOST | HOST_NUMA | HOST_NUMA_CURRENT => {}
        _ => return Err(Status::INVALID_VALUE),
    }
    let (kind, id) = (location.kind, location.id);
    Ok(Place { kind, id })
}

/// The location of a device number, or of the host's number.
fn numbered(number: c_int) -> Location {
    match number {
        CPU => Location { kind: HOST, id: 0 },
        id => Location { kind: DEVICE, id },
    }
}

/// Notes what a program advises about managed memory.
fn advise(address: u64, bytes: usize, advice: c_int, location: Location) -> Result {
    let managed = &holder(address)?.ok_or(Status::INVALID_VALUE)?.managed;
    let note = |change: &dyn Fn(&mut Advice)| managed.advise(address, bytes as u64, change);
    let noted = match advice {
        1 | 2 => note(&|it| it.read_mostly = advice == 1),
        3 => {
            let place = place(location)?;
            note(&|it| it.preferred = place)
        }
        4 => note(&|it| it.preferred = Place::default()),
        5 | 6 => {
            let number = place(location)?.number();
            note(&|it| match advice {
                5 => drop(it.accessed_by.insert(number)),
                _ => drop(it.accessed_by.remove(&number)),
            })
        }
        _ => false,
    };
    noted.then_some(()).ok_or(Status::INVALID_VALUE)
}

/// Notes the place to which managed memory was last prefetched.
fn prefetch(address: u64, bytes: usize, location: Location, stream: Handle<Stream>) -> Result {
    stream.op_number()?;
    capture::refuse(stream)?;
    let managed = &holder(address)?.ok_or(Status::INVALID_VALUE)?.managed;
    let place = place(location)?;
    let noted = managed.advise(address, bytes as u64, |it| it.prefetched = place);
    noted.then_some(()).ok_or(Status::INVALID_VALUE)
}

/// Answers with the advice about managed memory, or with no advice if it differs within the range.
fn advised<'a>(
    data: OutList<'a, c_int>,
    room: Count<'a>,
    attribute: c_int,
    (address, bytes): (u64, usize),
) -> Result {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let ints = room.divided(4).filter(|ints| ints.number() > 0);
    let ints = ints.ok_or(Status::INVALID_VALUE)?;
    let advice = device.managed.advice(address, bytes as u64);
    let advice = advice.ok_or(Status::INVALID_VALUE)?;
    let nowhere = Place::default().number();
    let value = match attribute {
        1 => c_int::from(advice.read_mostly),
        2 => advice.preferred.number(),
        3 => {
            let devices = advice.accessed_by.into_iter();
            return data.put(ints, devices.chain(std::iter::repeat(nowhere)));
        }
        4 => advice.prefetched.number(),
        5 => advice.preferred.kind,
        6 => advice.preferred.id,
        7 => advice.prefetched.kind,
        8 => advice.prefetched.id,
        _ => return Err(Status::INVALID_VALUE),
    };
    data.put(ints, std::iter::repeat(value))
}

// A hint about device memory needs no action.
impl Word for Location {
    fn word(&self) -> u64 {
        0
    }
}

api! {
    fn cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: Handle<Stream>)
        ptsz cuMemPrefetchAsync_ptsz => prefetch(address, bytes, numbered(device), stream);
    fn cuMemPrefetchAsync_v2(
        address: u64, bytes: usize, location: Location, flags: c_uint, stream: Handle<Stream>,
    ) ptsz cuMemPrefetchAsync_v2_ptsz => match flags {
        0 => prefetch(address, bytes, location, stream),
        _ => Err(Status::INVALID_VALUE),
    };
    fn cuMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int)
        => advise(address, bytes, advice, numbered(device));
    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: Location)
        => advise(address, bytes, advice, location);
    fn cuMemRangeGetAttribute<'c>(
        data: OutList<'c, c_int>, room: Count<'c>, attribute: c_int, address: u64, bytes: usize,
    ) => advised(data, room, attribute, (address, bytes));

    fn cuMemRangeGetAttributes<'c, 'd>(
        data: List<'c, OutList<'d, c_int>>, rooms: List<'c, Count<'d>>, attributes: List<'c, c_int>,
        number: Count<'c>, address: u64, bytes: usize,
    ) {
        if number.number() == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let places = data.items(number)?.zip(rooms.items(number)?);
        let mut asked = places.zip(attributes.items(number)?);
        asked.try_for_each(|((to, room), attribute)| advised(to, room, attribute, (address, bytes)))
    }

    fn cuDeviceGraphMemTrim(number: c_int) => device(number);

    fn cuDeviceGetGraphMemAttribute(number: c_int, attribute: c_int, value: Out<'_, u64>) {
        device(number)?;
        if !(0..=3).contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        // No graph here has memory of its own; CUDA types all of these as 64 bits.
        value.put(0)
    }
}
