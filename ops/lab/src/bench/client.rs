//! `warploom bench client`: the drop-in `libcuda.so.1` as a program finds it. The measured process loads it
//! by path and knows nothing else of us.

#![expect(unsafe_code, reason = "calls a C interface")]

use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use admin::output;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use bus_schemas::limits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use workloads::kernels::EMPTY;

use super::baseline::Baselines;
use super::bench_cluster::{self, Bench};
use super::driver::{Driver, check};
use super::images;
use super::memory::resident_kib;
use super::metric::{Goal, Measurement, Spec, metrics};
use super::start::drop_in_variables;
use super::token;
use super::torch;
use warploom_cli::drop_in;
use warploom_cli::local::LocalCluster;

/// Argument of `warploom bench` that starts the measured program.
pub(super) const PROCESS: &str = ".driver";

metrics! {
    LAUNCH = "launch_call_ns", "ns", Goal::AtMost(400.0),
        "mean time of cuLaunchKernel, in bursts of 1000 with a sync between";
    ALLOC = "alloc_call_ns", "ns", Goal::AtMost(500.0),
        "mean time of cuMemAlloc, in bursts of 1000";
    FREE = "free_call_ns", "ns", Goal::AtMost(500.0),
        "mean time of cuMemFree, in bursts of 1000";
    EVENT = "event_call_ns", "ns", Goal::AtMost(500.0),
        "mean time of cuEventRecord, in bursts of 1000";
    H2D = "h2d_ratio", "ratio", Goal::AtLeast(0.8),
        "bytes a second of cuMemcpyHtoD, sync included / of bare NATS with the same chunks";
    D2H = "d2h_ratio", "ratio", Goal::AtLeast(0.7),
        "bytes a second of cuMemcpyDtoH / of bare NATS with the same chunks";
    LOAD = "load_ms", "ms", Goal::AtMost(50.0),
        "loading the library, cuInit, and a context";
    RSS = "client_rss_mib", "MiB", Goal::AtMost(20.0),
        "resident memory that the library adds, a launch included";
    TOKEN = "round_trips_per_token", "waits", Goal::AtMost(2.0),
        "waits for an answer per token of tinygrad's GPT-2";
}

/// Bytes of one copy.
const COPY: usize = 64 << 20;
const BURST: usize = 1_000;
const BURSTS: usize = 20;
/// Copies in one repetition and direction.
const COPIES: usize = 4;

/// Measurements of the process.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    load_ms: f64,
    rss_mib: f64,
    launch_ns: f64,
    alloc_ns: f64,
    free_ns: f64,
    event_ns: f64,
    h2d: f64,
    d2h: f64,
}

#[derive(Deserialize)]
struct Streamed {
    messages_per_s: f64,
}

/// Runs all measurements.
///
/// # Errors
/// If the cluster does not start or the library is missing.
pub(super) async fn client(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let of_images = images::METRICS.iter().any(|spec| wanted(spec.name));
    let of_torch = torch::METRICS.iter().any(|spec| wanted(spec.name));
    if !of_images && !of_torch && !METRICS.iter().any(|spec| wanted(spec.name)) {
        return Ok(());
    }
    let library = drop_in::library(settings.given("run.library"))?;
    let bench = Bench { reps, settings };
    let cluster = bench.cluster(1).await?;
    let cluster = &cluster;
    let folder = drop_in::folder(&cluster.options().state_dir, &library)?;
    let mut tell = |metric: Measurement| {
        if wanted(metric.metric) {
            tell(metric);
        }
    };
    let called = |spec: &Spec| spec.name != TOKEN.name && wanted(spec.name);
    if METRICS.iter().any(called) {
        calls(reps, cluster, &folder, &mut tell).await?;
    }
    if of_images {
        let mut seen = Vec::new();
        for rep in 1..=reps {
            eprintln!("large images: repetition {rep} of {reps}");
            seen.push(run_process(images::PROCESS, cluster, &folder).await?);
        }
        images::tell(&seen, &mut tell);
    }
    if wanted(TOKEN.name) {
        tell(token::measure(&TOKEN, cluster, &folder, reps).await?);
    }
    torch::measure(cluster, &folder, reps, &wanted, &mut tell).await
}

/// Measures the driver's calls, and copies beside a bare publisher and subscriber of the same chunks.
async fn calls(
    reps: usize,
    cluster: &LocalCluster,
    folder: &Path,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let baselines = Baselines::find(cluster.broker.credentials());
    let (data, ack) = (
        "wl.v1.bench.s.bare.copy.data",
        "wl.v1.bench.s.bare.copy.ack",
    );
    let chunks = (COPY / limits::CHUNK_BYTES).to_string();
    let subscriber = match &baselines {
        Ok(found) => Some(found.serve("stream", &["subscribe", data, ack, &chunks])?),
        Err(_) => None,
    };
    let (mut seen, mut bare) = (Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("the drop-in library: repetition {rep} of {reps}");
        seen.push(run_process(PROCESS, cluster, folder).await?);
        if let (Ok(found), Some(_)) = (&baselines, &subscriber) {
            let bytes = limits::CHUNK_BYTES.to_string();
            let arguments = ["publish", data, ack, &chunks, &bytes, "4"];
            let streamed: Streamed = found.run("stream", &arguments).await?;
            bare.push(streamed.messages_per_s * limits::CHUNK_BYTES as f64);
        }
    }
    let values = |of: fn(&Seen) -> f64| seen.iter().map(of).collect::<Vec<_>>();
    tell(Measurement::new(&LAUNCH, &values(|it| it.launch_ns)));
    tell(Measurement::new(&ALLOC, &values(|it| it.alloc_ns)));
    tell(Measurement::new(&FREE, &values(|it| it.free_ns)));
    tell(Measurement::new(&EVENT, &values(|it| it.event_ns)));
    for (spec, of) in [
        (&H2D, (|it| it.h2d) as fn(&Seen) -> f64),
        (&D2H, |it| it.d2h),
    ] {
        let ours = values(of);
        let ratios: Vec<f64> = ours.iter().zip(&bare).map(|(us, them)| us / them).collect();
        let metric = match &baselines {
            Ok(_) => Measurement::new(spec, &ratios)
                .against("bare publisher and subscriber, bytes/s", &bare),
            Err(error) => Measurement::missing(spec, &format!("{error:#}")),
        };
        let mean = ours.iter().sum::<f64>() / ours.len() as f64;
        tell(metric.with("bytes_per_s", mean).with("copy_bytes", COPY));
    }
    tell(Measurement::new(&LOAD, &values(|it| it.load_ms)));
    tell(Measurement::new(&RSS, &values(|it| it.rss_mib)));
    Ok(())
}

/// Runs the measured program.
async fn run_process<S: DeserializeOwned>(
    name: &str,
    cluster: &LocalCluster,
    folder: &Path,
) -> Result<S> {
    let mut command = Command::new(std::env::current_exe()?);
    let variables = drop_in_variables(cluster, folder, |_| None)?;
    command.envs(variables.filter(|(name, _)| name.starts_with("WARPLOOM_")));
    command.args(["bench", name]);
    let output = bench_cluster::output(command).await?;
    if !output.status.success() {
        bail!(
            "the measured program: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("what the measured program prints")
}

/// Runs as the measured program.
///
/// # Errors
/// If the library cannot be used.
pub(super) fn serve() -> Result<()> {
    let folder = std::env::var_os("WARPLOOM_DROP_IN").context("WARPLOOM_DROP_IN is not set")?;
    let own = std::process::id();
    let before = resident_kib(own)?;
    let began = Instant::now();
    let driver = Driver::load(std::path::Path::new(&folder))?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let program = Program::start(&driver)?;
    let rss_mib = (resident_kib(own)? - before) / 1024.0;
    let launch_ns = program.bursts(|| program.launch())?;
    let event_ns = program.bursts(|| program.record())?;
    let (alloc_ns, free_ns) = program.memory()?;
    let (h2d, d2h) = program.copies()?;
    let seen = Seen {
        load_ms,
        rss_mib,
        launch_ns,
        alloc_ns,
        free_ns,
        event_ns,
        h2d,
        d2h,
    };
    output::line(serde_json::to_string(&seen)?)
}

/// A program with the empty kernel and an event.
struct Program<'a> {
    driver: &'a Driver,
    kernel: usize,
    event: usize,
}

// SAFETY of the calls below: every pointer points to what the driver's function expects.
impl<'a> Program<'a> {
    fn start(driver: &'a Driver) -> Result<Self> {
        let image = CString::new(EMPTY.bytes())?;
        let (mut module, mut kernel, mut event) = (0, 0, 0);
        // SAFETY: see above.
        unsafe {
            check(
                (driver.load)(&mut module, image.as_ptr().cast()),
                "cuModuleLoadData",
            )?;
            check(
                (driver.function)(&mut kernel, module, c"empty".as_ptr()),
                "cuModuleGetFunction",
            )?;
            check((driver.event)(&mut event, 0), "cuEventCreate")?;
        }
        let program = Self {
            driver,
            kernel,
            event,
        };
        program.launch()?;
        program.sync()?;
        Ok(program)
    }

    #[inline]
    fn launch(&self) -> Result<()> {
        let none = std::ptr::null();
        // SAFETY: see above.
        let status =
            unsafe { (self.driver.launch)(self.kernel, 1, 1, 1, 32, 1, 1, 0, 0, none, none) };
        check(status, "cuLaunchKernel")
    }

    #[inline]
    fn record(&self) -> Result<()> {
        // SAFETY: see above.
        check(
            unsafe { (self.driver.record)(self.event, 0) },
            "cuEventRecord",
        )
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: see above.
        check(unsafe { (self.driver.sync)() }, "cuCtxSynchronize")
    }

    /// Nanoseconds per call, after a warm-up. The syncs between bursts are not counted.
    fn bursts(&self, call: impl Fn() -> Result<()>) -> Result<f64> {
        let mut spent = 0.0;
        for burst in 0..2 * BURSTS {
            let began = Instant::now();
            for _ in 0..BURST {
                call()?;
            }
            if burst >= BURSTS {
                spent += began.elapsed().as_nanos() as f64;
            }
            self.sync()?;
        }
        Ok(spent / (BURST * BURSTS) as f64)
    }

    /// Nanoseconds of an allocation and of a free.
    fn memory(&self) -> Result<(f64, f64)> {
        let (mut alloc, mut free) = (0.0, 0.0);
        let mut addresses = vec![0_u64; BURST];
        for burst in 0..2 * BURSTS {
            let began = Instant::now();
            for address in &mut addresses {
                // SAFETY: see above.
                check(unsafe { (self.driver.alloc)(address, 4096) }, "cuMemAlloc")?;
            }
            let middle = Instant::now();
            for address in &addresses {
                // SAFETY: see above.
                check(unsafe { (self.driver.free)(*address) }, "cuMemFree")?;
            }
            if burst >= BURSTS {
                alloc += (middle - began).as_nanos() as f64;
                free += middle.elapsed().as_nanos() as f64;
            }
            self.sync()?;
        }
        let calls = (BURST * BURSTS) as f64;
        Ok((alloc / calls, free / calls))
    }

    /// Bytes per second to the device and from it.
    fn copies(&self) -> Result<(f64, f64)> {
        let mut bytes: Vec<u8> = (0..COPY).map(|at| (at % 251) as u8).collect();
        let mut address = 0;
        // SAFETY: see above.
        let status = unsafe { (self.driver.alloc)(&mut address, COPY) };
        check(status, "cuMemAlloc")?;
        let copy_in = |bytes: &[u8]| {
            // SAFETY: see above.
            let status = unsafe { (self.driver.to_device)(address, bytes.as_ptr().cast(), COPY) };
            check(status, "cuMemcpyHtoD").and_then(|()| self.sync())
        };
        copy_in(&bytes)?;
        let began = Instant::now();
        for _ in 0..COPIES {
            copy_in(&bytes)?;
        }
        let h2d = (COPIES * COPY) as f64 / began.elapsed().as_secs_f64();
        let expected = bytes.clone();
        let began = Instant::now();
        for _ in 0..COPIES {
            bytes.fill(0);
            // SAFETY: see above.
            let status = unsafe { (self.driver.to_host)(bytes.as_mut_ptr().cast(), address, COPY) };
            check(status, "cuMemcpyDtoH")?;
        }
        let d2h = (COPIES * COPY) as f64 / began.elapsed().as_secs_f64();
        if bytes != expected {
            bail!("what was copied back differs");
        }
        Ok((h2d, d2h))
    }
}
