//! The cost of large images to a program: a fatbin with no kernel used, and a library with a few kernels
//! used. The measured process loads the drop-in library by path, as any program does.

#![expect(unsafe_code, reason = "calls a C interface, maps a file")]

use std::ffi::{CString, c_void};
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use admin::output;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::driver::{Driver, check};
use super::memory::resident_kib;
use super::metric::{Goal, Measurement, metrics};

/// Argument of `warploom bench` that starts the measured program.
pub(super) const PROCESS: &str = ".images";

metrics! {
    RSS = "fatbin_rss_mib", "MiB", Goal::AtMost(50.0),
        "resident memory that a fatbin of 500 MB adds before its kernels are asked for";
    USED = "kernel_load_ms", "ms", Goal::AtMost(5.0),
        "a kernel of a library of 5,000: found, sent, compiled, run";
    UNUSED = "unused_kernel_ms", "ms", Goal::AtMost(0.01),
        "what each kernel of that library costs that is not used: loading it, up to the first kernel's run";
}

/// Bytes of the fatbin, and of its PTX.
const FATBIN: u64 = 500_000_000;
const TEXT: usize = 5_000_000;
/// Kernels of the library, and the number of kernels used after the first.
const KERNELS: usize = 5_000;
const USES: usize = 50;

/// Measurements of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    rss_mib: f64,
    first_ms: f64,
    used_ms: f64,
    image_bytes: usize,
}

/// Passes the metrics of the measurements to `tell`.
pub(super) fn tell(seen: &[Seen], mut tell: impl FnMut(Measurement)) {
    let values = |of: &dyn Fn(&Seen) -> f64| seen.iter().map(of).collect::<Vec<_>>();
    let unused = |it: &Seen| (it.first_ms - it.used_ms).max(0.0) / (KERNELS - 1) as f64;
    let bytes = seen.first().map_or(0, |it| it.image_bytes);
    tell(Measurement::new(&RSS, &values(&|it| it.rss_mib)).with("fatbin_bytes", FATBIN));
    tell(
        Measurement::new(&USED, &values(&|it| it.used_ms))
            .with("kernels", KERNELS)
            .with("used", USES)
            .with("ptx_bytes", bytes),
    );
    tell(Measurement::new(&UNUSED, &values(&unused)).with("kernels", KERNELS));
}

/// Runs as the measured program.
///
/// # Errors
/// If the library cannot be used.
pub(super) fn serve() -> Result<()> {
    let folder = std::env::var_os("WARPLOOM_DROP_IN").context("WARPLOOM_DROP_IN is not set")?;
    let driver = Driver::load(std::path::Path::new(&folder))?;
    let rss_mib = fatbin(&driver)?;
    let text = library();
    let image_bytes = text.len();
    let text = CString::new(text)?;
    let began = Instant::now();
    let mut module = 0;
    // SAFETY: the pointers point to what the driver's function expects.
    let status = unsafe { (driver.load)(&mut module, text.as_ptr().cast()) };
    check(status, "cuModuleLoadData")?;
    let mut address = 0;
    // SAFETY: as above.
    check(unsafe { (driver.alloc)(&mut address, 4) }, "cuMemAlloc")?;
    run(&driver, module, address, 0)?;
    let first_ms = began.elapsed().as_secs_f64() * 1e3;
    let began = Instant::now();
    for at in 1..=USES {
        run(&driver, module, address, at * (KERNELS / (USES + 1)))?;
    }
    let used_ms = began.elapsed().as_secs_f64() * 1e3 / USES as f64;
    let seen = Seen {
        rss_mib,
        first_ms,
        used_ms,
        image_bytes,
    };
    output::line(serde_json::to_string(&seen)?)
}

/// Finds a kernel, runs it, and checks that it was the right one.
fn run(driver: &Driver, module: usize, address: u64, number: usize) -> Result<()> {
    let name = CString::new(format!("kernel_{number}"))?;
    let (mut function, mut got, none) = (0, 0_f32, std::ptr::null());
    let parameters = [(&raw const address).cast::<c_void>()];
    // SAFETY: the pointers point to what the driver's functions expect.
    unsafe {
        check(
            (driver.function)(&mut function, module, name.as_ptr()),
            "cuModuleGetFunction",
        )?;
        let status = (driver.launch)(function, 1, 1, 1, 32, 1, 1, 0, 0, parameters.as_ptr(), none);
        check(status, "cuLaunchKernel")?;
        let status = (driver.to_host)((&raw mut got).cast(), address, 4);
        check(status, "cuMemcpyDtoH")?;
    }
    ensure!(got == number as f32, "kernel {number} stored {got}");
    Ok(())
}

/// A library of kernels such as compilers make: each has forty instructions and a loop.
fn library() -> String {
    let mut text = ".version 7.0\n.target sm_70\n.address_size 64\n".to_owned();
    for number in 0..KERNELS {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n// kernel {number}\n.visible .entry kernel_{number}(.param .u64 to)\n{{\n\
             \t.reg .pred %p<2>;\n\t.reg .f32 %f<34>;\n\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<3>;\n\n\
             \tld.param.u64 %rd1, [to];\n\tcvta.to.global.u64 %rd2, %rd1;\n\tmov.u32 %r1, 0;\n\
             \tmov.f32 %f1, 0f00000000;\n$L_{number}:\n"
        );
        for step in 1..33 {
            let _ = writeln!(text, "\tadd.f32 %f{}, %f{step}, 0f00000000;", step + 1);
        }
        let bits = (number as f32).to_bits();
        let _ = write!(
            text,
            "\tadd.s32 %r1, %r1, 1;\n\tsetp.lt.s32 %p1, %r1, 4;\n\t@%p1 bra $L_{number};\n\
             \tadd.f32 %f33, %f33, 0f{bits:08X};\n\tst.global.f32 [%rd2], %f33;\n\tret;\n}}\n"
        );
    }
    text
}

/// Memory taken by a large fatbin that is mapped from a file, as a library's is.
fn fatbin(driver: &Driver) -> Result<f64> {
    let file = written()?;
    let size = usize::try_from(file.metadata()?.len())?;
    // SAFETY: this is our own mapping of a file that no other process has.
    let first = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    ensure!(first != libc::MAP_FAILED, "the fatbin cannot be mapped");
    let own = std::process::id();
    let before = resident_kib(own)?;
    let mut module = 0;
    // SAFETY: a container of the stated length begins there.
    let status = unsafe { (driver.load)(&mut module, first) };
    check(status, "cuModuleLoadData")?;
    let grown = (resident_kib(own)? - before) / 1024.0;
    // The program gives the image back: the driver has kept what it needs.
    // SAFETY: the memory was mapped above, and no pointer of ours leads there.
    unsafe { libc::munmap(first, size) };
    let (name, mut function) = (c"kernel_7", 0);
    // SAFETY: the pointers point to what the driver's function expects.
    let status = unsafe { (driver.function)(&mut function, module, name.as_ptr()) };
    check(status, "cuModuleGetFunction")?;
    Ok(grown.max(0.0))
}

/// A file with the fatbin: machine code for many architectures, all holes, and PTX.
fn written() -> Result<File> {
    let file = tempfile()?;
    let mut text = library();
    text.truncate(
        text[..TEXT]
            .rfind("\n// kernel")
            .context("a kernel's end")?,
    );
    text.push('\0');
    let header = |kind: u16, architecture: u32, bytes: u64| {
        let mut head = [0; 64];
        head[..2].copy_from_slice(&kind.to_le_bytes());
        head[2..4].copy_from_slice(&0x101_u16.to_le_bytes());
        head[4..8].copy_from_slice(&64_u32.to_le_bytes());
        head[8..16].copy_from_slice(&bytes.to_le_bytes());
        head[28..32].copy_from_slice(&architecture.to_le_bytes());
        head
    };
    let mut at = 16;
    let each = (FATBIN - TEXT as u64) / 50;
    for architecture in 0..50 {
        file.write_all_at(&header(2, 50 + architecture, each), at)?;
        at += 64 + each;
    }
    file.write_all_at(&header(1, 75, text.len() as u64), at)?;
    file.write_all_at(text.as_bytes(), at + 64)?;
    at += 64 + text.len() as u64;
    let mut start = [0; 16];
    start[..8].copy_from_slice(&0x0010_0001_ba55_ed50_u64.to_le_bytes());
    start[8..].copy_from_slice(&(at - 16).to_le_bytes());
    file.write_all_at(&start, 0)?;
    Ok(file)
}

/// A file without a name.
fn tempfile() -> Result<File> {
    let path = std::env::temp_dir().join(format!("warploom-fatbin-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}
