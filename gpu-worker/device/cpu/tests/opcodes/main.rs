//! One form of one opcode at a time, on edge and random values, with the vector lane loops and with
//! the portable ones. The expectations are written without the engine.
//!
//! A suite is a module with `pub(crate) fn tests() -> Vec<Test>`, named once below. Its tests are
//! run, and their coverage goes into `docs/reference/ptx-coverage.md`.

mod cells;
#[path = "../document/mod.rs"]
mod document;
mod exact;
mod fragments;
#[path = "../launch/mod.rs"]
mod launch;
mod refusals;
mod table;
mod texels;
mod values;
mod vector;
mod warp;

use vector::Test;

/// Declares the suites: a module, a test that runs it, and its part of the coverage table.
macro_rules! suites {
    ($($name:ident,)*) => {
        $(mod $name;)*

        mod suite {
            $(#[test] fn $name() { crate::vector::run(&crate::$name::tests()); })*
        }

        /// Each suite's name with the forms its tests cover.
        fn covered() -> Vec<(String, Vec<String>)> {
            let forms = |tests: Vec<Test>| tests.into_iter().flat_map(|test| test.forms).collect();
            vec![$((stringify!($name).to_owned(), forms($name::tests())),)*]
        }
    };
}

suites! {
    approximations,
    arguments,
    arithmetic,
    atomics,
    barriers,
    carries,
    comparisons,
    control,
    conversions,
    copies,
    extremes,
    fields,
    integers,
    matrices,
    memory,
    mma,
    moves,
    objects,
    places,
    scopes,
    sparse,
    stacks,
    surfaces,
    textures,
    vectors,
    video,
    warps,
    wmma,
}
