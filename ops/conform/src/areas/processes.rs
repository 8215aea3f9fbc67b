//! Output of kernels, and children of the process.

use std::ffi::CString;

use crate::bench::Bench;
use crate::check::Check;
use crate::codes::NOT_INITIALIZED;
use crate::driver::words;
use crate::finding::{Finding, Outcome, ensure};
use crate::host::{forked, printed};

/// Kernels that print, and the manual's section on printing.
const KERNELS: &str = include_str!("../print.ptx");
const PRINT: (&str, &str) = ("vprintf", "CUDA C++ Programming Guide: Formatted Output");

fn say(bench: &Bench, numbers: &[u64]) -> Outcome {
    let image = CString::new(KERNELS).map_err(|it| Finding(it.to_string()))?;
    let module = bench.made("cuModuleLoadData", words![image.as_c_str()])?;
    let kernel = bench.made("cuModuleGetFunction", words![module, c"say"])?;
    for number in numbers {
        bench.launch(kernel, 1, 1, &[*number])?;
    }
    bench.sync()?;
    bench.ok("cuModuleUnload", words![module])
}

/// The code of a call in a child process, clamped to 255.
fn in_child(bench: &Bench, symbol: &'static str, argument: u64) -> Result<u8, Finding> {
    let driver = bench.driver();
    forked(|| {
        let code = driver.call(symbol, words![argument]);
        code.map_or(255, |it| it.0.clamp(0, 255) as u8)
    })
}

pub(super) fn printing() -> Vec<Check> {
    vec![
        Check::new(
            PRINT,
            "what a kernel prints is there when a wait returns",
            |it| {
                let said = printed(|| say(it, &[7]))?;
                let wanted = "said 7 by it 123456789abcdef!\n";
                ensure!(said == wanted, "{said:?}, not {wanted:?}");
                Ok(())
            },
        ),
        Check::new(PRINT, "kernels of a stream print in their order", |it| {
            let said = printed(|| say(it, &[1, 2, 3]))?;
            let seen: Vec<&str> = said.lines().filter_map(|it| it.split(' ').nth(1)).collect();
            ensure!(seen == ["1", "2", "3"], "{seen:?}");
            Ok(())
        }),
    ]
}

pub(super) fn forks() -> Vec<Check> {
    let of = |function| (function, "Initialization");
    vec![
        Check::new(
            of("cuInit"),
            "in the child of a process that has begun nothing works",
            |it| {
                it.begin()?;
                for (symbol, argument) in [("cuInit", 0), ("cuCtxSetCurrent", 0)] {
                    let code = in_child(it, symbol, argument)?;
                    ensure!(
                        i32::from(code) == NOT_INITIALIZED,
                        "{symbol} gave {code} in a child"
                    );
                }
                Ok(())
            },
        )
        .alone()
        .uncertain(),
        Check::new(of("cuInit"), "a process goes on behind a fork", |it| {
            it.begin()?;
            let address = it.alloc(64)?;
            it.write(address, &[3u32; 16])?;
            in_child(it, "cuInit", 0)?;
            let increment = it.kernel(c"increment")?;
            it.launch(increment, 1, 32, &[address, 16])?;
            let words = it.read::<u32>(address, 16)?;
            ensure!(words == [4; 16], "{words:?}");
            Ok(())
        })
        .alone(),
        Check::new(
            of("cuInit"),
            "the child of a process that has not begun begins by itself",
            |it| {
                let driver = it.driver();
                let code = forked(|| {
                    let code = driver.call("cuInit", words![0u32]);
                    code.map_or(255, |it| it.0.clamp(0, 255) as u8)
                })?;
                ensure!(code == 0, "cuInit gave {code} in a child");
                Ok(())
            },
        )
        .alone(),
    ]
}
