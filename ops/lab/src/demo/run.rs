//! A tenant of the demo, in its own process: prepares, waits for `go`, then serves requests until
//! told to `stop`.

use std::io::BufRead;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use client_agent::Client;
use workloads::{Gpu, Workload};

use super::args::DemoTenantArgs;
use crate::virtual_device::VirtualDevice;
use warploom_cli::credentials::client_settings;
use warploom_cli::process;
use warploom_cli::settings::Settings;

use super::tenant::Said;
use crate::lines::{say, stop_flag};

/// Runs one tenant in this process.
///
/// # Errors
/// When the device fails, or the demo is gone.
pub fn run_tenant(args: &DemoTenantArgs, settings: &Settings) -> Result<()> {
    process::follow_parent()?;
    let outcome = run(args, settings);
    if let Err(error) = &outcome {
        say(&Said::Failed {
            why: format!("{error:#}"),
        })?;
    }
    outcome
}

fn run(args: &DemoTenantArgs, settings: &Settings) -> Result<()> {
    let mut joined = client_settings(settings, args.tenant.as_str())?;
    joined.submitted = args.evidence.clone();
    // A cluster that is starting, or changing its leader, takes a moment.
    joined.patience = Duration::from_secs(30);
    let workload = workloads::by_name(&args.workload, args.seed)?;
    let client = Client::connect(joined)?;
    let session = client.open()?;
    let id = session.id().to_string();
    let mut device = VirtualDevice::new(session);
    serve(
        workload,
        &mut device,
        id,
        Duration::from_millis(args.think_ms),
    )?;
    device.into_session().close()?;
    drop(client);
    say(&Said::Stopped)
}

/// Serves one workload on a device, talking to the demo on standard input and output.
///
/// # Errors
/// When the device fails, or the demo is gone.
fn serve<G: Gpu>(
    mut workload: Box<dyn Workload<G>>,
    gpu: &mut G,
    session: String,
    think: Duration,
) -> Result<()> {
    workload
        .prepare(gpu)
        .map_err(|error| anyhow!("preparing: {error}"))?;
    gpu.sync().context("preparing")?;
    say(&Said::Ready { session })?;
    let mut lines = std::io::stdin().lock().lines();
    match lines.next() {
        Some(Ok(line)) if line == "go" => {}
        _ => bail!("the demo is gone before it said go"),
    }
    drop(lines);
    let stop = stop_flag();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let launches = workload.run(gpu).map_err(|error| anyhow!("{error}"))?;
        let us = begun.elapsed().as_micros() as u64;
        let outcome = workload.verify();
        say(&Said::Request {
            us,
            launches,
            verified: outcome.verified,
            detail: outcome.detail,
        })?;
        std::thread::sleep(think);
    }
    Ok(())
}
