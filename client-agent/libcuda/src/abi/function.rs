//! Functions of the program and the arguments they are called with.

use std::ffi::c_void;

use super::{Call, Word};
use crate::status::{Result, Status};

/// A function that the program wants called, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Function<'a, F> {
    function: Option<F>,
    call: Call<'a>,
}

impl<F: Copy> Function<'_, F> {
    /// Returns the function, if there is one. Its type makes a call `unsafe`.
    pub(crate) fn get(self) -> Option<F> {
        self.function
    }

    /// Returns the function; null is an error.
    pub(crate) fn take(self) -> Result<F> {
        self.function.ok_or(Status::INVALID_VALUE)
    }
}

/// The argument that the program wants its function called with: a pointer that only the program
/// follows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pointer: *mut c_void,
    call: Call<'a>,
}

impl Data<'_> {
    /// The pointer to pass to the function.
    pub(crate) fn pointer(self) -> *mut c_void {
        self.pointer
    }
}

impl<F: Copy> Word for Function<'_, F> {
    #[inline]
    fn word(&self) -> u64 {
        u64::from(self.function.is_some())
    }
}

impl Word for Data<'_> {
    #[inline]
    fn word(&self) -> u64 {
        self.pointer as u64
    }
}

/// `CUhostFn`, and destructors of the same form.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A function of the program with its data. The program promises that it may be called whenever
/// CUDA says so: on any thread, also long after the call that names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    function: HostFunction,
    data: usize,
}

impl HostCall {
    /// Pairs a function with the data that the same call names for it.
    pub(crate) fn new<'a>(function: Function<'a, HostFunction>, data: Data<'a>) -> Result<Self> {
        let function = function.take()?;
        let data = data.pointer as usize;
        Ok(Self { function, data })
    }

    /// Calls the function.
    pub(crate) fn call(&self) {
        // SAFETY: a program that names a function for later promises that it may be called with its data.
        unsafe { (self.function)(self.data as *mut c_void) };
    }

    /// The function and the data as the program named them.
    pub(crate) fn named(&self) -> (Function<'static, HostFunction>, Data<'static>) {
        let call = std::marker::PhantomData;
        let (function, pointer) = (Some(self.function), self.data as *mut c_void);
        (Function { function, call }, Data { pointer, call })
    }

    /// A function of a test.
    #[cfg(test)]
    pub(crate) fn of_test(function: HostFunction, data: *mut c_void) -> Self {
        let data = data as usize;
        Self { function, data }
    }
}
