//! Functions of the program's, and what they are called with.

use std::ffi::c_void;

use crate::status::{Result, Status};

/// A function that the program wants called, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Function<F>(Option<F>);

impl<F: Copy> Function<F> {
    /// The function, if there is one. Its type says that a call is `unsafe`.
    pub(crate) fn get(self) -> Option<F> {
        self.0
    }

    /// The function; null is an error.
    pub(crate) fn take(self) -> Result<F> {
        self.0.ok_or(Status::INVALID_VALUE)
    }
}

/// What a program wants its function to be called with: a pointer that only it follows.
pub(crate) type Data = *mut c_void;

/// `CUhostFn`, and destructors of the same form.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A function of the program's with its data. The program promises that it may be called when CUDA
/// says that it is: on any thread, also long after the call that names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    function: HostFunction,
    data: usize,
}

impl HostCall {
    /// A function as a call names it.
    pub(crate) fn new(function: Function<HostFunction>, data: Data) -> Result<Self> {
        let function = function.take()?;
        let data = data as usize;
        Ok(Self { function, data })
    }

    /// Calls it.
    pub(crate) fn call(&self) {
        // SAFETY: a program that names a function for later promises that it may be called with its data.
        unsafe { (self.function)(self.data as *mut c_void) };
    }

    /// As the program named it.
    pub(crate) fn named(&self) -> (Function<HostFunction>, Data) {
        (Function(Some(self.function)), self.data as Data)
    }

    /// A function of a test's.
    #[cfg(test)]
    pub(crate) fn of_test(function: HostFunction, data: Data) -> Self {
        let data = data as usize;
        Self { function, data }
    }
}
