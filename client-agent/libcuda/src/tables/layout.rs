//! The tables: arrays of function pointers. The first entry is the table's size in bytes, including
//! itself; one table has no size.

#![expect(unsafe_code, reason = "pointers to functions, shared by all threads")]

use std::ffi::{c_int, c_void};

use super::answer::*;
use super::digest::{Device, Question, answer};
use super::ids::{IDS, Id};
use crate::abi::Out;
use crate::guard::unlisted;
use crate::process::process;
use client_session::driver_version;

/// A table of `N` places.
struct Table<const N: usize>([*const (); N]);

// SAFETY: it never changes, and its pointers are to functions.
unsafe impl<const N: usize> Sync for Table<N> {}

impl<const N: usize> Table<N> {
    /// Makes a table with these functions at these places; calls at other places are refused and
    /// counted.
    const fn new(functions: &[(usize, *const ())]) -> Self {
        let mut places = [std::ptr::null(); N];
        let mut at = 0;
        while at < N {
            places[at] = UNKNOWN[at];
            at += 1;
        }
        places[0] = std::ptr::without_provenance(N * size_of::<usize>());
        at = 0;
        while at < functions.len() {
            places[functions[at].0] = functions[at].1;
            at += 1;
        }
        Self(places)
    }

    const fn first(&'static self) -> Address {
        Address(self.0.as_ptr().cast())
    }
}

macro_rules! unknown {
    ($($place:literal)*) => {
        /// For each place, a function that knows the place.
        const UNKNOWN: [*const (); 95] = [$(unknown::<$place> as *const ()),*];
    };
}

unknown! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
    37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
    70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94
}

/// Address of a table.
pub(super) struct Address(*const c_void);

// SAFETY: it is of a table that lives as long as the process and never changes.
unsafe impl Sync for Address {}

/// The part of its interface that the runtime uses: the primary context of a device; before 12.0,
/// loading of images.
static RUNTIME: Table<13> = Table::new(&[
    (1, load as *const ()),
    (2, primary_context as *const ()),
    (6, load as *const ()),
    (7, nothing as *const ()),
    (12, nothing as *const ()),
]);
/// Hooks for tools: buffers in which nothing is enabled.
static HOOKS: Table<7> = Table::new(&[(2, hooks as *const ()), (6, hooks as *const ())]);
static THREAD: Table<4> = Table::new(&[(2, thread_context as *const ())]);
/// The table without a size.
static CONTEXT: Table<4> = Table::new(&[
    (0, put as *const ()),
    (1, delete as *const ()),
    (2, get as *const ()),
]);
static CHECKS: Table<4> = Table::new(&[(2, check as *const ()), (3, nothing as *const ())]);
static INTEGRITY: Integrity = Integrity(Table::new(&[(1, integrity as *const ())]));
static TOOLS: Table<95> = Table::new(&[
    (4, tools as *const ()),
    (39, number as *const ()),
    (51, belonging as *const ()),
]);

/// The positions of multiprocessors. cuBLASLt queries them on Hopper. It works without them if
/// refused, but calls through a null pointer if the table is missing.
static PLACES: Table<14> = Table::new(&[(4, refused as *const ())]);

/// The table with its own address as part of its answer.
struct Integrity(Table<3>);

impl Integrity {
    /// Address of the table.
    fn address(&self) -> u64 {
        self.0.0.as_ptr() as u64
    }

    /// Address of the runtime's interface.
    fn runtime() -> u64 {
        RUNTIME.0.as_ptr() as u64
    }
}

/// The tables, in the order of their ids.
static TABLES: [Address; 8] = [
    RUNTIME.first(),
    HOOKS.first(),
    THREAD.first(),
    CONTEXT.first(),
    CHECKS.first(),
    INTEGRITY.0.first(),
    TOOLS.first(),
    PLACES.first(),
];

/// The table of an id.
pub(super) fn find(id: &Id) -> Option<*const c_void> {
    let place = IDS.iter().position(|its| its == id)?;
    Some(TABLES[place].0)
}

/// Computes the number by which the runtime verifies the answer.
extern "C" fn integrity(version: u32, seconds: u64, out: Out<'_, [u8; 16]>) -> c_int {
    unlisted("the runtime's tables", || {
        out.check()?;
        let devices = process()?.devices.iter().map(|device| {
            let properties = &device.properties;
            let place = [PCI_DOMAIN, PCI_BUS, PCI_DEVICE]
                .map(|number| properties.attribute(number).unwrap_or(0));
            Device {
                uuid: properties.uuid(),
                place,
            }
        });
        let question = Question {
            driver: driver_version() as u32,
            version,
            process: std::process::id(),
            // SAFETY: it only reads the thread's id, and cannot fail.
            thread: unsafe { libc::pthread_self() } as u32,
            runtime: Integrity::runtime(),
            integrity: INTEGRITY.address(),
            function: integrity as *const () as u64,
            seconds,
        };
        out.put(answer(&question, devices))
    })
}

/// `CUdevice_attribute`s of a device's PCI address.
const PCI_DOMAIN: i32 = 50;
const PCI_BUS: i32 = 33;
const PCI_DEVICE: i32 = 34;
