//! The order at a position, printed.

use admin::record::PositionRow;
use admin::table::{fitted, headed};
use anyhow::Result;
use comfy_table::Table;
use scheduler_leader_core::Inspection;
use scheduler_leader_core::replay::Stopped;
use serde_json::{Value, json};

/// The order as one JSON object.
pub(super) fn json(stopped: &Stopped) -> Result<Value> {
    let (at, order) = (PositionRow::from(&stopped.at), &stopped.order);
    Ok(json!({ "at": at, "order": order }))
}

/// The order as tables: devices, the flows of each, tenants, sessions.
pub(super) fn tables(stopped: &Stopped) -> String {
    let (at, order) = (PositionRow::from(&stopped.at), &stopped.order);
    let what = match at.kind.as_str() {
        "run" => format!(
            "ops {} to {}, {} kernels",
            at.first,
            at.last,
            at.kernels.unwrap_or(0)
        ),
        other => other.to_owned(),
    };
    let held = if order.held { ", grants are held" } else { "" };
    let head = format!(
        "behind global position {}, gpu {} position {}: {} session {}, {what}\n\
         epoch {}, input {}; window {}, quantum {}{held}",
        at.global,
        at.gpu,
        at.position,
        at.tenant,
        at.ordinal,
        order.epoch,
        order.input,
        ms(order.window_ns),
        ms(order.quantum_ns),
    );
    let parts = [
        devices(order),
        flows(order),
        tenants(order),
        sessions(order),
    ];
    let parts = parts.map(|table| fitted(&table));
    format!("{head}\n{}", parts.join("\n"))
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn signed_ms(ns: i64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Nanoseconds by priority, as milliseconds.
fn by_priority(ns: [u64; 5]) -> String {
    ns.map(|ns| format!("{:.3}", ns as f64 / 1e6)).join(" ")
}

fn devices(order: &Inspection) -> Table {
    let mut table = headed(
        "gpu> | worker | position> | outstanding ms, priority 0 to 4 | \
         virtual ms, priority 0 to 4 | floors owed ms",
    );
    for worker in &order.workers {
        let owed = match order.floors {
            [0, 0, 0, 0, 0] => "-".to_owned(),
            _ => by_priority(worker.owed_ns),
        };
        table.add_row([
            worker.gpu.to_string(),
            worker.incarnation.to_string(),
            worker.position.to_string(),
            by_priority(worker.outstanding_ns),
            by_priority(worker.virtual_ns),
            owed,
        ]);
    }
    table
}

fn flows(order: &Inspection) -> Table {
    let mut table = headed(
        "gpu> | prio> | tenant | weight> | queued> | virtual> | balance> | cap leaves> | \
         state",
    );
    for worker in &order.workers {
        for flow in &worker.flows {
            let state = match (flow.blocked, flow.aside, flow.eligible) {
                (true, ..) => "held back",
                (_, true, _) => "set aside for a target",
                (.., true) => "eligible",
                (.., false) => "waits for work",
            };
            table.add_row([
                worker.gpu.to_string(),
                flow.priority.to_string(),
                flow.tenant.to_string(),
                flow.weight.to_string(),
                flow.queued.to_string(),
                ms(flow.virtual_ns),
                signed_ms(flow.balance_ns),
                flow.budget_ns.map_or("-".to_owned(), signed_ms),
                state.to_owned(),
            ]);
        }
    }
    table
}

fn tenants(order: &Inspection) -> Table {
    let mut table = headed(
        "tenant | prio> | weight> | cap> | target> | sessions> | outstanding> | bound> | \
         granted ops> | granted>",
    );
    for tenant in &order.tenants {
        let or_none = |is: bool, text: String| if is { text } else { "-".to_owned() };
        table.add_row([
            tenant.tenant.to_string(),
            tenant.priority.to_string(),
            tenant.weight.to_string(),
            or_none(tenant.cap > 0, format!("{} %", tenant.cap)),
            or_none(tenant.slo_ns > 0, ms(tenant.slo_ns)),
            tenant.sessions.to_string(),
            ms(tenant.outstanding_ns),
            or_none(tenant.bound_ns > 0, ms(tenant.bound_ns)),
            tenant.granted.to_string(),
            ms(tenant.granted_ns),
        ]);
    }
    table
}

fn sessions(order: &Inspection) -> Table {
    let mut table = headed(
        "session | tenant | ordinal> | gpu> | queued> | granted> | done> | next slice> | \
         virtual> | state",
    );
    for session in &order.sessions {
        let state = match (session.closing, session.doubted, session.eligible) {
            (true, ..) => "closing",
            (_, true, _) => "doubted",
            (_, _, true) => "eligible",
            _ => "waits for work",
        };
        let next = session.next.map_or("-".to_owned(), |last| {
            format!("to {last}, {}", ms(session.next_ns))
        });
        table.add_row([
            session.session.to_string(),
            session.tenant.to_string(),
            session.ordinal.to_string(),
            session.gpu.to_string(),
            session.queued.to_string(),
            session.granted.to_string(),
            session.done.to_string(),
            next,
            ms(session.virtual_ns),
            state.to_owned(),
        ]);
    }
    table
}
