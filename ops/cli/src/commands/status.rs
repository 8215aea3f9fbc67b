//! `warploom status`: leader, workers, tenants.

use clap::Args;
use std::time::Duration;

use admin::credentials::credentials;
use admin::errors::{ErrorCode, Unreachable};
use admin::health::Health;
use admin::memory;
use admin::output;
use admin::settings::Settings;
use admin::state_dir::{is_up, state_dir};
use admin::table::{fitted, headed, size};
use admin::target::duration;
use admin::{Administrator, DeviceMemory, ServerStatus};
use anyhow::{Result, bail};
use bus_schemas::{PlaceStatus, Status, TenantStatus, WorkerStatus};
use comfy_table::Table;

use crate::commands::tenant::{limit, named};
use crate::local::disk_fault;

/// `warploom status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom status
  warploom status --watch 1
  warploom status --check > /dev/null || page-the-operator
  warploom status --json | jq .tenants")]
pub struct StatusArgs {
    /// Interval in seconds at which the output is repeated until Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub watch: Option<f64>,
    /// Fails with exit code 1 unless the cluster is healthy, also if no leader answers
    #[arg(long, conflicts_with = "watch")]
    pub check: bool,
}

/// Prints the leader's view of the cluster; if no leader answers, that the cluster is down.
///
/// # Errors
/// [`admin::errors::Unreachable`] if no leader answers; with `--check` an error if the cluster is not healthy.
pub async fn status(args: &StatusArgs, settings: &Settings, json: bool) -> Result<()> {
    let shown = show(args, settings, json).await;
    let is_silent = |error: &anyhow::Error| error.downcast_ref::<Unreachable>().is_some();
    if shown.as_ref().is_err_and(is_silent) {
        let health = Health::Down(vec!["no leader answers".into()]);
        if json {
            let (word, reasons) = (health.word(), health.reasons());
            output::line(serde_json::json!({ "health": word, "reasons": reasons }))?;
        } else {
            output::line(&health)?;
        }
    }
    shown.map_err(|error| match error.downcast::<Unreachable>() {
        Ok(Unreachable(why)) => {
            let why = match fault_here(settings) {
                Some(fault) => format!("{why}; {fault}"),
                None => why,
            };
            match args.check {
                true => ErrorCode::ClusterUnhealthy
                    .failed(format!("down: {why}"))
                    .into(),
                false => Unreachable(why).into(),
            }
        }
        Err(error) => error,
    })
}

/// The fault of the broker's disk, if the cluster runs on this host. Needed only if no leader
/// answers to report it.
fn fault_here(settings: &Settings) -> Option<String> {
    let elsewhere = ["broker.credentials", "broker.url"].map(|key| settings.given(key));
    let folder = state_dir(settings);
    let here = elsewhere.iter().all(Option::is_none) && is_up(&folder);
    here.then(|| disk_fault(&folder)).flatten()
}

async fn show(args: &StatusArgs, settings: &Settings, json: bool) -> Result<()> {
    let credentials = credentials(settings)?;
    let key = credentials.evidence_key.as_deref();
    let administrator = Administrator::of(settings).await?;
    loop {
        let status = administrator.status(administrator.patience()).await?;
        let memory = administrator.memory(&status).await;
        let servers = administrator.servers(&credentials).await;
        let health = Health::of(&status, &servers);
        if json {
            let mut shown = as_json(&status);
            shown["evidence_key"] = key.into();
            shown["memory"] = memory::as_json(&memory, None).into();
            shown["servers"] = serde_json::to_value(&servers)?;
            shown["health"] = health.word().into();
            shown["reasons"] = health.reasons().into();
            output::line(shown)?;
        } else {
            output::line(&health)?;
            output::line(tables(&status, &memory))?;
            if !servers.is_empty() {
                output::line(broker_table(&servers))?;
            }
            if let Some(key) = key {
                output::line(format_args!("evidence is signed with {key}"))?;
            }
        }
        let Some(seconds) = args.watch else {
            return match health {
                Health::Healthy => Ok(()),
                _ if args.check => bail!(ErrorCode::ClusterUnhealthy.failed(health)),
                _ => Ok(()),
            };
        };
        tokio::time::sleep(Duration::from_secs_f64(seconds.max(0.1))).await;
    }
}

fn tables(status: &Status, memory: &[DeviceMemory]) -> String {
    let head = format!(
        "leader {} epoch {}\ninputs {} ({} recorded), global position {}",
        status.leader, status.epoch, status.input, status.recorded, status.global
    );
    let workers = workers_table(status);
    let mut tenants = headed(
        "tenant | priority | weight | quota | sessions | queued | granted | target | \
         p99 | attained | requests",
    );
    for tenant in &status.tenants {
        let quota = limit(tenant.settings.quota, size);
        let row = [
            named(&tenant.tenant, &tenant.settings),
            tenant.settings.priority.to_string(),
            tenant.settings.weight.to_string(),
            quota,
            tenant.sessions.to_string(),
            tenant.queued.to_string(),
            tenant.granted.to_string(),
        ];
        let attained = attainment(tenant);
        tenants.add_row(row.into_iter().chain(attained));
    }
    let (workers, tenants) = (fitted(&workers), fitted(&tenants));
    let swap = memory::swap_table(memory).map(|swap| format!("\n{}", fitted(&swap)));
    let (memory, swap) = (
        fitted(&memory::table(memory, None)),
        swap.unwrap_or_default(),
    );
    format!("{head}\n{workers}\n{tenants}\n{memory}{swap}")
}

/// The workers as the leader sees them.
pub(super) fn workers_table(status: &Status) -> Table {
    let mut workers = headed(
        "gpu | worker | device | group | free | busy | sessions | granted | accepted | \
         outstanding | state",
    );
    let mut places = status.places.iter();
    for worker in &status.workers {
        let place = places.next();
        workers.add_row([
            worker.gpu.to_string(),
            worker.incarnation.to_string(),
            worker.device.clone(),
            place.map_or_else(String::new, group),
            place.map_or_else(String::new, free),
            place.map_or_else(String::new, |place| format!("{} %", place.busy)),
            worker.sessions.to_string(),
            worker.granted.to_string(),
            worker.accepted.to_string(),
            format!("{:.2} ms", worker.outstanding_ns as f64 / 1e6),
            state(worker).to_owned(),
        ]);
    }
    workers
}

/// A table of the broker's servers.
fn broker_table(servers: &[ServerStatus]) -> Table {
    let mut table = headed("broker | url | lease | in step");
    for server in servers {
        let name = server.name.as_deref().unwrap_or("does not answer");
        let lease = if server.leads_lease { "leads" } else { "" };
        let in_step = format!("{} of {}", server.in_step, server.copies);
        table.add_row([name, &server.url.to_string(), lease, &in_step]);
    }
    table
}

fn state(worker: &WorkerStatus) -> &'static str {
    match (worker.lost, worker.draining) {
        (true, _) => "lost",
        (false, true) => "draining",
        (false, false) => "live",
    }
}

/// A tenant's target. Also, over the last minute, its 99th percentile, the share of its requests
/// within the target, and their number.
fn attainment(tenant: &TenantStatus) -> [String; 4] {
    let none = || "-".to_owned();
    let target = match tenant.settings.slo_ns {
        0 => "none".to_owned(),
        target => duration(target),
    };
    let Some(counted) = &tenant.attainment else {
        return [target, none(), none(), "0".to_owned()];
    };
    let share = attained(tenant).map_or_else(none, |share| format!("{:.2} %", share * 100.0));
    let p99 = match counted.requests {
        0 => none(),
        _ => duration(counted.p99_ns),
    };
    let span = Duration::from_nanos(counted.counted_ns).as_secs().min(60);
    [
        target,
        p99,
        share,
        format!("{} in {span} s", counted.requests),
    ]
}

/// The share of the last minute's requests that took no longer than the target; `None` without a
/// target or requests.
fn attained(tenant: &TenantStatus) -> Option<f64> {
    let counted = tenant.attainment.as_ref()?;
    let any = tenant.settings.slo_ns > 0 && counted.requests > 0;
    any.then(|| counted.within as f64 / counted.requests as f64)
}

fn attainment_json(tenant: &TenantStatus) -> Option<serde_json::Value> {
    let counted = tenant.attainment.as_ref()?;
    Some(serde_json::json!({
        "target_ns": tenant.settings.slo_ns,
        "counted_s": counted.counted_ns as f64 / 1e9,
        "p99_ns": counted.p99_ns,
        "attained": attained(tenant),
        "requests": counted.requests,
        "within": counted.within,
        "total_requests": counted.total_requests,
        "total_within": counted.total_within,
    }))
}

fn group(place: &PlaceStatus) -> String {
    match place.exclusive {
        true => format!("{} (exclusive)", place.group),
        false => place.group.to_string(),
    }
}

fn free(place: &PlaceStatus) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!("{:.1} of {:.1} GiB", gib(place.free), gib(place.capacity))
}

/// The workers as JSON, one object each.
pub(super) fn workers_json(status: &Status) -> Vec<serde_json::Value> {
    let workers = status.workers.iter().enumerate();
    let rows = workers.map(|(index, worker)| {
        let place = status.places.get(index);
        serde_json::json!({
            "incarnation": worker.incarnation.to_string(),
            "gpu": worker.gpu,
            "device": worker.device,
            "sessions": worker.sessions,
            "granted": worker.granted,
            "accepted": worker.accepted,
            "chain": worker.chain.to_string(),
            "outstanding_ns": worker.outstanding_ns,
            "group": place.map(|place| place.group.as_str()),
            "exclusive": place.map(|place| place.exclusive),
            "capacity": place.map(|place| place.capacity),
            "free": place.map(|place| place.free),
            "busy": place.map(|place| place.busy),
            "lost": worker.lost,
            "draining": worker.draining,
        })
    });
    rows.collect()
}

fn as_json(status: &Status) -> serde_json::Value {
    let workers = workers_json(status);
    let lost = status.lost.iter().map(|worker| {
        serde_json::json!({
            "incarnation": worker.incarnation.to_string(),
            "gpu": worker.gpu,
            "device": worker.device,
            "lost_for_ns": worker.lost_for_ns,
        })
    });
    let lost: Vec<_> = lost.collect();
    let tenants: Vec<_> = status
        .tenants
        .iter()
        .map(|tenant| {
            serde_json::json!({
                "tenant": tenant.tenant.as_str(),
                "settings": tenant.settings,
                "sessions": tenant.sessions,
                "queued": tenant.queued,
                "granted": tenant.granted,
                "suspended": tenant.settings.suspended,
                "attainment": attainment_json(tenant),
            })
        })
        .collect();
    serde_json::json!({
        "epoch": status.epoch,
        "leader": status.leader.to_string(),
        "input": status.input,
        "recorded": status.recorded,
        "global": status.global,
        "held": status.held,
        "stores": status.stores,
        "workers": workers,
        "lost": lost,
        "tenants": tenants,
    })
}
