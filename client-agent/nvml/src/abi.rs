//! Arguments of the C interface, typed by what the caller promises about them. None can be made
//! without `unsafe`; only programs make them, by calling an export. The promise ends with the call.

#![expect(
    unsafe_code,
    reason = "reads and writes where the arguments of exports point to"
)]

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use bus_schemas::GpuId;

use crate::status::{Result, Status};

/// Destination of a value, or null.
#[repr(transparent)]
pub(crate) struct Out<'a, T> {
    to: *mut T,
    call: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Refuses null, before any slow work.
    pub(crate) fn check(&self) -> Result {
        match self.to.is_null() {
            true => Err(Status::INVALID_ARGUMENT),
            false => Ok(()),
        }
    }

    /// Writes a value; null is an error.
    pub(crate) fn put(&self, value: T) -> Result {
        self.check()?;
        // SAFETY: an `Out` that is not null has room for a value; its alignment is not promised.
        unsafe { self.to.write_unaligned(value) };
        Ok(())
    }
}

impl<T: Copy> Out<'_, T> {
    /// Reads the value that the caller set; null is an error. Only for arguments that the caller
    /// sets.
    pub(crate) fn take(&self) -> Result<T> {
        self.check()?;
        // SAFETY: such an `Out` that is not null holds a value that the caller has set.
        Ok(unsafe { self.to.read_unaligned() })
    }
}

/// Destination of a list, or null; another argument has its room in items.
#[repr(transparent)]
pub(crate) struct OutList<'a, T> {
    to: *mut T,
    call: PhantomData<&'a mut T>,
}

impl<T: Copy> OutList<'_, T> {
    /// Writes items, and their number to `count`, which first holds the room. If the room is too
    /// small, only the number is written.
    pub(crate) fn put(&self, count: &Out<'_, u32>, items: &[T]) -> Result {
        let room = count.take()?;
        let number = items.len() as u32;
        if number > room {
            count.put(number)?;
            return Err(Status::INSUFFICIENT_SIZE);
        }
        if number > 0 && self.to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        for (at, item) in items.iter().enumerate() {
            // SAFETY: the list has room for as many items as `count` said, and `at` is below that.
            unsafe { self.to.add(at).write_unaligned(*item) };
        }
        count.put(number)
    }

    /// Changes each of `count` items; null is an error.
    pub(crate) fn change(&self, count: usize, change: impl Fn(T) -> T) -> Result {
        if self.to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        for at in 0..count {
            // SAFETY: the caller has set as many items as it says, and `at` is below that.
            let at = unsafe { self.to.add(at) };
            // SAFETY: as above; the alignment is not promised.
            unsafe { at.write_unaligned(change(at.read_unaligned())) };
        }
        Ok(())
    }
}

/// Destination of a text, or null; another argument has its room in bytes.
#[repr(transparent)]
pub(crate) struct OutText<'a>(OutList<'a, u8>);

impl OutText<'_> {
    /// Writes a text with a terminating zero byte; one that is too long is an error.
    pub(crate) fn put(&self, room: u32, text: &str) -> Result {
        if self.0.to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if room as usize <= text.len() {
            return Err(Status::INSUFFICIENT_SIZE);
        }
        for (at, byte) in text.bytes().chain([0]).enumerate() {
            // SAFETY: the text has room for `room` bytes, and `at` is below that.
            unsafe { self.0.to.add(at).write(byte) };
        }
        Ok(())
    }

    /// Writes as much of a text as fits.
    pub(crate) fn put_cut(&self, room: u32, text: &str) -> Result {
        let room_for = (room as usize)
            .checked_sub(1)
            .ok_or(Status::INVALID_ARGUMENT)?;
        let end = text.floor_char_boundary(room_for);
        self.put(room, text.get(..end).unwrap_or_default())
    }
}

/// A text that ends with a zero byte, or null.
#[repr(transparent)]
pub(crate) struct Text<'a> {
    from: *const c_char,
    call: PhantomData<&'a CStr>,
}

impl<'a> Text<'a> {
    /// Returns the text; null is an error, and so is text that is not UTF-8.
    pub(crate) fn take(&self) -> Result<&'a str> {
        if self.from.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: a `Text` that is not null ends with a zero byte and stays during the call.
        let text = unsafe { CStr::from_ptr(self.from) };
        text.to_str().map_err(|_| Status::INVALID_ARGUMENT)
    }
}

/// The handle of a device for programs: its number in the cluster. So it stays the same device when
/// other devices come or go, and in the child of a fork too.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Handle(usize);

/// Marks a handle, so that it is never null, nor a number that a program invents.
const MARK: usize = 0x5741_5250 << 32;

impl Handle {
    /// The handle of a device.
    pub(crate) fn of(gpu: GpuId) -> Self {
        Self(MARK | gpu as usize)
    }

    /// The device's number.
    pub(crate) fn gpu(self) -> Result<GpuId> {
        match self.0 & !0xffff_ffff == MARK {
            true => Ok((self.0 & 0xffff_ffff) as GpuId),
            false => Err(Status::INVALID_ARGUMENT),
        }
    }
}
