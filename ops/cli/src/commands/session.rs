//! `warploom session`: list, show, end.

use admin::completion;
use admin::errors::ErrorCode;
use admin::output;
use admin::session_table::{facts, table};
use admin::settings::Settings;
use admin::table::{fitted, headed};
use admin::{Administrator, SessionFilter, SessionRow};
use anyhow::{Result, bail};
use bus_schemas::{GpuId, SessionId, Tenant};
use clap::{Args, Subcommand};

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
    Show(SessionShowArgs),
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
pub struct SessionShowArgs {
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
/// `E-SESSION-UNKNOWN` if there is no such session, [`admin::errors::Unreachable`] without a cluster.
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
    bail!(ErrorCode::SessionUnknown.failed(format!(
        "there is no session {session}: `warploom session list` names those there are"
    )))
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
