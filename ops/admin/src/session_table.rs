//! Sessions as rows and facts for people.

use comfy_table::Table;

use crate::administrator::{SessionProcess, SessionRow};
use crate::table::{headed, size};
use crate::target::duration;

/// A row for each session.
#[must_use]
pub fn table(sessions: &[SessionRow]) -> Table {
    let mut table = headed(
        "session | tenant | gpu> | waits for | queued> | on device> | memory> | busy> | process",
    );
    for session in sessions {
        table.add_row([
            session.id.to_string(),
            session.tenant.to_string(),
            session.gpu.to_string(),
            session.waits_for.name().to_owned(),
            session.queued.to_string(),
            outstanding(session),
            memory(session),
            busy(session),
            session.process.as_ref().map_or_else(none, process),
        ]);
    }
    table
}

/// All known facts of one session, by name.
#[must_use]
pub fn facts(session: &SessionRow) -> [[String; 2]; 11] {
    let fact = |name: &str, value: String| [name.to_owned(), value];
    let pinned = session.pinned.map(|pinned| match pinned {
        true => "stays on the device",
        false => "may be swapped out",
    });
    [
        fact("id", session.id.to_string()),
        fact("tenant", session.tenant.to_string()),
        fact("number of the tenant's", session.ordinal.to_string()),
        fact("gpu", session.gpu.to_string()),
        fact("worker", session.incarnation.to_string()),
        fact("waits for", session.waits_for.name().to_owned()),
        fact("ops queued", session.queued.to_string()),
        fact("on the device", outstanding(session)),
        fact(
            "memory",
            match pinned {
                Some(pinned) => format!("{}, {pinned}", memory(session)),
                None => none(),
            },
        ),
        fact("busy", busy(session)),
        fact(
            "process",
            session.process.as_ref().map_or_else(none, process),
        ),
    ]
}

/// The text for an unreported value.
fn none() -> String {
    "-".to_owned()
}

fn outstanding(session: &SessionRow) -> String {
    match session.outstanding_ns {
        0 => "0 ms".to_owned(),
        ns => duration(ns),
    }
}

/// The memory that it holds, with the location unless that is the device.
fn memory(session: &SessionRow) -> String {
    match (session.held, session.place) {
        (None, _) => none(),
        (Some(held), None | Some("resident")) => size(held),
        (Some(held), Some(place)) => format!("{}, {place}", size(held)),
    }
}

fn busy(session: &SessionRow) -> String {
    let busy = session.busy_ppm.map(f64::from);
    busy.map_or_else(none, |ppm| format!("{:.0} %", ppm / 1e4))
}

fn process(process: &SessionProcess) -> String {
    format!("{} {} on {}", process.pid, process.name, process.host)
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, SessionId, SessionWait};

    use super::*;
    use crate::table::fit;

    fn row() -> SessionRow {
        SessionRow {
            id: SessionId(0x0007_0000_0003),
            tenant: "chat".parse().expect("a name"),
            ordinal: 5,
            incarnation: Incarnation(0x99aa_bbcc_ddee_ff00),
            gpu: 1,
            queued: 12,
            outstanding_ns: 20_000,
            waits_for: SessionWait::Memory,
            held: Some(3 << 30),
            busy_ppm: Some(250_000),
            place: Some("out"),
            pinned: Some(false),
            process: Some(SessionProcess {
                host: "node-7".into(),
                pid: 4711,
                name: "train".into(),
            }),
        }
    }

    #[test]
    fn a_row_has_all_and_fits_120_columns() {
        let mut silent = row();
        (silent.held, silent.busy_ppm) = (None, None);
        (silent.place, silent.pinned, silent.process) = (None, None, None);
        let text = fit(&table(&[row(), silent]), 120);
        for word in [
            "0000000700000003",
            "memory",
            "20 us",
            "3.0 GiB, out",
            "25 %",
            "4711 train on node-7",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(120), "{text}");
    }

    #[test]
    fn as_json_ids_and_waits_are_words() {
        let said = serde_json::to_value(row()).expect("JSON");
        assert_eq!(said["id"], "0000000700000003");
        assert_eq!(said["incarnation"], "99aabbccddeeff00");
        assert_eq!(said["waits_for"], "memory");
        assert_eq!(said["process"]["pid"], 4711);
        assert_eq!(said["held"], 3_u64 << 30);
    }
}
