//! The devices at a glance: tables, a list, the processes, JSON.

use admin::calendar::{moment, now_ms};
use admin::table::{fitted, headed};
use bus_schemas::Tenant;
use nvml::{driver_text, percent};

use super::fields::{busy, free, total, used};
use super::view::{Shown, cuda_version};

/// The head of the list of processes.
pub(super) const PROCESS_HEAD: &str = "\
# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name";

/// Two tables: devices and processes.
pub(super) fn tables(tenant: &Tenant, shown: &[Shown]) -> String {
    let (driver, cuda) = (driver_text(), cuda_version(shown));
    let now = moment(now_ms());
    let head = format!("tenant {tenant}, driver {driver}, CUDA {cuda}, {now} UTC");
    let mut devices = headed("gpu> | name | bus id | held> | free> | of> | busy>");
    for it in shown {
        devices.add_row([
            it.index.to_string(),
            it.device.properties.name.clone(),
            it.device.bus_id(),
            used(it).full(),
            free(it).full(),
            total(it).full(),
            busy(it).full(),
        ]);
    }
    let mut processes = headed("gpu> | host | pid> | program | held> | busy>");
    for it in shown {
        for process in &it.processes {
            processes.add_row([
                it.index.to_string(),
                process.host.clone(),
                process.pid.to_string(),
                process.name.clone(),
                format!("{} MiB", process.held >> 20),
                format!("{} %", percent(process.busy_ppm)),
            ]);
        }
    }
    let is_idle = shown.iter().all(|it| it.processes.is_empty());
    let below = if is_idle {
        "no processes".into()
    } else {
        fitted(&processes)
    };
    format!("{head}\n{}\n{below}", fitted(&devices))
}

/// One line a device.
pub(super) fn list(shown: &[Shown]) -> String {
    let lines = shown.iter().map(|it| {
        let name = &it.device.properties.name;
        format!("GPU {}: {name} (UUID: {})", it.index, it.device.uuid())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// One line a process; a device without processes also gets a line.
pub(super) fn processes(shown: &[Shown]) -> String {
    let mut lines = Vec::new();
    for it in shown {
        let index = it.index;
        for process in &it.processes {
            let (pid, busy, name) = (process.pid, percent(process.busy_ppm), &process.name);
            lines.push(format!(
                "{index:>5} {pid:>10}     C {busy:>5}     -     -     -   {name}"
            ));
        }
        if it.processes.is_empty() {
            let none = "-";
            lines.push(format!(
                "{index:>5} {none:>10}     - {none:>5}     -     -     -   -"
            ));
        }
    }
    lines.join("\n")
}

/// All devices and processes as JSON, in bytes and parts per million.
pub(super) fn as_json(tenant: &Tenant, shown: &[Shown]) -> serde_json::Value {
    let devices = shown.iter().map(|it| {
        let properties = &it.device.properties;
        let processes = it.processes.iter().map(|process| {
            serde_json::json!({
                "host": process.host,
                "pid": process.pid,
                "name": process.name,
                "held": process.held,
                "busy_ppm": process.busy_ppm,
            })
        });
        serde_json::json!({
            "index": it.index,
            "gpu": it.device.gpu,
            "worker": it.device.worker.to_string(),
            "name": properties.name,
            "kind": properties.kind,
            "uuid": it.device.uuid(),
            "bus_id": it.device.bus_id(),
            "compute_cap": [properties.compute.0, properties.compute.1],
            "multiprocessors": properties.sms,
            "total": it.device.total(),
            "held": it.device.share.map(|share| share.held),
            "free": it.device.share.map(|share| share.free),
            "busy_ppm": it.device.share.map(|share| share.busy_ppm),
            "processes": processes.collect::<Vec<_>>(),
        })
    });
    let devices: Vec<_> = devices.collect();
    serde_json::json!({ "tenant": tenant.to_string(), "devices": devices })
}
