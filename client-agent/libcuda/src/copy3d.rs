//! Copies of boxes: rows of bytes, some way apart on either side.

#![expect(
    unsafe_code,
    reason = "host memory comes as addresses of the program's"
)]

use std::ffi::{c_uint, c_void};

use crate::abi::{Address, Bytes, Count, Handle, Room};
use crate::array::Array;
use crate::copy::{any, is_device, to_device, to_host, within};
use crate::status::{Result, Status};

/// `CUmemorytype`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const UNIFIED: c_uint = 4;

/// A copy to the host reads what lies between its rows too, where that is at most so many bytes, or
/// so many times what is wanted: a wait costs more.
const GAPS: (usize, usize) = (1 << 20, 4);

/// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`, which names contexts where this one has nothing. It comes
/// from the program, as this structure or in a call's arguments: sides of the host are of as many bytes
/// as the copy takes, until it is done, and in a graph for as long as the graph is launched.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copy3D {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
    depth: usize,
}

/// One side of such a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_uint,
    host: usize,
    device: u64,
    array: Handle<Array>,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy2D {
    from: Flat,
    to: Flat,
    width: usize,
    height: usize,
}

/// One side of such a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Flat {
    x: usize,
    y: usize,
    kind: c_uint,
    host: usize,
    device: u64,
    array: Handle<Array>,
    pitch: usize,
}

impl From<Flat> for Side {
    fn from(flat: Flat) -> Self {
        Self {
            x: flat.x,
            y: flat.y,
            kind: flat.kind,
            host: flat.host,
            device: flat.device,
            array: flat.array,
            pitch: flat.pitch,
            ..Self::default()
        }
    }
}

impl From<Copy2D> for Copy3D {
    fn from(flat: Copy2D) -> Self {
        Self {
            from: flat.from.into(),
            to: flat.to.into(),
            width: flat.width,
            height: flat.height,
            depth: 1,
        }
    }
}

impl Side {
    /// A side that begins at an address.
    fn at(address: u64, kind: c_uint) -> Self {
        Self {
            kind,
            host: address as usize,
            device: address,
            ..Self::default()
        }
    }

    /// The host's side.
    fn host(address: usize) -> Self {
        Self::at(address as u64, HOST)
    }

    /// The program's side, to be read.
    pub(crate) fn source(bytes: Bytes<'_>) -> Self {
        Self::host(bytes.address() as usize)
    }

    /// The program's side, to be written.
    pub(crate) fn target(room: Room<'_>) -> Self {
        Self::host(room.address() as usize)
    }

    /// A device's side.
    pub(crate) fn device(address: Address<'_>) -> Self {
        Self::at(address.number(), DEVICE)
    }

    /// A side in the first row of an array.
    pub(crate) fn array(array: Handle<Array>, offset: usize) -> Self {
        Self {
            x: offset,
            array,
            ..Self::at(0, ARRAY)
        }
    }

    /// An array as the device's memory that it is, where a box of this size lies within it.
    fn resolved(self, size: [usize; 3]) -> Result<Self> {
        if self.kind != ARRAY {
            return Ok(self);
        }
        let found = self.array.get()?;
        if self.level != 0 {
            return Err(Status::INVALID_VALUE);
        }
        found.check([self.x, self.y, self.z], size)?;
        Ok(Self {
            kind: DEVICE,
            device: found.address,
            pitch: found.pitch,
            height: found.rows(),
            ..self
        })
    }

    /// Where the side begins, and whether that is a device's memory.
    fn start(&self) -> Result<(u64, bool)> {
        let (base, device) = match self.kind {
            HOST => (self.host as u64, false),
            DEVICE => (self.device, true),
            UNIFIED => (self.device, is_device(self.device)?),
            _ => return Err(Status::INVALID_VALUE),
        };
        let rows = self.z.wrapping_mul(self.height).wrapping_add(self.y);
        let offset = rows.wrapping_mul(self.pitch).wrapping_add(self.x);
        Ok((base.wrapping_add(offset as u64), device))
    }

    /// How far behind the start a row begins.
    fn row(&self, plane: usize, row: usize) -> usize {
        let rows = plane.wrapping_mul(self.height).wrapping_add(row);
        rows.wrapping_mul(self.pitch)
    }
}

impl Copy3D {
    /// A copy without gaps; a side is the host's or a device's by its address.
    pub(crate) fn linear(to: Address<'_>, from: Address<'_>, bytes: Count<'_>) -> Self {
        let [to, from] = [to, from].map(|side| Side::at(side.number(), UNIFIED));
        Self::between(to, from, bytes)
    }

    /// A copy of one row.
    pub(crate) fn between(to: Side, from: Side, bytes: Count<'_>) -> Self {
        Self {
            from,
            to,
            width: bytes.number(),
            height: 1,
            depth: 1,
        }
    }

    /// A copy without gaps from the host to a device.
    pub(crate) fn to_device(to: Address<'_>, from: Bytes<'_>, bytes: Count<'_>) -> Self {
        Self::between(Side::device(to), Side::source(from), bytes)
    }

    /// A copy without gaps from a device to the host.
    pub(crate) fn to_host(to: Room<'_>, from: Address<'_>, bytes: Count<'_>) -> Self {
        Self::between(Side::target(to), Side::device(from), bytes)
    }

    /// The copy with its arrays as the memory that they are.
    pub(crate) fn resolved(&self) -> Result<Self> {
        let size = [self.width, self.height, self.depth];
        Ok(Self {
            from: self.from.resolved(size)?,
            to: self.to.resolved(size)?,
            ..*self
        })
    }

    /// Where its rows begin behind the sides' starts, and how long each is: those without gaps
    /// between them are one.
    fn rows(&self) -> (Vec<(usize, usize)>, usize) {
        let (from, to) = (&self.from, &self.to);
        let rows = self.height <= 1 || from.pitch == self.width && to.pitch == self.width;
        let planes =
            self.depth <= 1 || rows && from.height == self.height && to.height == self.height;
        let (depth, height, width) = match (planes, rows) {
            (true, true) => (1, 1, self.width * self.height.max(1) * self.depth.max(1)),
            (false, true) => (self.depth, 1, self.width * self.height.max(1)),
            _ => (self.depth.max(1), self.height, self.width),
        };
        let starts = (0..depth).flat_map(|plane| {
            (0..height).map(move |row| (to.row(plane, row), from.row(plane, row)))
        });
        (starts.collect(), width)
    }

    /// Whether it fills whole rows of an array, and whole slices where there are several: between them
    /// nothing lies that anybody can see.
    fn has_whole_rows(&self) -> Result<bool> {
        if self.to.kind != ARRAY {
            return Ok(false);
        }
        let array = self.to.array.get()?;
        let slices = self.depth == 1 || self.height == array.rows();
        Ok(self.width == array.row() && slices)
    }

    /// Copies.
    pub(crate) fn run(&self) -> Result {
        if self.width == 0 || self.height == 0 || self.depth == 0 {
            return Ok(());
        }
        let copy = self.resolved()?;
        let fits = |side: &Side| self.height * self.depth <= 1 || side.pitch >= self.width;
        if !fits(&copy.from) || !fits(&copy.to) {
            return Err(Status::INVALID_VALUE);
        }
        let ((to, to_device_side), (from, from_device_side)) =
            (copy.to.start()?, copy.from.start()?);
        let (rows, width) = copy.rows();
        if from_device_side && !to_device_side && rows.len() > 1 {
            // SAFETY: the target is the program's, who promises room for every row.
            return unsafe { gather(to, from, &rows, width) };
        }
        if to_device_side && !from_device_side && rows.len() > 1 && self.has_whole_rows()? {
            // SAFETY: the source is the program's, who promises every row.
            return unsafe { fill(to, from, &rows, width) };
        }
        for (at_to, at_from) in rows {
            let (to, from) = (to + at_to as u64, from + at_from as u64);
            // SAFETY: a row lies on the program's side of a copy, which is as large as the copy takes.
            unsafe {
                match (to_device_side, from_device_side) {
                    (true, true) => within(to, from, width)?,
                    (true, false) => to_device(to, from as *const c_void, width)?,
                    (false, true) => to_host(to as *mut c_void, from, width)?,
                    (false, false) => any(to, from, width)?,
                }
            }
        }
        Ok(())
    }
}

/// Copies rows of the host to a device as one copy, and zeros between them.
///
/// # Safety
/// The host's addresses are of so many bytes.
unsafe fn fill(to: u64, from: u64, rows: &[(usize, usize)], width: usize) -> Result {
    let span = rows.last().map_or(0, |(last, _)| last + width);
    let mut bytes = vec![0_u8; span];
    for (at_to, at_from) in rows {
        let row = (from as usize + at_from) as *const u8;
        let place = bytes[*at_to..at_to + width].as_mut_ptr();
        // SAFETY: the row is one of the source's, and its place in our bytes is as long.
        unsafe { std::ptr::copy_nonoverlapping(row, place, width) };
    }
    // SAFETY: these bytes are a vector of ours, of this length.
    unsafe { to_device(to, bytes.as_ptr().cast(), span) }
}

/// Copies rows of a device to the host, with one wait where the gaps are small.
///
/// # Safety
/// The host's addresses are of so many bytes.
unsafe fn gather(to: u64, from: u64, rows: &[(usize, usize)], width: usize) -> Result {
    let span = rows.last().map_or(0, |(_, last)| last + width);
    if span > GAPS.0 && span / GAPS.1 > rows.len() * width {
        return rows.iter().try_for_each(|(at_to, at_from)| {
            let to = (to as usize + at_to) as *mut c_void;
            // SAFETY: the row has room on the target's side.
            unsafe { to_host(to, from + *at_from as u64, width) }
        });
    }
    let mut bytes = vec![0_u8; span];
    // SAFETY: this room is a vector of ours, of this length.
    unsafe { to_host(bytes.as_mut_ptr().cast(), from, span)? };
    for (at_to, at_from) in rows {
        let row = &bytes[*at_from..at_from + width];
        // SAFETY: the row has room on the target's side, and our bytes are not the program's.
        unsafe {
            std::ptr::copy_nonoverlapping(row.as_ptr(), (to as usize + at_to) as *mut u8, width);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(pitch: (usize, usize), height: (usize, usize), size: [usize; 3]) -> Copy3D {
        let side = |pitch, height| Side {
            pitch,
            height,
            ..Side::at(0, DEVICE)
        };
        Copy3D {
            from: side(pitch.0, height.0),
            to: side(pitch.1, height.1),
            width: size[0],
            height: size[1],
            depth: size[2],
        }
    }

    #[test]
    fn rows_without_gaps_are_one() {
        assert_eq!(std::mem::size_of::<Copy3D>(), 200);
        assert_eq!(std::mem::size_of::<Copy2D>(), 128);
        let whole = copy((8, 8), (4, 4), [8, 4, 3]);
        assert_eq!(whole.rows(), (vec![(0, 0)], 96));
        let planes = copy((8, 8), (4, 6), [8, 4, 2]);
        assert_eq!(planes.rows(), (vec![(0, 0), (48, 32)], 32));
        let rows = copy((8, 10), (2, 3), [8, 2, 2]);
        let starts = vec![(0, 0), (10, 8), (30, 16), (40, 24)];
        assert_eq!(rows.rows(), (starts, 8));
    }
}
