//! Every function of NVML that programs look up: defined in [`crate::api`], or here as one that
//! returns that it is not supported.

#![expect(unsafe_code, reason = "exports of a C interface")]

use crate::api::*;
use crate::guard::guard;
use crate::status::Status;

/// The address of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address(*const ());

// SAFETY: it is the address of a function, which never changes.
unsafe impl Sync for Address {}

/// An exported function of NVML.
#[derive(Debug)]
pub struct ExportedSymbol {
    /// Its name.
    pub name: &'static str,
    /// True if it works; false if it returns that it is not supported.
    pub works: bool,
    address: Address,
}

impl ExportedSymbol {
    /// Address of the function in this process.
    #[must_use]
    pub fn address(&self) -> *const () {
        self.address.0
    }
}

/// All functions, by name.
#[must_use]
pub fn symbols() -> &'static [ExportedSymbol] {
    SYMBOLS
}

macro_rules! unsupported {
    ($name:ident) => {
        /// Not supported.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i32 {
            guard(stringify!($name), || Err::<(), _>(Status::NOT_SUPPORTED))
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
include!(concat!(env!("OUT_DIR"), "/table.rs"));

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names in the first column of the page's tables.
    fn named(page: &str) -> BTreeSet<&str> {
        let cells = page.lines().filter_map(|line| line.strip_prefix("| "));
        let cells = cells.filter_map(|line| line.split(" | ").next());
        let names = cells.flat_map(|cell| cell.split('`'));
        names.filter(|name| name.starts_with("nvml")).collect()
    }

    #[test]
    fn the_page_names_the_functions_that_work_and_no_other() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/reference/nvml.md")).expect("the page");
        let works = symbols().iter().filter(|symbol| symbol.works);
        let works: BTreeSet<_> = works.map(|symbol| symbol.name).collect();
        assert_eq!(named(&page), works);
        let of_python = symbols().len() - 17;
        assert!(
            page.contains(&format!("All {of_python} names")),
            "{of_python}"
        );
    }

    #[test]
    fn every_function_is_refused_before_the_library_is_initialised() {
        for symbol in symbols().iter().filter(|symbol| !symbol.works) {
            // SAFETY: functions that do not work take no argument and return a number.
            let call: extern "C" fn() -> i32 = unsafe { std::mem::transmute(symbol.address()) };
            assert_eq!(call(), Status::UNINITIALIZED.0, "{}", symbol.name);
        }
    }
}
