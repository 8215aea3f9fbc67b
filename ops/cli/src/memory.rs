//! What devices' memory is held for, as commands show it.

use bus_schemas::{MemoryStatus, SessionMemoryStatus, Tenant, TenantMemoryStatus};
use comfy_table::Table;
use serde_json::{Value, json};

use crate::admin::DeviceMemory;
use crate::commands::tenant::size;
use crate::table::headed;

/// A row for each device, and one for each tenant that has sessions there; with a tenant only its own.
#[must_use]
pub fn table(devices: &[DeviceMemory], of: Option<&Tenant>) -> Table {
    let mut table = headed("tenant | gpu | memory> | free> | quota> | resident> | busy>");
    let none = || "-".to_owned();
    for device in devices {
        let gpu = device.gpu.to_string();
        let Some(said) = &device.said else {
            table.add_row(["all".into(), gpu, none(), none(), none(), none(), none()]);
            continue;
        };
        if of.is_none() {
            let resident = said.tenants.iter().map(|row| row.resident).sum();
            let figures = [said.held, said.free, said.capacity, resident].map(size);
            let row = ["all".into(), gpu.clone()].into_iter();
            table.add_row(row.chain(figures).chain([String::new()]));
        }
        for tenant in tenants(said, of) {
            let figures = [tenant.held, tenant.free, tenant.total, tenant.resident].map(size);
            let row = [tenant.tenant.to_string(), gpu.clone()].into_iter();
            let busy = format!("{:.0} %", f64::from(tenant.busy_ppm) / 1e4);
            table.add_row(row.chain(figures).chain([busy]));
        }
    }
    table
}

fn tenants<'a>(
    said: &'a MemoryStatus,
    of: Option<&'a Tenant>,
) -> impl Iterator<Item = &'a TenantMemoryStatus> {
    let rows = said.tenants.iter();
    rows.filter(move |row| of.is_none_or(|of| *of == row.tenant))
}

/// The same in bytes, with the sessions: an object for each device.
#[must_use]
pub fn as_json(devices: &[DeviceMemory], of: Option<&Tenant>) -> Vec<Value> {
    let devices = devices.iter().map(|device| {
        let said = device.said.as_ref();
        let rows = said.map(|said| {
            let rows = tenants(said, of).map(|row| tenant_json(said, row));
            rows.collect::<Vec<_>>()
        });
        json!({
            "gpu": device.gpu,
            "incarnation": device.incarnation.to_string(),
            "capacity": said.map(|said| said.capacity),
            "held": said.map(|said| said.held),
            "free": said.map(|said| said.free),
            "tenants": rows,
        })
    });
    devices.collect()
}

fn tenant_json(said: &MemoryStatus, row: &TenantMemoryStatus) -> Value {
    let sessions = said.sessions_of(&row.tenant).map(session_json);
    json!({
        "tenant": row.tenant.as_str(),
        "total": row.total,
        "held": row.held,
        "free": row.free,
        "committed": row.committed,
        "resident": row.resident,
        "busy_ppm": row.busy_ppm,
        "sessions": sessions.collect::<Vec<_>>(),
    })
}

fn session_json(session: &SessionMemoryStatus) -> Value {
    let process = session.process.as_ref().map(|process| {
        json!({
            "host": process.host.as_str(),
            "pid": process.pid,
            "name": process.name.as_str(),
        })
    });
    json!({
        "session": session.session.to_string(),
        "held": session.held,
        "busy_ppm": session.busy_ppm,
        "process": process,
    })
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, WIRE_VERSION};

    use super::*;
    use crate::table::fit;

    fn device(gpu: u32, said: Option<MemoryStatus>) -> DeviceMemory {
        DeviceMemory {
            incarnation: Incarnation(u64::from(gpu)),
            gpu,
            said,
        }
    }

    fn said(tenants: &[&str]) -> MemoryStatus {
        let row = |tenant: &&str| TenantMemoryStatus {
            tenant: tenant.parse().unwrap(),
            total: 9_999 << 30,
            held: 1_023 << 30,
            free: 999 << 30,
            committed: 1_023 << 30,
            resident: 1_000 << 30,
            busy_ppm: 1_000_000,
            sessions: 0,
        };
        MemoryStatus {
            v: WIRE_VERSION,
            incarnation: Incarnation(0),
            gpu: 0,
            capacity: 9_999 << 30,
            held: 2_046 << 30,
            free: 999 << 30,
            tenants: tenants.iter().map(row).collect(),
            sessions: Vec::new(),
            more: false,
            swap: None,
        }
    }

    #[test]
    fn the_table_fits_100_columns_and_a_silent_worker_has_dashes() {
        let longest = "a".repeat(32);
        let devices = [device(999, Some(said(&[&longest, "b"]))), device(1, None)];
        let table = table(&devices, None);
        let text = fit(&table, 100);
        assert_eq!(text, table.to_string(), "nothing is folded");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        let silent = text
            .lines()
            .find(|line| line.contains("│ all") && line.contains('-'));
        assert!(silent.is_some(), "{text}");
        let shown = as_json(&devices, None);
        assert_eq!(shown[1]["held"], Value::Null);
        assert_eq!(shown[0]["tenants"][1]["held"], 1_023_u64 << 30);
    }

    #[test]
    fn of_one_tenant_nothing_else_is_shown() {
        let of = "b".parse().unwrap();
        let devices = [device(0, Some(said(&["a", "b"])))];
        let table = table(&devices, Some(&of));
        assert_eq!(table.row_iter().count(), 1);
        let shown = as_json(&devices, Some(&of));
        assert_eq!(shown[0]["tenants"].as_array().map(Vec::len), Some(1));
        assert_eq!(shown[0]["tenants"][0]["tenant"], "b");
    }
}
