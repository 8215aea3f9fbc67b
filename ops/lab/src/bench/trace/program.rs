//! The measured program: one of the driver API that knows nothing of traces. A request of it is some launches of the
//! empty kernel and a wait. Each line of its input is a number of requests.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::CString;
use std::path::Path;
use std::process::Stdio;

use admin::output;
use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use warploom_cli::drop_in;
use warploom_cli::local::LocalCluster;
use workloads::kernels::EMPTY;

use crate::bench::bench_cluster::TIMEOUT;
use crate::bench::driver::{Driver, check};
use crate::bench::start::drop_in_variables;

/// Argument of `warploom bench` that starts the program.
pub(in crate::bench) const PROCESS: &str = ".requests";

/// Launches of a request.
pub(super) const LAUNCHES: u64 = 20;

/// A running program.
pub(super) struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program on the drop-in library, and waits until its kernel is loaded.
    ///
    /// # Errors
    /// If it does not come up.
    pub(super) async fn start(cluster: &LocalCluster, library: &Path) -> Result<Self> {
        let folder = drop_in::folder(&cluster.options().state_dir, library)?;
        let variables = drop_in_variables(cluster, &folder, |_| None)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", PROCESS])
            .envs(variables.filter(|(name, _)| name.starts_with("WARPLOOM_")))
            // A parent would choose which requests are kept.
            .env_remove("TRACEPARENT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting the measured program")?;
        let input = child.stdin.take().context("the program's input")?;
        let output = child.stdout.take().context("the program's output")?;
        let mut program = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        program.said("ready").await?;
        Ok(program)
    }

    /// Has it do so many requests, and waits for the last.
    ///
    /// # Errors
    /// If it has ended, or takes too long.
    pub(super) async fn run(&mut self, requests: u64) -> Result<()> {
        let line = format!("{requests}\n");
        let told = self.input.write_all(line.as_bytes()).await;
        told.context("telling the measured program")?;
        self.said("done").await
    }

    /// Its process id.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn pid(&self) -> Result<u32> {
        self.child.id().context("the measured program has ended")
    }

    async fn said(&mut self, expected: &str) -> Result<()> {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.output.read_line(&mut line)).await;
        read.with_context(|| format!("the measured program is not {expected} in {TIMEOUT:?}"))??;
        ensure!(line.trim() == expected, "the measured program has ended");
        Ok(())
    }
}

/// Runs as the program.
///
/// # Errors
/// If the library cannot be used.
pub(in crate::bench) fn serve() -> Result<()> {
    let folder = std::env::var_os("WARPLOOM_DROP_IN").context("WARPLOOM_DROP_IN is not set")?;
    let driver = Driver::load(Path::new(&folder))?;
    let image = CString::new(EMPTY.bytes())?;
    let (mut module, mut kernel) = (0, 0);
    // SAFETY: every pointer points to what the driver's function expects.
    unsafe {
        let status = (driver.load)(&mut module, image.as_ptr().cast());
        check(status, "cuModuleLoadData")?;
        let status = (driver.function)(&mut kernel, module, c"empty".as_ptr());
        check(status, "cuModuleGetFunction")?;
    }
    output::line("ready")?;
    // The input ends with the measuring process.
    for line in std::io::stdin().lines() {
        let requests: u64 = line?.trim().parse().context("a number of requests")?;
        for _ in 0..requests {
            request(&driver, kernel)?;
        }
        output::line("done")?;
    }
    Ok(())
}

fn request(driver: &Driver, kernel: usize) -> Result<()> {
    let none = std::ptr::null();
    for _ in 0..LAUNCHES {
        // SAFETY: the kernel has no parameters.
        let status = unsafe { (driver.launch)(kernel, 1, 1, 1, 32, 1, 1, 0, 0, none, none) };
        check(status, "cuLaunchKernel")?;
    }
    // SAFETY: the driver is initialised.
    check(unsafe { (driver.sync)() }, "cuCtxSynchronize")
}
