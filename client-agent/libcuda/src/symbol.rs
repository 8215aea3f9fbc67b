//! Every symbol of the driver API, and the lookup by name and version.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::*;
use crate::status::{Status, note};

/// The address of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *const ());

#[expect(
    unsafe_code,
    reason = "addresses of functions are the same in every thread"
)]
// SAFETY: nothing is read or written through it; it is only called, with its own signature.
unsafe impl Sync for Address {}

/// A function of the driver API in one of its versions.
#[derive(Debug)]
pub(crate) struct Symbol {
    /// The exported name.
    #[cfg(test)]
    pub(crate) name: &'static str,
    /// The name without suffixes, as programs look it up.
    pub(crate) base: &'static str,
    /// The version of CUDA that introduced it, 1000 times the major plus 10 times the minor.
    pub(crate) version: i32,
    /// True if its default stream is the thread's.
    pub(crate) per_thread: bool,
    /// True if it is implemented.
    #[cfg(test)]
    pub(crate) implemented: bool,
    pub(crate) address: Address,
}

macro_rules! unsupported {
    ($name:ident) => {
        /// Not supported; the name is noted.
        #[expect(unsafe_code, reason = "an export")]
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> i32 {
            static CALLED: AtomicBool = AtomicBool::new(false);
            refuse(stringify!($name), &CALLED)
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
include!(concat!(env!("OUT_DIR"), "/table.rs"));

#[cold]
fn refuse(name: &'static str, called: &AtomicBool) -> i32 {
    if crate::fork::is_forked() {
        return Status::NOT_INITIALIZED.0;
    }
    if !called.swap(true, Ordering::Relaxed) {
        crate::stats::missed(name);
        note(
            Status::NOT_SUPPORTED,
            format!("{name} is not supported by Warploom yet"),
        );
    }
    Status::NOT_SUPPORTED.0
}

/// The version of CUDA that introduced the newest function.
pub(crate) fn newest() -> i32 {
    SYMBOLS
        .iter()
        .map(|symbol| symbol.version)
        .max()
        .unwrap_or(0)
}

/// The result of a lookup by name and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Address(*const ()),
    /// The function does not exist.
    Unknown,
    /// A later version introduced it.
    TooNew,
}

/// The newest form of a function that a program of this version knows. With `per_thread`, the form
/// for the thread's default stream, if there is one.
pub(crate) fn find(base: &str, version: i32, per_thread: bool) -> Found {
    // The list is sorted by symbol, so the forms of one function are adjacent or nearly so.
    let forms = || SYMBOLS.iter().filter(move |symbol| symbol.base == base);
    let mut best: Option<&Symbol> = None;
    for symbol in forms().filter(|symbol| symbol.version <= version) {
        let key = |it: &Symbol| (it.per_thread == per_thread, it.version);
        let wanted = symbol.per_thread == per_thread || !symbol.per_thread;
        if wanted && best.is_none_or(|best| key(best) < key(symbol)) {
            best = Some(symbol);
        }
    }
    match best {
        Some(symbol) => Found::Address(symbol.address.0),
        None if forms().next().is_some() => Found::TooNew,
        None => Found::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn name_of(base: &str, version: i32, per_thread: bool) -> &'static str {
        let Found::Address(address) = find(base, version, per_thread) else {
            panic!("{base} {version} is not found");
        };
        let symbol = SYMBOLS.iter().find(|symbol| symbol.address.0 == address);
        symbol.expect("an address of the table").name
    }

    #[test]
    fn names_and_versions_find_the_right_form() {
        assert_eq!(name_of("cuMemAlloc", 3020, false), "cuMemAlloc_v2");
        assert_eq!(name_of("cuMemAlloc", 13_000, true), "cuMemAlloc_v2");
        assert_eq!(name_of("cuCtxGetDevice", 12_090, false), "cuCtxGetDevice");
        assert_eq!(
            name_of("cuCtxGetDevice", 13_000, false),
            "cuCtxGetDevice_v2"
        );
        assert_eq!(
            name_of("cuMemcpyHtoDAsync", 12_000, true),
            "cuMemcpyHtoDAsync_v2_ptsz"
        );
        assert_eq!(
            name_of("cuLaunchKernel", 12_000, true),
            "cuLaunchKernel_ptsz"
        );
        assert_eq!(name_of("cuCtxCreate", 12_090, false), "cuCtxCreate_v4");
        assert_eq!(find("cuLibraryLoadData", 11_000, false), Found::TooNew);
        assert_eq!(find("", 13_000, false), Found::Unknown);
        assert_eq!(find("cuNothing", 13_000, false), Found::Unknown);
    }

    #[test]
    fn every_symbol_is_there_once() {
        assert_eq!(SYMBOLS.len(), 724);
        let mut names: Vec<_> = SYMBOLS.iter().map(|symbol| symbol.name).collect();
        names.dedup();
        assert_eq!(names.len(), 724);
    }

    /// Number of tests that the coverage table names for a function.
    const SHOWN: usize = 2;

    /// Checks `docs/reference/cuda-coverage.md`; with `WARPLOOM_BLESS` set, it is written.
    #[test]
    fn the_coverage_table_is_up_to_date() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = ["client-agent/libcuda/tests", "tests/end-to-end/programs"];
        let mut tests = Vec::new();
        for folder in folders {
            for entry in std::fs::read_dir(root.join(folder)).expect("the tests") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_string_lossy();
                // It declares functions but calls none.
                if name != "driver.h" {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    tests.push((name.into_owned(), text));
                }
            }
        }
        tests.sort();
        let done = SYMBOLS.iter().filter(|symbol| symbol.implemented).count();
        let mut table = format!(
            "# The driver API\n\n\
             Every symbol of CUDA 13's driver API is exported and found by `cuGetProcAddress`; {done} of {} \
             do\nwhat CUDA says, the others answer `CUDA_ERROR_NOT_SUPPORTED` when they are called. The \
             table is\nwritten by a test of `client-agent/libcuda`; its last column names tests there and \
             programs of\n`tests/end-to-end` that call the function. What a function does \
             otherwise than the manual\nsays is listed in [conformance.md](conformance.md#deviations).\n\n\
             | symbol | since | state | tests |\n| --- | --- | --- | --- |\n",
            SYMBOLS.len()
        );
        for symbol in SYMBOLS {
            let calls = |text: &str| {
                text.match_indices(symbol.name).any(|(at, name)| {
                    let next = text[at + name.len()..].chars().next();
                    next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
                })
            };
            let named: Vec<_> = tests.iter().filter(|(_, text)| calls(text)).collect();
            let mut named: Vec<_> = named.iter().map(|(name, _)| format!("`{name}`")).collect();
            if let Some(more @ 1..) = named.len().checked_sub(SHOWN) {
                named.truncate(SHOWN);
                named.push(format!("{more} more"));
            }
            let (major, minor) = (symbol.version / 1000, symbol.version % 1000 / 10);
            let state = if symbol.implemented {
                "works"
            } else {
                "not supported"
            };
            table += &format!(
                "| `{}` | {major}.{minor} | {state} | {} |\n",
                symbol.name,
                named.join(", ")
            );
        }
        let path = root.join("docs/reference/cuda-coverage.md");
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(&path, &table).expect("it is written");
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == table,
            "with WARPLOOM_BLESS=1 this test writes docs/reference/cuda-coverage.md"
        );
    }
}
