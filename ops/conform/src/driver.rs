//! The driver under test: a shared object with functions that are called by name.

#![expect(
    unsafe_code,
    reason = "loads the driver under test and calls its functions"
)]

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_void};
use std::fmt;
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use libloading::Library;

use crate::codes;

/// A result code of the driver.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match codes::name(self.0) {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An argument in the C calling convention, sign-extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// A null pointer or handle, and every zero.
    pub(crate) const NULL: Self = Self(0);
}

/// A value that can be passed as an argument.
pub(crate) trait Argument {
    /// The argument in the C calling convention.
    fn word(self) -> Word;
}

macro_rules! numbers {
    ($($kind:ty => $wide:ty),*) => {
        $(impl Argument for $kind {
            fn word(self) -> Word {
                Word((self as $wide) as u64)
            }
        })*
    };
}
numbers!(u8 => u64, u16 => u64, u32 => u64, u64 => u64, usize => u64, i32 => i64, i64 => i64);

impl Argument for Word {
    fn word(self) -> Word {
        self
    }
}

impl<T> Argument for &mut T {
    fn word(self) -> Word {
        Word(std::ptr::from_mut(self).expose_provenance() as u64)
    }
}

impl<T> Argument for &T {
    fn word(self) -> Word {
        Word(std::ptr::from_ref(self).expose_provenance() as u64)
    }
}

impl<T> Argument for &[T] {
    fn word(self) -> Word {
        Word(self.as_ptr().expose_provenance() as u64)
    }
}

impl<T> Argument for &mut [T] {
    fn word(self) -> Word {
        Word(self.as_mut_ptr().expose_provenance() as u64)
    }
}

impl Argument for &CStr {
    fn word(self) -> Word {
        Word(self.as_ptr().expose_provenance() as u64)
    }
}

/// Makes the words of a call's arguments.
macro_rules! words {
    ($($argument:expr),* $(,)?) => {
        &[$($crate::driver::Argument::word($argument)),*]
    };
}
pub(crate) use words;

/// The driver under test. It stays loaded until the process ends.
pub(crate) struct Driver {
    library: Library,
    found: Mutex<HashMap<String, Option<usize>>>,
}

impl Driver {
    /// Loads a driver by its path, or by a name for the loader.
    pub(crate) fn load(path: &OsStr) -> Result<Self> {
        // SAFETY: the user chose the object, which is the driver under test, and so the code that
        // it runs on load.
        let library = unsafe { Library::new(path) };
        let library =
            library.with_context(|| format!("{} cannot be loaded", path.to_string_lossy()))?;
        Ok(Self {
            library,
            found: Mutex::default(),
        })
    }

    fn address(&self, symbol: &str) -> Option<usize> {
        let mut found = self
            .found
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *found.entry(symbol.to_owned()).or_insert_with(|| {
            // SAFETY: the symbol is only used as an address here.
            let symbol = unsafe { self.library.get::<*mut c_void>(symbol) };
            symbol.ok().map(|it| *it as usize)
        })
    }

    /// Calls a function by its symbol; `None` if the driver lacks it. All arguments of the driver
    /// API except one float are integers and pointers. Both ABIs of 64-bit Linux pass those as
    /// whole words.
    pub(crate) fn call(&self, symbol: &str, words: &[Word]) -> Option<Code> {
        let at = self.address(symbol)?;
        // SAFETY: `at` is a function of the driver; the check passes the arguments that its manual
        // describes.
        Some(Code(unsafe { call(at, words) }))
    }

    /// Calls `cuParamSetf`, the one function that takes a float.
    pub(crate) fn set_float(&self, kernel: u64, offset: i32, value: f32) -> Option<Code> {
        type Called = unsafe extern "C" fn(u64, i32, f32) -> i32;
        let at = std::ptr::with_exposed_provenance::<c_void>(self.address("cuParamSetf")?);
        // SAFETY: the function of this name is of this type.
        let function = unsafe { std::mem::transmute::<*const c_void, Called>(at) };
        // SAFETY: as above.
        Some(Code(unsafe { function(kernel, offset, value) }))
    }
}

/// Calls a function with these words as arguments.
///
/// # Safety
/// At the address is a C function with this number of integers and pointers as parameters, which
/// returns an int.
unsafe fn call(at: usize, words: &[Word]) -> i32 {
    macro_rules! of {
        ($($name:ident),*) => {{
            type Called = unsafe extern "C" fn($(of!(@word $name)),*) -> i32;
            let at = std::ptr::with_exposed_provenance::<c_void>(at);
            // SAFETY: guaranteed by the caller; a word is as wide as a register.
            let function = unsafe { std::mem::transmute::<*const c_void, Called>(at) };
            let &[$($name),*] = words else { unreachable!("the match counted them") };
            // SAFETY: guaranteed by the caller.
            unsafe { function($($name.0),*) }
        }};
        (@word $name:ident) => { u64 };
    }
    match words.len() {
        0 => of!(),
        1 => of!(a),
        2 => of!(a, b),
        3 => of!(a, b, c),
        4 => of!(a, b, c, d),
        5 => of!(a, b, c, d, e),
        6 => of!(a, b, c, d, e, f),
        7 => of!(a, b, c, d, e, f, g),
        8 => of!(a, b, c, d, e, f, g, h),
        9 => of!(a, b, c, d, e, f, g, h, i),
        10 => of!(a, b, c, d, e, f, g, h, i, j),
        11 => of!(a, b, c, d, e, f, g, h, i, j, k),
        12 => of!(a, b, c, d, e, f, g, h, i, j, k, l),
        13 => of!(a, b, c, d, e, f, g, h, i, j, k, l, m),
        14 => of!(a, b, c, d, e, f, g, h, i, j, k, l, m, n),
        15 => of!(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o),
        many => panic!("no function of the driver API has {many} arguments"),
    }
}

/// The text at an address that the driver returned.
pub(crate) fn text(at: *const std::ffi::c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: texts returned by the driver are NUL-terminated and live as long as the object that
    // they name.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_string_lossy().into_owned()
}

/// Reads items at an address that the host may read, according to the driver.
pub(crate) fn get<T: Copy>(at: u64, count: usize) -> Vec<T> {
    let first = std::ptr::with_exposed_provenance::<T>(at as usize);
    // SAFETY: a check reads no more than it has allocated there.
    (0..count)
        .map(|it| unsafe { first.add(it).read_volatile() })
        .collect()
}

/// Writes items at an address that the host may write, according to the driver.
pub(crate) fn set<T: Copy>(at: u64, items: &[T]) {
    let first = std::ptr::with_exposed_provenance_mut::<T>(at as usize);
    for (number, item) in items.iter().enumerate() {
        // SAFETY: a check writes no more than it has allocated there.
        unsafe { first.add(number).write_volatile(*item) };
    }
}
