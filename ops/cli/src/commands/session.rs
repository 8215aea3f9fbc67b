//! `warploom session`: list, show, end.

use anyhow::{Result, bail};
use bus_schemas::{GpuId, SessionId, Tenant};
use clap::{Args, Subcommand};
use comfy_table::Table;

use crate::admin::{Administrator, SessionFilter, SessionProcess, SessionRow};
use crate::commands::tenant::size;
use crate::completion;
use crate::output;
use crate::settings::Settings;
use crate::table::{fitted, headed};
use crate::target::duration;

/// `warploom session`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom session list --tenant train
  warploom session show 0000000700000003
  warploom session end 0000000700000003")]
pub enum SessionCommand {
    /// Lists sessions with the reason that each waits
    List(ListArgs),
    /// Shows one session
    Show(ShowArgs),
    /// Ends one session; its program's next call fails
    End(EndArgs),
}

/// `warploom session list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom session list
  warploom session list --tenant train --gpu 1
  warploom session list --json | jq 'select(.waits_for == \"memory\")'

A session waits for: nothing; its program (nothing is queued); the order (others are before it);
the window (it is next, and the device is full); its tenant's cap, or bound on outstanding work;
a target of others; its memory (it is swapped out); its worker; or it is suspended, all grants are
held (hold), or it is closing.")]
pub struct ListArgs {
    /// Only sessions of this tenant
    #[arg(long, value_name = "TENANT", add = completion::tenants())]
    pub tenant: Option<Tenant>,
    /// Only sessions on this device
    #[arg(long, value_name = "N", add = completion::gpus())]
    pub gpu: Option<GpuId>,
}

/// `warploom session show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom session show 0000000700000003
  warploom session show 0000000700000003 --json")]
pub struct ShowArgs {
    /// The session's id, as `session list` shows it
    #[arg(add = completion::sessions())]
    pub session: SessionId,
}

/// `warploom session end`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom session end 0000000700000003

What of it runs ends, what is queued does not run, and its memory is free. The program's next call
fails with E-SESSION-KILLED; a program that opens another session goes on.")]
pub struct EndArgs {
    /// The session's id, as `session list` shows it
    #[arg(add = completion::sessions())]
    pub session: SessionId,
}

/// Runs a session command.
///
/// # Errors
/// `E-SESSION-UNKNOWN` if there is no such session, [`crate::exit::Unreachable`] without a cluster.
pub async fn session(command: &SessionCommand, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
    match command {
        SessionCommand::List(args) => list(args, &administrator, json).await,
        SessionCommand::Show(args) => show(args.session, &administrator, json).await,
        SessionCommand::End(args) => end(args.session, &administrator, json).await,
    }
}

async fn list(args: &ListArgs, administrator: &Administrator, json: bool) -> Result<()> {
    let filter = SessionFilter {
        tenant: args.tenant.clone(),
        gpu: args.gpu,
        worker: None,
    };
    let sessions = administrator.sessions(&filter).await?;
    if let Some(tenant) = args.tenant.as_ref().filter(|_| sessions.is_empty()) {
        administrator.known(tenant).await?;
    }
    if json {
        return sessions.iter().try_for_each(print);
    }
    output::line(fitted(&table(&sessions)))
}

fn print(session: &SessionRow) -> Result<()> {
    output::line(serde_json::to_string(session)?)
}

fn unknown<T>(session: SessionId) -> Result<T> {
    bail!(
        "E-SESSION-UNKNOWN: there is no session {session}: `warploom session list` names those there are"
    )
}

async fn show(id: SessionId, administrator: &Administrator, json: bool) -> Result<()> {
    let Some(session) = administrator.session(id).await? else {
        return unknown(id);
    };
    if json {
        return print(&session);
    }
    let mut table = headed("session | ");
    for [name, value] in facts(&session) {
        table.add_row([name, value]);
    }
    output::line(fitted(&table))
}

async fn end(id: SessionId, administrator: &Administrator, json: bool) -> Result<()> {
    if !administrator.end_session(id).await? {
        return unknown(id);
    }
    match json {
        true => output::line(serde_json::json!({"id": id.to_string(), "ended": true})),
        false => output::line(format_args!("session {id} has ended")),
    }
}

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
fn facts(session: &SessionRow) -> [[String; 2]; 11] {
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
    use bus_schemas::{Incarnation, SessionWait};

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
