//! The launches of one call of torch's, repeated by a program of the driver API.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::{CString, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use admin::output;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::bench::driver::{Driver, check};

/// Argument of `warploom bench` that starts this program.
pub(in crate::bench) const PROCESS: &str = ".launches";
/// Environment variable with the folder of the launches.
pub(super) const FOLDER: &str = "WARPLOOM_BENCH_LAUNCHES";
/// Measured calls.
const CALLS: usize = 20;
/// Largest shared memory of a block that needs no permission, and the attribute that grants more.
const SHARED: u32 = 48 << 10;
const MAX_DYNAMIC_SHARED: c_int = 8;

/// Duration of each call.
#[derive(Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) seconds: Vec<f64>,
}

/// The launches of a call, as the block's program records them.
#[derive(Deserialize)]
struct Launches {
    kernels: Vec<String>,
    launches: Vec<Launch>,
    /// Bytes of each buffer.
    buffers: Vec<usize>,
    result: Place,
}

#[derive(Deserialize)]
struct Launch {
    kernel: usize,
    grid: [u32; 3],
    threads: u32,
    shared: u32,
    arguments: Vec<Argument>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Buffer { buffer: usize, offset: u64 },
    Bytes { bytes: Vec<u8> },
}

#[derive(Deserialize)]
struct Place {
    buffer: usize,
    offset: usize,
    bytes: usize,
}

/// Runs as the program of the driver API.
///
/// # Errors
/// If the library cannot be used, or the result is not torch's.
pub(in crate::bench) fn serve() -> Result<()> {
    let library = std::env::var_os("WARPLOOM_DROP_IN").context("WARPLOOM_DROP_IN is not set")?;
    let folder = PathBuf::from(std::env::var_os(FOLDER).context("nothing to launch")?);
    let launches: Launches = serde_json::from_slice(&fs::read(folder.join("launches.json"))?)?;
    let memory = fs::read(folder.join("memory.bin"))?;
    let driver = Driver::load(Path::new(&library))?;
    let replay = Replay::prepare(&driver, &folder, &launches, &memory)?;
    let mut seconds = Vec::new();
    for _ in 0..=CALLS {
        let began = Instant::now();
        replay.call()?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    // The first call also prepares kernels.
    seconds.remove(0);
    replay.check(&launches, &memory)?;
    output::line(serde_json::to_string(&Took { seconds })?)
}

/// Launches that can be repeated any number of times.
struct Replay<'a> {
    driver: &'a Driver,
    launches: Vec<(usize, &'a Launch, Vec<Vec<u8>>)>,
    addresses: Vec<u64>,
}

// SAFETY of the calls below: every pointer points to what the driver's function expects.
impl<'a> Replay<'a> {
    fn prepare(
        driver: &'a Driver,
        folder: &Path,
        launches: &'a Launches,
        memory: &[u8],
    ) -> Result<Self> {
        let mut functions = Vec::new();
        for (at, name) in launches.kernels.iter().enumerate() {
            let image = CString::new(fs::read(folder.join(format!("kernel-{at}.ptx")))?)?;
            let (mut module, mut function, name) = (0, 0, CString::new(name.as_str())?);
            // SAFETY: see above.
            unsafe {
                check(
                    (driver.load)(&mut module, image.as_ptr().cast()),
                    "cuModuleLoadData",
                )?;
                let status = (driver.function)(&mut function, module, name.as_ptr());
                check(status, "cuModuleGetFunction")?;
            }
            functions.push(function);
        }
        let (mut addresses, mut rest) = (Vec::new(), memory);
        for bytes in &launches.buffers {
            let (mut address, (contents, behind)) = (0, rest.split_at(*bytes));
            rest = behind;
            // SAFETY: see above.
            let status = unsafe { (driver.alloc)(&mut address, (*bytes).max(1)) };
            check(status, "cuMemAlloc")?;
            fill(driver, address, contents)?;
            addresses.push(address);
        }
        // The result is cleared, so that its final content comes from the launches.
        let result = &launches.result;
        let address = addresses[result.buffer] + result.offset as u64;
        fill(driver, address, &vec![0; result.bytes])?;
        let prepared = launches.launches.iter().map(|launch| {
            let function = functions[launch.kernel];
            if launch.shared > SHARED {
                let bytes = c_int::try_from(launch.shared)?;
                // SAFETY: see above.
                let status = unsafe { (driver.attribute)(function, MAX_DYNAMIC_SHARED, bytes) };
                check(status, "cuFuncSetAttribute")?;
            }
            let arguments = launch.arguments.iter().map(|argument| match argument {
                Argument::Buffer { buffer, offset } => {
                    (addresses[*buffer] + offset).to_ne_bytes().to_vec()
                }
                Argument::Bytes { bytes } => bytes.clone(),
            });
            Ok::<_, anyhow::Error>((function, launch, arguments.collect::<Vec<_>>()))
        });
        let launches = prepared.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            driver,
            launches,
            addresses,
        })
    }

    /// Makes all launches, and waits for the last.
    fn call(&self) -> Result<()> {
        let none = std::ptr::null();
        for (function, launch, arguments) in &self.launches {
            let pointers: Vec<*const c_void> =
                arguments.iter().map(|it| it.as_ptr().cast()).collect();
            let ([x, y, z], threads, shared) = (launch.grid, launch.threads, launch.shared);
            let (call, first) = (self.driver.launch, pointers.as_ptr());
            // SAFETY: see above.
            let status = unsafe { call(*function, x, y, z, threads, 1, 1, shared, 0, first, none) };
            check(status, "cuLaunchKernel")?;
        }
        // SAFETY: see above.
        check(unsafe { (self.driver.sync)() }, "cuCtxSynchronize")
    }

    /// Checks that the result is torch's, bit for bit.
    fn check(&self, launches: &Launches, memory: &[u8]) -> Result<()> {
        let result = &launches.result;
        let before: usize = launches.buffers[..result.buffer].iter().sum();
        let wanted = &memory[before + result.offset..][..result.bytes];
        let mut got = vec![0_u8; result.bytes];
        let from = self.addresses[result.buffer] + result.offset as u64;
        // SAFETY: see above.
        let status = unsafe { (self.driver.to_host)(got.as_mut_ptr().cast(), from, result.bytes) };
        check(status, "cuMemcpyDtoH")?;
        ensure!(got == wanted, "the launches' result is not torch's");
        Ok(())
    }
}

fn fill(driver: &Driver, address: u64, contents: &[u8]) -> Result<()> {
    // SAFETY: the pointer points to this many bytes.
    let status = unsafe { (driver.to_device)(address, contents.as_ptr().cast(), contents.len()) };
    check(status, "cuMemcpyHtoD")
}
