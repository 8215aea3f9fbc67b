//! Copies of boxes: rows of bytes at some pitch on either side.

#![expect(
    unsafe_code,
    reason = "host memory comes as addresses of the program's"
)]

use std::ffi::{c_uint, c_void};

use crate::abi::{Address, Bytes, Call, Count, Handle, Room};
use crate::array::Array;
use crate::copy::{any, is_device, to_device, to_host, within};
use crate::status::{Result, Status};

/// `CUmemorytype`.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const UNIFIED: c_uint = 4;

/// Limits on the bytes between rows that a copy to the host reads too: the total span, or the ratio
/// of the span to the wanted bytes. Reading gaps costs less than one wait for each row.
const GAPS: (usize, usize) = (1 << 20, 4);

/// `CUDA_MEMCPY3D`, and `CUDA_MEMCPY3D_PEER`, which names contexts where this one has padding. It
/// comes from the program, as this structure or as a call's arguments. The program promises that
/// host sides have the bytes of the copy until it is done, and in a graph for as long as the graph
/// is launched. The lifetime is that of the call that names these sides and sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copy3D<'a> {
    from: Side<'a>,
    to: Side<'a>,
    width: usize,
    height: usize,
    depth: usize,
}

/// One side of such a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side<'a> {
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
    call: Call<'a>,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy2D<'a> {
    from: Flat<'a>,
    to: Flat<'a>,
    width: usize,
    height: usize,
}

/// One side of such a copy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Flat<'a> {
    x: usize,
    y: usize,
    kind: c_uint,
    host: usize,
    device: u64,
    array: Handle<Array>,
    pitch: usize,
    call: Call<'a>,
}

impl<'a> From<Flat<'a>> for Side<'a> {
    fn from(flat: Flat<'a>) -> Self {
        Self {
            x: flat.x,
            y: flat.y,
            kind: flat.kind,
            host: flat.host,
            device: flat.device,
            array: flat.array,
            pitch: flat.pitch,
            call: flat.call,
            ..Self::default()
        }
    }
}

impl<'a> From<Copy2D<'a>> for Copy3D<'a> {
    fn from(flat: Copy2D<'a>) -> Self {
        Self {
            from: flat.from.into(),
            to: flat.to.into(),
            width: flat.width,
            height: flat.height,
            depth: 1,
        }
    }
}

impl<'a> Side<'a> {
    /// A side that begins at an address.
    fn at(address: u64, kind: c_uint) -> Self {
        Self {
            kind,
            host: address as usize,
            device: address,
            ..Self::default()
        }
    }

    /// A host side.
    fn host(address: usize) -> Self {
        Self::at(address as u64, HOST)
    }

    /// A side of the program that is read.
    pub(crate) fn source(bytes: Bytes<'a>) -> Self {
        Self::host(bytes.address() as usize)
    }

    /// A side of the program that is written.
    pub(crate) fn target(room: Room<'a>) -> Self {
        Self::host(room.address() as usize)
    }

    /// A device side.
    pub(crate) fn device(address: Address<'a>) -> Self {
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

    /// Replaces an array by its device memory, if a box of this size lies within it.
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

    /// Refuses an invalid array, and mipmap levels above 0: no array has several.
    fn check(&self) -> Result {
        match (self.kind, self.level) {
            (ARRAY, 0) => self.array.check(),
            (_, 0) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Address of the side's first byte; true if it is device memory.
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

    /// Distance of a row from the start.
    fn row(&self, plane: usize, row: usize) -> usize {
        let rows = plane.wrapping_mul(self.height).wrapping_add(row);
        rows.wrapping_mul(self.pitch)
    }
}

impl<'a> Copy3D<'a> {
    /// A copy without gaps; each side is the host's or a device's by its address.
    pub(crate) fn linear(to: Address<'a>, from: Address<'a>, bytes: Count<'a>) -> Self {
        let [to, from] = [to, from].map(|side| Side::at(side.number(), UNIFIED));
        Self::between(to, from, bytes)
    }

    /// A copy of one row.
    pub(crate) fn between(to: Side<'a>, from: Side<'a>, bytes: Count<'a>) -> Self {
        Self {
            from,
            to,
            width: bytes.number(),
            height: 1,
            depth: 1,
        }
    }

    /// A copy without gaps from the host to a device.
    pub(crate) fn to_device(to: Address<'a>, from: Bytes<'a>, bytes: Count<'a>) -> Self {
        Self::between(Side::device(to), Side::source(from), bytes)
    }

    /// A copy without gaps from a device to the host.
    pub(crate) fn to_host(to: Room<'a>, from: Address<'a>, bytes: Count<'a>) -> Self {
        Self::between(Side::target(to), Side::device(from), bytes)
    }

    /// The copy with its arrays replaced by their memory.
    pub(crate) fn resolved(&self) -> Result<Self> {
        let size = [self.width, self.height, self.depth];
        Ok(Self {
            from: self.from.resolved(size)?,
            to: self.to.resolved(size)?,
            ..*self
        })
    }

    /// True if a side's rows and slices are as large as the box and its offset.
    fn fits(&self, side: &Side<'_>) -> bool {
        let within = |from: usize, size: usize, room: usize| {
            from.checked_add(size).is_some_and(|end| end <= room)
        };
        let rows = self.height * self.depth <= 1 || within(side.x, self.width, side.pitch);
        rows && (self.depth <= 1 || within(side.y, self.height, side.height))
    }

    /// The offsets of the rows from the sides' starts, and the length of each; rows without gaps
    /// between them are merged into one.
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

    /// True if the copy fills whole rows of an array, and whole slices if there are several. The
    /// gaps between them are not visible to programs.
    fn has_whole_rows(&self) -> Result<bool> {
        if self.to.kind != ARRAY {
            return Ok(false);
        }
        let array = self.to.array.get()?;
        let slices = self.depth == 1 || self.height == array.rows();
        Ok(self.width == array.row() && slices)
    }

    /// The copy as kept by a graph.
    pub(crate) fn kept(self) -> Copy3D<'static> {
        // SAFETY: only a lifetime changes, and a program that records a copy keeps its sides for as
        // long as it launches the graph.
        unsafe { std::mem::transmute::<Self, Copy3D<'static>>(self) }
    }

    /// Does the copy.
    pub(crate) fn run(&self) -> Result {
        for side in [&self.from, &self.to] {
            side.check()?;
        }
        if self.width == 0 || self.height == 0 || self.depth == 0 {
            return Ok(());
        }
        let copy = self.resolved()?;
        if !copy.fits(&copy.from) || !copy.fits(&copy.to) {
            return Err(Status::INVALID_VALUE);
        }
        let ((to, to_device_side), (from, from_device_side)) =
            (copy.to.start()?, copy.from.start()?);
        let (rows, width) = copy.rows();
        if from_device_side && !to_device_side && is_dense(&rows, width) {
            // SAFETY: the target is the program's, which promises room for every row.
            return unsafe { gather(to, from, &rows, width) };
        }
        if to_device_side && !from_device_side && rows.len() > 1 && self.has_whole_rows()? {
            // SAFETY: the source is the program's, which promises every row.
            return unsafe { fill(to, from, &rows, width) };
        }
        for (at_to, at_from) in rows {
            let (to, from) = (to + at_to as u64, from + at_from as u64);
            // SAFETY: each row lies on a side of this copy, and those of the program are large
            // enough.
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

/// Copies rows of the host to a device as one copy, with zeros between them.
///
/// # Safety
/// The host's addresses have as many bytes as the rows span.
unsafe fn fill(to: u64, from: u64, rows: &[(usize, usize)], width: usize) -> Result {
    let span = rows.last().map_or(0, |(last, _)| last + width);
    let mut bytes = vec![0_u8; span];
    for (at_to, at_from) in rows {
        let row = (from as usize + at_from) as *const u8;
        let place = bytes[*at_to..at_to + width].as_mut_ptr();
        // SAFETY: the row is one of the source's, and its place in our buffer is as long.
        unsafe { std::ptr::copy_nonoverlapping(row, place, width) };
    }
    // SAFETY: the source is the whole vector; rows that fill an array lie on a device.
    unsafe { to_device(to, bytes.as_ptr().cast(), span) }
}

/// True if there are several rows and the gaps between those of the source are small. Then one wait
/// for all, gaps included, is cheaper than one wait for each row.
fn is_dense(rows: &[(usize, usize)], width: usize) -> bool {
    let span = rows.last().map_or(0, |(_, last)| last + width);
    rows.len() > 1 && (span <= GAPS.0 || span / GAPS.1 <= rows.len() * width)
}

/// Copies rows of a device to the host with one wait.
///
/// # Safety
/// The host's addresses have as many bytes as the rows span.
unsafe fn gather(to: u64, from: u64, rows: &[(usize, usize)], width: usize) -> Result {
    let span = rows.last().map_or(0, |(_, last)| last + width);
    let mut bytes = vec![0_u8; span];
    // SAFETY: the target is the whole vector; pinned memory named instead of device memory holds
    // every row.
    unsafe { to_host(bytes.as_mut_ptr().cast(), from, span)? };
    for (at_to, at_from) in rows {
        let row = &bytes[*at_from..at_from + width];
        // SAFETY: the program has room for this row, and cannot have named our vector as its
        // target.
        unsafe {
            std::ptr::copy_nonoverlapping(row.as_ptr(), (to as usize + at_to) as *mut u8, width);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(pitch: (usize, usize), height: (usize, usize), size: [usize; 3]) -> Copy3D<'static> {
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
        assert_eq!(std::mem::size_of::<Copy3D<'_>>(), 200);
        assert_eq!(std::mem::size_of::<Copy2D<'_>>(), 128);
        let whole = copy((8, 8), (4, 4), [8, 4, 3]);
        assert_eq!(whole.rows(), (vec![(0, 0)], 96));
        let planes = copy((8, 8), (4, 6), [8, 4, 2]);
        assert_eq!(planes.rows(), (vec![(0, 0), (48, 32)], 32));
        let rows = copy((8, 10), (2, 3), [8, 2, 2]);
        let starts = vec![(0, 0), (10, 8), (30, 16), (40, 24)];
        assert_eq!(rows.rows(), (starts, 8));
    }
}
