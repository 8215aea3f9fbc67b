//! A tenant of the demo, in its own process. It prepares, waits for `go`, then serves requests until told
//! to `stop`.

use std::io::BufRead;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use admin::process;
use admin::settings::Settings;
use anyhow::{Result, anyhow, bail};
use bus_schemas::Code;
use client_agent::Client;
use workloads::{Gpu as _, Workload, WorkloadError};

use super::args::DemoTenantArgs;
use crate::virtual_device::VirtualDevice;
use warploom_cli::client_settings::client_settings;

use super::tenant::Said;
use crate::lines::{say, stop_flag};

/// Maximum number of times that a tenant begins again after its device was lost before it was ready.
const AGAIN: u32 = 2;

type BoxedWorkload = Box<dyn Workload<VirtualDevice>>;

/// Runs one tenant in this process.
///
/// # Errors
/// If the device fails, or the demo is gone.
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
    let client = Client::connect(joined)?;
    let (workload, mut device) = prepared(&client, args)?;
    serve(workload, &mut device, Duration::from_millis(args.think_ms))?;
    device.into_session().close()?;
    drop(client);
    say(&Said::Stopped)
}

/// A workload with its weights on a device. If the device is lost before that, the tenant begins again: it
/// has served no request yet.
fn prepared(client: &Client, args: &DemoTenantArgs) -> Result<(BoxedWorkload, VirtualDevice)> {
    let mut again = 0;
    loop {
        let mut workload: BoxedWorkload = workloads::by_name(&args.workload, args.seed)?;
        let session = client.open()?;
        let id = session.id().to_string();
        let mut device = VirtualDevice::new(session);
        let ready = match workload.prepare(&mut device) {
            Ok(()) => device.sync(),
            Err(WorkloadError::Device { error, .. }) => Err(error),
            Err(error) => bail!("preparing: {error}"),
        };
        match ready {
            Ok(()) => {
                say(&Said::Ready { session: id })?;
                return Ok((workload, device));
            }
            Err(error) if again < AGAIN && error.code() == Code::DeviceLost => {
                again += 1;
                let why = error.to_string();
                say(&Said::Again { why })?;
            }
            Err(error) => bail!("preparing: {error}"),
        }
    }
}

/// Serves a prepared workload, talking to the demo on standard input and output.
///
/// # Errors
/// If the device fails, or the demo is gone.
fn serve(mut workload: BoxedWorkload, gpu: &mut VirtualDevice, think: Duration) -> Result<()> {
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
