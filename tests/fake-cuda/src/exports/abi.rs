//! C arguments as the driver API has them. Every access through a pointer of the program is here.

use std::ffi::{CStr, c_char};

use crate::codes::INVALID_VALUE;

/// An address to which an answer is written.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(super) fn put(self, value: T) -> Result<(), u32> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the API's contract the program has room for the answer there.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes several answers, one behind the other.
    pub(super) fn put_all(self, values: &[T]) -> Result<(), u32> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the API's contract the program has room for this many answers there.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) };
        Ok(())
    }

    pub(super) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

impl<T> Out<T> {
    /// Returns memory at an address that the program gave as a number.
    pub(super) fn at(address: u64) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address as usize))
    }
}

/// An address from which arguments are read.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(super) struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub(super) fn at(address: u64) -> Self {
        Self(std::ptr::with_exposed_provenance(address as usize))
    }

    pub(super) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// Reads `count` values.
    pub(super) fn all(self, count: usize) -> Result<Vec<T>, u32> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the API's contract the program has this many values there while the call lasts.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) }.to_vec())
    }

    pub(super) fn get(self) -> Result<T, u32> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the API's contract the program has a value there while the call lasts.
        Ok(unsafe { self.0.read() })
    }
}

/// A text that ends in a zero byte.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Text(*const c_char);

impl Text {
    pub(super) fn at(address: u64) -> Self {
        Self(std::ptr::with_exposed_provenance(address as usize))
    }

    pub(super) fn bytes(self) -> Result<Vec<u8>, u32> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the API's contract it is terminated and lives while the call lasts.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }

    pub(super) fn get(self) -> Result<String, u32> {
        String::from_utf8(self.bytes()?).map_err(|_| INVALID_VALUE)
    }
}

/// The shape of a launch with attributes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchConfig {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// An attribute: its number, and its value's words.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct LaunchAttribute {
    number: u32,
    unused: u32,
    value: [u32; 16],
}

/// The number of the attribute with a cluster's dimensions.
const CLUSTER: u32 = 4;

impl LaunchConfig {
    /// Number of blocks of a cluster.
    pub(super) fn cluster(&self) -> Result<u64, u32> {
        let attributes = self.attributes.all(self.count as usize)?;
        let cluster = attributes.iter().find(|it| it.number == CLUSTER);
        Ok(cluster.map_or(1, |it| {
            let [x, y, z, ..] = it.value;
            u64::from(x.max(1)) * u64::from(y.max(1)) * u64::from(z.max(1))
        }))
    }
}
