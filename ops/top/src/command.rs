//! The command `warploom top`: connects the room to the terminal and the cluster.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use admin::Administrator;
use admin::calendar::now_ms;
use admin::errors::UsageError;
use admin::process::stop_signal;
use admin::session_table;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use admin::{block_on, completion, output};
use anyhow::{Context, Result, bail};
use clap::Args;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use serde_json::json;
use tokio::sync::mpsc;

use crate::lanes::Lanes;
use crate::live;
use crate::look::Look;
use crate::room::{Action, Done, Key, Room};
use crate::rows::{Sample, Sort};
use crate::view::draw;

/// Maximum time between two redraws.
const FRAME: Duration = Duration::from_millis(250);

/// `warploom top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom top
  warploom top --sort busy --filter chat
  warploom top --once                   tables, once; so also where stdout is no terminal
  warploom top --once --json | jq .tenants

Keys: Tab sessions and devices, s sort, / filter, e end a session, d drain, p suspend, q quit.")]
pub struct TopArgs {
    /// Prints the current state and exits
    #[arg(long)]
    once: bool,
    /// Seconds between two samples of the cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// Sort order of the rows
    #[arg(long, value_enum, default_value = "name")]
    sort: Sort,
    /// Only tenants, sessions and programs with this text in their names
    #[arg(long, value_name = "TEXT", default_value = "", add = completion::tenants())]
    filter: String,
}

/// Shows the cluster until told to stop.
///
/// # Errors
/// [`admin::errors::Unreachable`] without a cluster; an error if the terminal cannot be used.
pub fn top(args: &TopArgs, settings: &Settings, json: bool) -> Result<()> {
    if !(0.1..=3_600.0).contains(&args.every) {
        bail!(UsageError("--every is 0.1 to 3600 seconds".into()));
    }
    block_on(async {
        let administrator = Arc::new(Administrator::of(settings).await?);
        let first = live::sample(&administrator).await?;
        if args.once || json || !std::io::stdout().is_terminal() {
            return once(args, &first, json);
        }
        let mut room = Room {
            sort: args.sort,
            filter: args.filter.clone(),
            ..Room::default()
        };
        room.take(first);
        // Handles stop signals, so that the terminal is restored in every case.
        let stopped = stop_signal()?;
        let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
        let shown = show(&mut terminal, &mut room, &administrator, args, settings);
        let shown = tokio::select! {
            shown = shown => shown,
            () = stopped => Ok(()),
        };
        ratatui::restore();
        shown
    })
}

/// Prints a sample.
fn once(args: &TopArgs, sample: &Sample, json: bool) -> Result<()> {
    let tenants = sample.tenants(args.sort, &args.filter);
    let sessions = sample.sessions(args.sort, &args.filter);
    if json {
        return output::line(json!({
            "cluster": sample.cluster(),
            "gpus": sample.gpus(),
            "tenants": tenants,
            "sessions": sessions,
        }));
    }
    let size = admin::table::size;
    let part = |part: f64| format!("{:.0} %", part * 100.0);
    let mut table = headed("gpu | device | state | busy> | sessions> | memory>");
    for gpu in sample.gpus() {
        table.add_row([
            gpu.gpu.to_string(),
            gpu.device,
            gpu.state.to_owned(),
            gpu.busy.map_or_else(|| "-".into(), part),
            gpu.sessions.to_string(),
            gpu.held.map_or_else(|| "-".into(), size),
        ]);
    }
    output::line(fitted(&table))?;
    let mut table =
        headed("tenant | prio> | busy> | sessions> | queued> | attained> | memory> | swapped>");
    for tenant in tenants {
        table.add_row([
            tenant.tenant,
            tenant.priority.to_string(),
            part(tenant.busy),
            tenant.sessions.to_string(),
            tenant.queued.to_string(),
            tenant.attained.map_or_else(|| "-".into(), part),
            size(tenant.held),
            size(tenant.swapped),
        ]);
    }
    output::line(fitted(&table))?;
    output::line(fitted(&session_table::table(&sessions)))
}

/// The stream of key presses; it ends when the terminal is closed. Ctrl-C is sent as `None`.
fn keys() -> mpsc::Receiver<Option<Key>> {
    let (tell, heard) = mpsc::channel(64);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let Some(key) = read(&event) else {
                continue;
            };
            if tell.blocking_send(key).is_err() {
                return;
            }
        }
    });
    heard
}

/// The key of an event: `Some(None)` for Ctrl-C, `None` if the event is no key of ours.
fn read(event: &Event) -> Option<Option<Key>> {
    let Event::Key(key) = event else {
        return None;
    };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(Some(match key.code {
        KeyCode::Char('c') if control => return Some(None),
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    }))
}

async fn show(
    terminal: &mut DefaultTerminal,
    room: &mut Room,
    administrator: &Arc<Administrator>,
    args: &TopArgs,
    settings: &Settings,
) -> Result<()> {
    let (mut keys, mut order, mut lanes) = (keys(), live::order(settings), Lanes::default());
    let look = Look {
        colours: std::env::var_os("NO_COLOR").is_none(),
    };
    let mut samples = live::samples(administrator, Duration::from_secs_f64(args.every));
    let (tell, mut said) = mpsc::channel(1);
    let mut frames = tokio::time::interval(FRAME);
    let mut followed = true;
    loop {
        terminal.draw(|frame| draw(frame, room, &lanes, now_ms(), look))?;
        tokio::select! {
            key = keys.recv() => {
                let Some(Some(key)) = key else {
                    return Ok(());
                };
                match room.key(key) {
                    Done::Shown => {}
                    Done::Quit => return Ok(()),
                    Done::Action(action) => {
                        room.message = "it is being done".into();
                        does(administrator, action, &tell);
                    }
                }
            }
            ran = order.recv(), if followed => match ran {
                Some(ran) => {
                    lanes.add(ran.gpu, &ran.tenant, ran.ended_ms, ran.ran_ns);
                    // Positions that arrived together are drawn at once.
                    while let Ok(ran) = order.try_recv() {
                        lanes.add(ran.gpu, &ran.tenant, ran.ended_ms, ran.ran_ns);
                    }
                }
                None => followed = false,
            },
            Some(sample) = samples.recv() => match sample {
                Ok(sample) => room.take(sample),
                Err(error) => room.message = format!("{error:#}"),
            },
            Some(came) = said.recv() => room.message = came,
            _ = frames.tick() => {}
        }
    }
}

/// Runs an action in the background and sends a message with its outcome.
fn does(administrator: &Arc<Administrator>, action: Action, tell: &mpsc::Sender<String>) {
    let (administrator, tell) = (administrator.clone(), tell.clone());
    tokio::spawn(async move { tell.send(done(&administrator, &action).await).await });
}

/// Runs an action and returns a message with its outcome.
async fn done(administrator: &Administrator, action: &Action) -> String {
    let done = match action {
        Action::End(session) => {
            administrator
                .end_session(*session)
                .await
                .map(|there| match there {
                    true => format!("session {session} has ended"),
                    false => format!("there is no session {session} any more"),
                })
        }
        Action::Drain(worker, on) => administrator.drain(*worker, *on).await.map(|_| match on {
            true => format!("worker {worker} gets no new sessions"),
            false => format!("worker {worker} gets new sessions again"),
        }),
        Action::Suspend(tenant, on) => administrator.suspend(tenant, *on).await.map(|_| match on {
            true => format!("tenant {tenant} is suspended"),
            false => format!("tenant {tenant} is resumed"),
        }),
    };
    done.unwrap_or_else(|error| format!("{error:#}"))
}
