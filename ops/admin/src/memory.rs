//! The use of devices' memory, for display by commands.

use std::collections::{BTreeMap, HashMap};

use bus_schemas::{
    MemoryStatus, MoveTotals, Place, SessionMemoryStatus, SwapStatus, Tenant, TenantMemoryStatus,
};
use comfy_table::Table;
use serde_json::{Value, json};

use crate::administrator::DeviceMemory;
use crate::table::headed;
use crate::table::size;
use crate::target::duration;

/// A tenant's memory on a device, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holding {
    /// Allocated by its sessions.
    pub held: u64,
    /// The part that is charged: on the device, and not shared.
    pub resident: u64,
    /// The part that is swapped out.
    pub swapped: u64,
    /// The part that is stored once for several sessions.
    pub saved: u64,
    /// Still available to it.
    pub free: u64,
    /// Its limit.
    pub total: u64,
    /// The part of the last second in which its launches ran, parts per million.
    pub busy_ppm: u32,
}

/// Each tenant's memory on a device.
#[must_use]
pub fn holdings(said: &MemoryStatus) -> BTreeMap<Tenant, Holding> {
    let places = said.swap.iter().flat_map(|swap| &swap.sessions);
    let places: HashMap<_, _> = places.map(|row| (row.session, row.place)).collect();
    let is_out = |session: &&SessionMemoryStatus| places.get(&session.session) == Some(&Place::Out);
    let mut swapped = HashMap::<&Tenant, u64>::new();
    for session in said.sessions.iter().filter(is_out) {
        *swapped.entry(&session.tenant).or_default() += session.held;
    }
    let holding = |row: &TenantMemoryStatus| {
        let swapped = swapped.get(&row.tenant).copied().unwrap_or(0);
        let holding = Holding {
            held: row.held,
            resident: row.resident,
            swapped,
            saved: row
                .held
                .saturating_sub(row.resident.saturating_add(swapped)),
            free: row.free,
            total: row.total,
            busy_ppm: row.busy_ppm,
        };
        (row.tenant.clone(), holding)
    };
    said.tenants.iter().map(holding).collect()
}

/// A table with a row for each device and for each tenant with sessions there; with a given tenant,
/// only its own rows.
#[must_use]
pub fn table(devices: &[DeviceMemory], of: Option<&Tenant>) -> Table {
    let swaps = devices.iter().any(|device| swap_of(device).is_some());
    let mut table = match swaps {
        true => headed("tenant | gpu | memory> | free> | quota> | resident> | swapped> | busy>"),
        false => headed("tenant | gpu | memory> | free> | quota> | resident> | busy>"),
    };
    let none = || "-".to_owned();
    for device in devices {
        let gpu = device.gpu.to_string();
        let Some(said) = &device.said else {
            let figures = std::iter::repeat_with(none).take(5 + usize::from(swaps));
            table.add_row(["all".into(), gpu].into_iter().chain(figures));
            continue;
        };
        let holdings = holdings(said);
        if of.is_none() {
            let resident = said.tenants.iter().map(|row| row.resident).sum();
            let figures = [said.held, said.free, said.capacity, resident].map(size);
            let row = ["all".into(), gpu.clone()].into_iter().chain(figures);
            let out = holdings.values().map(|holding| holding.swapped).sum();
            let all = swaps.then(|| size(out));
            table.add_row(row.chain(all).chain([String::new()]));
        }
        for tenant in tenants(said, of) {
            let figures = [tenant.held, tenant.free, tenant.total, tenant.resident].map(size);
            let row = [tenant.tenant.to_string(), gpu.clone()].into_iter();
            let busy = format!("{:.0} %", f64::from(tenant.busy_ppm) / 1e4);
            let out = holdings.get(&tenant.tenant).map_or(0, |it| it.swapped);
            let swapped = swaps.then(|| size(out));
            table.add_row(row.chain(figures).chain(swapped).chain([busy]));
        }
    }
    table
}

/// A table with a row for each device with overcommitted memory: its swap space, and the moves of
/// memory. `None` if there is no such device.
#[must_use]
pub fn swap_table(devices: &[DeviceMemory]) -> Option<Table> {
    let mut table =
        headed("gpu | may hold> | host memory> | swap file> | out> | back> | waited> | moving>");
    for device in devices {
        let Some(swap) = swap_of(device) else {
            continue;
        };
        let part = |(part, whole): (u64, u64)| match whole {
            0 => "-".to_owned(),
            whole => format!("{} of {}", size(part), size(whole)),
        };
        let moves = |(times, bytes): (u64, u64)| format!("{times}, {}", size(bytes));
        table.add_row([
            device.gpu.to_string(),
            size(swap.limit),
            part(swap.memory),
            part(swap.file),
            moves(swap.outs),
            moves(swap.ins),
            duration(swap.waited_ns),
            part(swap.moving),
        ]);
    }
    (table.row_iter().count() > 0).then_some(table)
}

fn swap_of(device: &DeviceMemory) -> Option<&SwapStatus> {
    device.said.as_ref()?.swap.as_ref()
}

/// The place of a session's memory, and true if it must stay on the device.
pub(crate) fn place(said: &MemoryStatus, session: &SessionMemoryStatus) -> (Place, bool) {
    let mut rows = said.swap.iter().flat_map(|swap| &swap.sessions);
    let row = rows.rfind(|row| row.session == session.session);
    row.map_or((Place::Resident, false), |row| (row.place, row.pinned))
}

/// The name of a place.
pub(crate) fn place_name(place: Place) -> &'static str {
    match place {
        Place::Resident => "resident",
        Place::Leaving => "leaving",
        Place::Out => "out",
        Place::Coming => "coming",
    }
}

fn swap_json(swap: &SwapStatus) -> Value {
    let use_of = |(used, limit): (u64, u64)| json!({"used": used, "limit": limit});
    let moves = |(times, bytes): (u64, u64)| json!({"times": times, "bytes": bytes});
    json!({
        "limit": swap.limit,
        "memory": use_of(swap.memory),
        "file": use_of(swap.file),
        "outs": moves(swap.outs),
        "ins": moves(swap.ins),
        "waited_ns": swap.waited_ns,
        "moving": {"moved": swap.moving.0, "bytes": swap.moving.1},
    })
}

fn tenants<'a>(
    said: &'a MemoryStatus,
    of: Option<&'a Tenant>,
) -> impl Iterator<Item = &'a TenantMemoryStatus> {
    let rows = said.tenants.iter();
    rows.filter(move |row| of.is_none_or(|of| *of == row.tenant))
}

/// The same as JSON in bytes, with the sessions: one object for each device.
#[must_use]
pub fn as_json(devices: &[DeviceMemory], of: Option<&Tenant>) -> Vec<Value> {
    let devices = devices.iter().map(|device| {
        let said = device.said.as_ref();
        let rows = said.map(|said| {
            let holdings = holdings(said);
            let swapped = |row: &TenantMemoryStatus| {
                holdings
                    .get(&row.tenant)
                    .map_or(0, |holding| holding.swapped)
            };
            let rows = tenants(said, of).map(|row| tenant_json(said, row, swapped(row)));
            rows.collect::<Vec<_>>()
        });
        json!({
            "gpu": device.gpu,
            "incarnation": device.incarnation.to_string(),
            "capacity": said.map(|said| said.capacity),
            "held": said.map(|said| said.held),
            "free": said.map(|said| said.free),
            "tenants": rows,
            "swap": swap_of(device).map(swap_json),
        })
    });
    devices.collect()
}

fn tenant_json(said: &MemoryStatus, row: &TenantMemoryStatus, swapped: u64) -> Value {
    let sessions = said.sessions_of(&row.tenant);
    let sessions = sessions.map(|session| session_json(said, session));
    let moves = said.moves.iter().find(|it| it.tenant == row.tenant);
    let moves = moves.map_or_else(MoveTotals::default, |it| it.moves);
    json!({
        "tenant": row.tenant.as_str(),
        "total": row.total,
        "held": row.held,
        "free": row.free,
        "committed": row.committed,
        "resident": row.resident,
        "swapped": swapped,
        "busy_ppm": row.busy_ppm,
        "moves": {
            "outs": {"times": moves.outs, "bytes": moves.out_bytes},
            "ins": {"times": moves.ins, "bytes": moves.in_bytes},
            "waited_ns": moves.waited_ns,
            "swapped_byte_ms": moves.swapped_byte_ms,
            "saved_byte_ms": moves.saved_byte_ms,
            "unsent_bytes": moves.unsent_bytes,
        },
        "sessions": sessions.collect::<Vec<_>>(),
    })
}

fn session_json(said: &MemoryStatus, session: &SessionMemoryStatus) -> Value {
    let (place, pinned) = place(said, session);
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
        "place": place_name(place),
        "pinned": pinned,
        "process": process,
    })
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, SessionId, SessionResidency, TenantMoves, WIRE_VERSION};

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
            moves: Vec::new(),
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
    fn where_memory_is_swapped_that_is_shown_and_fits_100_columns() {
        let longest = "a".repeat(32);
        let mut swapping = said(&[&longest]);
        let session = SessionMemoryStatus {
            tenant: longest.parse().unwrap(),
            session: SessionId(7),
            held: 3 << 30,
            busy_ppm: 0,
            process: None,
        };
        swapping.sessions.push(session);
        swapping.moves.push(TenantMoves {
            tenant: longest.parse().unwrap(),
            moves: MoveTotals {
                ins: 7,
                in_bytes: 70 << 20,
                ..MoveTotals::default()
            },
        });
        swapping.swap = Some(SwapStatus {
            limit: 9_999 << 30,
            memory: (1_023 << 30, 9_999 << 30),
            moving: (1 << 30, 3 << 30),
            outs: (12_345, 1_023 << 30),
            sessions: vec![SessionResidency {
                session: SessionId(7),
                bytes: 3 << 30,
                place: Place::Out,
                pinned: false,
            }],
            ..SwapStatus::default()
        });
        let devices = [device(999, Some(swapping)), device(1, None)];
        for table in [
            table(&devices, None),
            swap_table(&devices).expect("it swaps"),
        ] {
            let text = fit(&table, 100);
            let fits = text.lines().all(|line| line.chars().count() <= 100);
            assert!(fits, "{text}");
        }
        let shown = as_json(&devices, None);
        assert_eq!(shown[0]["tenants"][0]["swapped"], 3_u64 << 30);
        assert_eq!(shown[0]["tenants"][0]["sessions"][0]["place"], "out");
        assert_eq!(shown[0]["swap"]["outs"]["times"], 12_345);
        let moves = &shown[0]["tenants"][0]["moves"];
        assert_eq!(moves["ins"]["bytes"], 70 << 20);
        assert_eq!(moves["outs"]["times"], 0);
        assert_eq!(shown[1]["swap"], Value::Null);
        assert!(swap_table(&devices[1..]).is_none());
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
