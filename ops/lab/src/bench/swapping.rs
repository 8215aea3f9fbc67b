//! The cost of swapping: two jobs that do not fit together, an urgent third tenant beside them, and the
//! speed of a move beside a copy in memory. All but the last use real processes on a CPU worker.

use std::time::{Duration, Instant};

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::{Op, TenantSettings};
use client_agent::Client;
use device::{Device, Moved};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapSpace};
use serde::{Deserialize, Serialize};
use test_cluster::{Processes, TestCluster};
use workloads::kernels::EMPTY;

use super::bench_cluster::{cpu_cluster_of, play};
use super::metric::{Goal, Measurement, metrics};
use warploom_cli::local::LocalCluster;

metrics! {
    JOBS = "two_jobs_makespan_ratio", "ratio", Goal::AtMost(1.05),
        "time until two jobs have ended that begin together and hold 0.95 of the device each / the sum of their times alone";
    URGENT = "swap_hp_p99_ratio", "ratio", Goal::AtMost(1.2),
        "99th percentile of an urgent third tenant's launch and sync beside such jobs / alone";
    OUT = "swap_out_ratio", "ratio", Goal::AtLeast(0.7),
        "speed of swapping a session out to the host's memory / of a copy between two buffers of its size";
    IN = "swap_in_ratio", "ratio", Goal::AtLeast(0.7),
        "the same of bringing it back";
}

/// The tenants of the jobs, which also name their processes, and the urgent tenant.
pub(super) const JOBS_OF: [&str; 2] = ["job-a", "job-b"];
pub(super) const THIRD: &str = "third";
/// Capacity of the device, and the bytes that a job holds.
const CAPACITY: u64 = 256 << 20;
const JOB: u64 = CAPACITY / 100 * 95;
/// Passes of a job over all its memory: some seconds.
const PASSES: usize = 30;
/// Launches of the urgent tenant, and the pause between two.
const LAUNCHES: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes moved when the speed of moves is measured.
const MOVED: u64 = 512 << 20;

/// Adds to each word of a buffer.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry pass(.param .u64 data, .param .u32 words) {
    .reg .pred %p; .reg .b32 %i, %n, %x, %step; .reg .b64 %a, %o;
    ld.param.u64 %a, [data]; ld.param.u32 %n, [words];
    mov.u32 %i, %ctaid.x; mov.u32 %x, %ntid.x; mov.u32 %step, %nctaid.x; mul.lo.u32 %step, %step, %x;
    mul.lo.u32 %i, %i, %x; mov.u32 %x, %tid.x; add.u32 %i, %i, %x;
again:
    setp.ge.u32 %p, %i, %n; @%p bra done;
    mul.wide.u32 %o, %i, 4; add.s64 %o, %a, %o;
    ld.global.u32 %x, [%o]; add.u32 %x, %x, %i; st.global.u32 [%o], %x;
    add.u32 %i, %i, %step; bra again;
done:
    ret;
}";

/// Output of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobDone {
    seconds: f64,
}

/// Holds most of the device and repeatedly passes over all of it.
pub(super) fn job(client: &Client, passes: usize) -> Result<JobDone> {
    let session = client.open()?;
    let pass = session.load(PTX.as_bytes())?.function("pass")?;
    let began = Instant::now();
    let data = session.alloc(JOB)?;
    let mut params = data.to_le_bytes().to_vec();
    params.extend(u32::try_from(JOB / 4)?.to_le_bytes());
    for _ in 0..passes {
        // Slices of some ten milliseconds, as jobs have them.
        session.launch(&pass, [64, 1, 1], [256, 1, 1], 0, &params)?;
        session.sync()?;
    }
    let seconds = began.elapsed().as_secs_f64();
    session.close()?;
    Ok(JobDone { seconds })
}

/// Output of the urgent tenant, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ThirdDone {
    p99_us: f64,
}

/// Repeatedly launches, waits, and pauses.
pub(super) fn third(client: &Client, launches: usize) -> Result<ThirdDone> {
    let session = client.open()?;
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    let mut times = Vec::with_capacity(launches);
    for launch in 0..launches + launches / 10 {
        let began = Instant::now();
        session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
        session.sync()?;
        if launch >= launches / 10 {
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        std::thread::sleep(PAUSE + Duration::from_micros(37 * (launch as u64 % 29)));
    }
    session.close()?;
    times.sort_by(f64::total_cmp);
    let at = times.len().saturating_sub(1) * 99 / 100;
    Ok(ThirdDone {
        p99_us: times.get(at).copied().unwrap_or_default(),
    })
}

async fn cluster(settings: &Settings) -> Result<TestCluster<Processes>> {
    let of = |priority| TenantSettings {
        priority,
        ..TenantSettings::default()
    };
    let [a, b] = JOBS_OF.map(|name| (name, of(3)));
    cpu_cluster_of(settings, [a, b, (THIRD, of(0))], |options| {
        let capacity = CAPACITY.to_string();
        for (key, value) in [
            ("worker.capacity", capacity.as_str()),
            ("worker.overcommit", "200"),
        ] {
            options.settings.push((key.into(), value.into()));
        }
    })
    .await
}

/// Runs both jobs at once. Returns the seconds until the last has ended.
async fn together(cluster: &LocalCluster, passes: usize) -> Result<f64> {
    let began = Instant::now();
    let [a, b] = JOBS_OF;
    let (a, b) = tokio::join!(
        play::<JobDone>(cluster, a, passes),
        play::<JobDone>(cluster, b, passes)
    );
    a?;
    b?;
    Ok(began.elapsed().as_secs_f64())
}

async fn jobs(reps: usize, settings: &Settings) -> Result<Measurement> {
    let cluster = cluster(settings).await?;
    let (mut ratios, mut serial) = (Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("two jobs that do not fit together: repetition {rep} of {reps}");
        let began = Instant::now();
        for job in JOBS_OF {
            play::<JobDone>(&cluster, job, PASSES).await?;
        }
        let alone = began.elapsed().as_secs_f64();
        ratios.push(together(&cluster, PASSES).await? / alone);
        serial.push(alone);
    }
    let metric = Measurement::new(&JOBS, &ratios).against("one after the other, s", &serial);
    Ok(metric.with("bytes_each", JOB).with("capacity", CAPACITY))
}

async fn urgent(reps: usize, settings: &Settings) -> Result<Measurement> {
    let cluster = cluster(settings).await?;
    let (mut ratios, mut alone) = (Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("an urgent tenant beside them: repetition {rep} of {reps}");
        let before: ThirdDone = play(&cluster, THIRD, LAUNCHES).await?;
        let (beside, jobs) = tokio::join!(
            play::<ThirdDone>(&cluster, THIRD, LAUNCHES),
            together(&cluster, PASSES)
        );
        jobs?;
        ratios.push(beside?.p99_us / before.p99_us);
        alone.push(before.p99_us);
    }
    let metric = Measurement::new(&URGENT, &ratios).against("alone, us", &alone);
    Ok(metric.with("launches", LAUNCHES))
}

/// Moves a session one way. Returns the seconds.
fn moves(device: &mut CpuDevice, program: &TestProgram, out: bool) -> Result<f64> {
    match out {
        true => device.swap_out(program.session()),
        false => device.swap_in(program.session()),
    }
    let mut ended: Vec<Moved> = Vec::new();
    while device.moved(&mut ended) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let moved = ended.pop().context("the move has ended")?;
    anyhow::ensure!(moved.failure.is_none(), "{:?}", moved.failure);
    Ok(moved.took.as_secs_f64())
}

/// Seconds of a copy between two resident buffers.
fn copy(from: &[u8], to: &mut [u8]) -> f64 {
    let began = Instant::now();
    to.copy_from_slice(std::hint::black_box(from));
    std::hint::black_box(to);
    began.elapsed().as_secs_f64()
}

/// Ratios out and in, and the seconds of the copies.
fn speeds(reps: usize) -> Result<[Vec<f64>; 3]> {
    let space = SwapSpace::new(&SwapConfig {
        memory: MOVED + (1 << 20),
        file: None,
    });
    let space = space.map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let config = CpuConfig {
        capacity: 2 * MOVED,
        ..CpuConfig::default()
    };
    let mut device = CpuDevice::new(config).swapping(space);
    let (mut program, load) = TestProgram::opened(&mut device, 1, PTX);
    let address = program.window().base;
    let (alloc, fill) = (
        Op::Alloc {
            address,
            bytes: MOVED,
        },
        Op::Set {
            address,
            count: MOVED,
            value: 7,
            width: 1,
        },
    );
    let slice = program.slice(&[(load, &[]), (alloc, &[]), (fill, &[])]);
    complete(&mut device, slice);
    let bytes = usize::try_from(MOVED)?;
    let (from, mut to) = (vec![1; bytes], vec![2; bytes]);
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for rep in 1..=reps {
        eprintln!("moves of {} MiB: repetition {rep} of {reps}", MOVED >> 20);
        let copied = copy(&from, &mut to);
        let out = moves(&mut device, &program, true)?;
        let back = moves(&mut device, &program, false)?;
        for (values, value) in all.iter_mut().zip([copied / out, copied / back, copied]) {
            values.push(value);
        }
    }
    Ok(all)
}

/// Measures the wanted metrics.
pub(super) async fn swapping(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if wanted(OUT.name) || wanted(IN.name) {
        let [out, back, copied] = speeds(reps)?;
        for (spec, values) in [(&OUT, out), (&IN, back)] {
            if wanted(spec.name) {
                let metric = Measurement::new(spec, &values).against("a copy, s", &copied);
                tell(metric.with("bytes", MOVED));
            }
        }
    }
    if wanted(JOBS.name) {
        tell(jobs(reps, settings).await?);
    }
    if wanted(URGENT.name) {
        tell(urgent(reps, settings).await?);
    }
    Ok(())
}
