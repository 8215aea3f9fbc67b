//! Pointers to one value, to a text, or to untyped data.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

use super::{Call, Word};
use crate::status::{Result, Status};

/// Returns the pointer; null is an error.
#[inline]
pub(crate) fn present<T>(pointer: *const T) -> Result<*const T> {
    match pointer.is_null() {
        true => Err(Status::INVALID_VALUE),
        false => Ok(pointer),
    }
}

/// Destination of a value, or null.
#[repr(transparent)]
pub(crate) struct Out<'a, T> {
    to: *mut T,
    call: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Destination of an item in a list.
    ///
    /// # Safety
    /// The list has room for the item.
    pub(super) unsafe fn of_list(to: *mut T) -> Self {
        let call = PhantomData;
        Self { to, call }
    }

    /// An answer that is not wanted.
    pub(crate) const UNWANTED: Self = Self {
        to: std::ptr::null_mut(),
        call: PhantomData,
    };

    /// Refuses null, before there is anything to undo.
    pub(crate) fn check(&self) -> Result {
        present(self.to).map(|_| ())
    }

    /// Writes a value; null is an error.
    #[inline]
    pub(crate) fn put(&self, value: T) -> Result {
        self.check()?;
        // SAFETY: an `Out` that is not null has room for a value; its alignment is not promised.
        unsafe { self.to.write_unaligned(value) };
        Ok(())
    }

    /// Makes a value and writes it; null is an error before the value is made.
    pub(crate) fn put_made(&self, make: impl FnOnce() -> Result<T>) -> Result {
        self.check()?;
        self.put(make()?)
    }

    /// Writes a value if it is wanted.
    #[inline]
    pub(crate) fn put_if(&self, value: T) {
        // Null means that it is not wanted, and is no error.
        let _ = self.put(value);
    }
}

/// A structure that the call reads, or null.
#[repr(transparent)]
pub(crate) struct In<'a, T> {
    from: *const T,
    call: PhantomData<&'a T>,
}

impl<T: Copy> In<'_, T> {
    /// Reads the structure, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<T> {
        // SAFETY: an `In` that is not null points to a whole structure; its alignment is not
        // promised.
        (!self.from.is_null()).then(|| unsafe { self.from.read_unaligned() })
    }

    /// Reads the structure; null is an error.
    #[inline]
    pub(crate) fn take(&self) -> Result<T> {
        self.get().ok_or(Status::INVALID_VALUE)
    }
}

/// A value that the call reads and changes, or null.
#[repr(transparent)]
pub(crate) struct InOut<'a, T> {
    at: *mut T,
    call: Call<'a>,
}

#[cfg(test)]
impl<'a, T> InOut<'a, T> {
    /// A value of a test.
    pub(super) fn of_test(at: &'a mut T) -> Self {
        let call = PhantomData;
        Self { at, call }
    }
}

impl<T: Copy> InOut<'_, T> {
    /// Reads the value; null is an error.
    pub(crate) fn take(&self) -> Result<T> {
        let (from, call) = (self.at.cast_const(), PhantomData);
        In { from, call }.take()
    }

    /// Changes the value; null is an error.
    pub(crate) fn put(&self, value: T) -> Result {
        let (to, call) = (self.at, PhantomData);
        Out { to, call }.put(value)
    }
}

/// Destination of an answer of a type that depends on what is asked, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct OutAny<'a> {
    to: *mut c_void,
    call: PhantomData<&'a mut c_void>,
}

/// A value with its size.
pub(crate) enum Figure {
    /// A value as large as an int.
    Int(u32),
    /// A value as large as a pointer.
    Long(u64),
}

impl OutAny<'_> {
    /// Writes an answer; null is an error.
    ///
    /// # Safety
    /// The answer to the question has this size.
    pub(crate) unsafe fn put(self, figure: Figure) -> Result {
        match figure {
            Figure::Int(value) => {
                let (to, call) = (self.to.cast(), PhantomData);
                Out { to, call }.put(value)
            }
            Figure::Long(value) => {
                let (to, call) = (self.to.cast(), PhantomData);
                Out { to, call }.put(value)
            }
        }
    }
}

/// A value of a type that depends on what is set, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct InAny<'a> {
    from: *const c_void,
    call: Call<'a>,
}

impl InAny<'_> {
    /// Reads the value, an int or as large as a pointer; null is an error.
    ///
    /// # Safety
    /// The value that is set has this size.
    pub(crate) unsafe fn take(self, is_int: bool) -> Result<Figure> {
        match is_int {
            true => {
                let (from, call) = (self.from.cast(), PhantomData);
                In { from, call }.take().map(Figure::Int)
            }
            false => {
                let (from, call) = (self.from.cast(), PhantomData);
                In { from, call }.take().map(Figure::Long)
            }
        }
    }

    /// Address of the data, for callers that find its length inside it.
    pub(crate) fn address(self) -> *const c_void {
        self.from
    }
}

/// A text that ends with a zero byte, or null.
#[repr(transparent)]
pub(crate) struct Text<'a> {
    from: *const c_char,
    call: PhantomData<&'a CStr>,
}

impl<'a> Text<'a> {
    /// A text that is not described by an argument of this type.
    ///
    /// # Safety
    /// It is null, or points to a text that ends with a zero byte and stays valid for `'a`.
    pub(crate) unsafe fn at(from: *const c_char) -> Self {
        let call = PhantomData;
        Self { from, call }
    }

    /// Returns the text without its terminating zero byte; null is an error.
    pub(crate) fn bytes(&self) -> Result<&'a [u8]> {
        let from = present(self.from)?;
        // SAFETY: a `Text` that is not null ends with a zero byte and stays during the call.
        Ok(unsafe { CStr::from_ptr(from) }.to_bytes())
    }

    /// Returns the text; null is an error, and so is text that is not UTF-8.
    pub(crate) fn take(&self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Status::INVALID_VALUE)
    }

    /// Returns the text, or an empty one for null.
    pub(crate) fn take_or_empty(&self) -> Result<&'a str> {
        match self.from.is_null() {
            true => Ok(""),
            false => self.take(),
        }
    }
}

/// An address of device memory, or of the program's memory if that is pinned or the function takes
/// either. In a copy, the count of the same call is the number of bytes there.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Address<'a> {
    at: u64,
    call: Call<'a>,
}

impl Address<'_> {
    /// The address as a number.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.at
    }
}

/// A pointer that is not needed here and never followed.
#[repr(transparent)]
pub(crate) struct Unused<'a> {
    at: *const c_void,
    call: PhantomData<&'a c_void>,
}

impl Unused<'_> {
    /// True if the pointer is null.
    pub(crate) fn is_null(&self) -> bool {
        self.at.is_null()
    }
}

impl<T> Word for Out<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.to as u64
    }
}

impl<T> Word for In<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.from as u64
    }
}

impl<T> Word for InOut<'_, T> {
    #[inline]
    fn word(&self) -> u64 {
        self.at as u64
    }
}

impl Word for OutAny<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.to as u64
    }
}

impl Word for InAny<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.from as u64
    }
}

impl Word for Text<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.from as u64
    }
}

impl Word for Address<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.at
    }
}

impl Word for Unused<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.at as u64
    }
}
