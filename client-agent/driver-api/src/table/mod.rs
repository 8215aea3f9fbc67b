//! The functions, by the manual's sections.

mod devices;
mod graphs;
mod memory;
mod modules;
mod streams;

use crate::function::DriverFunction;

/// Defines rows: `symbol(state) { parameter: role, ... }` below the name of a section. A function
/// that is not allowed during every capture says so after its state: `symbol(state, Unsafe)`.
macro_rules! rows {
    (@capture) => { $crate::function::DuringCapture::Allowed };
    (@capture $capture:ident) => { $crate::function::DuringCapture::$capture };
    ($(#[$meta:meta])* $list:ident: $($section:literal {
        $($symbol:ident($state:ident $(, $capture:ident)?) { $($name:ident: $role:expr),* $(,)? })*
    })*) => {
        $(#[$meta])*
        pub(super) const $list: &[$crate::function::DriverFunction] = &[$($($crate::function::DriverFunction {
            symbol: stringify!($symbol),
            section: $section,
            state: $crate::function::State::$state,
            capture: $crate::table::rows!(@capture $($capture)?),
            parameters: &[$($crate::function::Parameter { name: stringify!($name), role: $role }),*],
        }),*),*];
    };
}
use rows;

const PARTS: [&[DriverFunction]; 5] = [
    devices::ROWS,
    modules::ROWS,
    memory::ROWS,
    streams::ROWS,
    graphs::ROWS,
];

const COUNT: usize = {
    let (mut part, mut count) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// Every function of the table.
pub static FUNCTIONS: [DriverFunction; COUNT] = {
    let mut all = [PARTS[0][0]; COUNT];
    let (mut part, mut next) = (0, 0);
    while part < PARTS.len() {
        let mut at = 0;
        while at < PARTS[part].len() {
            all[next] = PARTS[part][at];
            next += 1;
            at += 1;
        }
        part += 1;
    }
    all
};

/// The row of a symbol.
///
/// # Panics
/// If the table has none. In a constant this is a compile error, so no export lacks a row.
#[must_use]
pub const fn function(symbol: &str) -> &'static DriverFunction {
    let mut part = 0;
    while part < PARTS.len() {
        let rows = PARTS[part];
        let mut at = 0;
        while at < rows.len() {
            if equal(rows[at].symbol, symbol) {
                return &rows[at];
            }
            at += 1;
        }
        part += 1;
    }
    panic!("the table of the driver API has no such function")
}

const fn equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    // Names have common prefixes, and differ at their ends.
    let mut at = one.len();
    while at > 0 {
        at -= 1;
        if one[at] != other[at] {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_symbol_has_one_row() {
        let symbols: BTreeSet<&str> = FUNCTIONS.iter().map(|it| it.symbol).collect();
        assert_eq!(symbols.len(), FUNCTIONS.len());
        assert!(symbols.iter().all(|it| it.starts_with("cu")));
        assert_eq!(function("cuInit").symbol, "cuInit");
        assert_eq!(function("cuMemAlloc_v2").base(), "cuMemAlloc");
    }
}
