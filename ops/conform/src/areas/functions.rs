//! Functions: their attributes and names.

use std::ffi::c_char;

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::INVALID_VALUE;
use crate::driver::words;
use crate::finding::{Finding, ensure};

const FUNCTIONS: &str = "Execution Control";

fn attribute(bench: &Bench, kernel: u64, number: i32) -> Result<i32, Finding> {
    let mut value = -1i32;
    bench.ok("cuFuncGetAttribute", words![&mut value, number, kernel])?;
    Ok(value)
}

#[expect(clippy::too_many_lines, reason = "one check after another")]
pub(super) fn checks() -> Vec<Check> {
    let of = |function| (function, FUNCTIONS);
    let is = |number: i32, claim: &'static str, wanted: fn(i32) -> bool| {
        Check::new(of("cuFuncGetAttribute"), claim, move |it| {
            let value = attribute(it, it.kernel(c"bounded")?, number)?;
            ensure!(wanted(value), "attribute {number} is {value}");
            Ok(())
        })
    };
    let kept = |number: i32, claim: &'static str, value: i32| {
        Check::new(of("cuFuncSetAttribute"), claim, move |it| {
            let module = it.fresh_module()?;
            let kernel = it.made("cuModuleGetFunction", words![module, c"reverse"])?;
            it.ok("cuFuncSetAttribute", words![kernel, number, value])?;
            let seen = attribute(it, kernel, number)?;
            it.ok("cuModuleUnload", words![module])?;
            ensure!(seen == value, "{seen}");
            Ok(())
        })
    };
    vec![
        is(0, "threads per block are bounded by maxntid", |it| {
            it == 128
        }),
        is(1, "static shared memory is the kernel's", |it| it == 4096),
        is(4, "a kernel uses registers", |it| (1..=255).contains(&it)),
        is(5, "the PTX version is a number of two digits", |it| {
            it >= 30
        }),
        is(6, "the binary version is a number of two digits", |it| {
            it >= 30
        }),
        kept(8, "dynamic shared memory is as it was set", 32 << 10),
        kept(9, "the carve-out of shared memory is as it was set", 50),
        Check::new(
            of("cuFuncSetAttribute"),
            "more shared memory than a block can have is refused",
            |it| {
                let most = it.attribute(97)?;
                it.expect(
                    INVALID_VALUE,
                    "cuFuncSetAttribute",
                    words![it.kernel(c"bounded")?, 8i32, most],
                )
            },
        ),
        Check::new(
            of("cuFuncSetAttribute"),
            "an attribute that cannot be set is refused",
            |it| {
                it.expect(
                    INVALID_VALUE,
                    "cuFuncSetAttribute",
                    words![it.kernel(c"fill")?, 4i32, 10i32],
                )
            },
        ),
        Check::new(
            of("cuFuncGetAttribute"),
            "a number beyond the last is no attribute",
            |it| {
                let mut value = 0i32;
                it.expect(
                    INVALID_VALUE,
                    "cuFuncGetAttribute",
                    words![&mut value, 999i32, it.kernel(c"fill")?],
                )
            },
        ),
        Check::new(
            of("cuFuncGetModule"),
            "a function's module is the one it came from",
            |it| {
                let (module, mut seen) = (it.module()?, 0u64);
                it.ok("cuFuncGetModule", words![&mut seen, it.kernel(c"fill")?])?;
                ensure!(seen == module, "{seen:#x}, not {module:#x}");
                Ok(())
            },
        ),
        Check::new(of("cuFuncGetName"), "a function's name is its name", |it| {
            let mut name: *const c_char = std::ptr::null();
            it.ok("cuFuncGetName", words![&mut name, it.kernel(c"fill")?])?;
            let seen = it.text(name);
            ensure!(seen == "fill", "{seen}");
            Ok(())
        }),
        Check::new(
            of("cuFuncLoad"),
            "a function that was loaded is loaded",
            |it| {
                let (kernel, mut state) = (it.kernel(c"nothing")?, 9i32);
                it.ok("cuFuncLoad", words![kernel])?;
                it.ok("cuFuncIsLoaded", words![&mut state, kernel])?;
                ensure!(state == 1, "{state}");
                Ok(())
            },
        ),
    ]
}
