//! A program of a chaos run, in its own process. It opens sessions of about 10 ms one after the other, or
//! keeps one session for as long as it lasts. Every result is compared with plain Rust's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::process;
use admin::settings::Settings;
use anyhow::Result;
use client_agent::{Client, Error, Session};
use workloads::SplitMix64;

use super::args::ChaosProgramArgs;
use super::calls::Calls;
use super::holding::Holding;
use super::idle::idle;
use super::mixing::Mixing;
use super::requests::requests;
use super::said::Said;
use super::tell::{failed, opened, refused};
use crate::lines::{say, stop_flag};
use warploom_cli::client_settings::client_settings;

/// Rounds of a short session.
const ROUNDS: u32 = 2;
/// Time between two rounds or short sessions.
const PAUSE: Duration = Duration::from_millis(4);

/// Runs one program in this process.
///
/// # Errors
/// If its output has no reader any more.
pub fn run_program(args: &ChaosProgramArgs, settings: &Settings) -> Result<()> {
    process::follow_parent()?;
    let calls = Calls::watched(Duration::from_secs(args.deadline))?;
    let stop = stop_flag();
    let mut random = SplitMix64::new(args.seed);
    let mut client = None;
    while !stop.load(Ordering::Relaxed) {
        let joined = match client.take() {
            Some(joined) => joined,
            None => match connect(args, settings, &calls) {
                Ok(joined) => joined,
                Err(error) => {
                    refused(&error)?;
                    continue;
                }
            },
        };
        if args.idle > 0 {
            let deadline = Duration::from_secs(args.deadline);
            idle(&joined, args.idle, deadline, &stop)?;
        } else {
            match calls.watch("open", || joined.open()) {
                Ok(session) => live(
                    session,
                    joined.connection(),
                    args,
                    &mut random,
                    &calls,
                    &stop,
                )?,
                Err(error) => refused(&error)?,
            }
        }
        client = Some(joined);
    }
    drop(client);
    say(&Said::Stopped)
}

fn connect(args: &ChaosProgramArgs, settings: &Settings, calls: &Calls) -> Result<Client, Error> {
    calls.watch("connect", || {
        let mut joined = client_settings(settings, args.tenant.as_str())
            .map_err(|error| Error::Connect(format!("{error:#}")))?;
        joined.submitted = Some(args.evidence.clone());
        joined.patience = Duration::from_secs(30);
        Client::connect(joined)
    })
}

/// Runs a session from its beginning to its end.
fn live(
    session: Session,
    connection: &str,
    args: &ChaosProgramArgs,
    random: &mut SplitMix64,
    calls: &Calls,
    stop: &AtomicBool,
) -> Result<()> {
    let id = opened(&session, connection)?;
    let lived = work(&session, args, random, calls, stop);
    if lived.is_err() {
        say(&Said::Noticed {
            session: id.clone(),
        })?;
    }
    let closed = calls.watch("close", || session.close());
    match lived.and(closed) {
        Ok(()) => say(&Said::Closed { session: id }),
        Err(error) => failed(id, error.code(), &error.to_string()),
    }
}

/// Runs the rounds of a session.
fn work(
    session: &Session,
    args: &ChaosProgramArgs,
    random: &mut SplitMix64,
    calls: &Calls,
    stop: &AtomicBool,
) -> Result<(), Error> {
    if let Some(seed) = args.requests {
        return requests(session, seed, random, calls, stop);
    }
    let mut holding = match args.holds {
        0 => None,
        bytes => match Holding::begin(session, bytes, random, calls, stop)? {
            None => return Ok(()),
            holding => holding,
        },
    };
    let mut mixing = Mixing::begin(session, random, calls)?;
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) && (args.long || rounds < ROUNDS) {
        let mut right = mixing.round(random, calls, args.long)?;
        if let Some(holding) = &mut holding {
            right &= holding.round(random, calls)?;
        }
        // The reader is gone: the run is over.
        if round(right).is_err() {
            return Ok(());
        }
        rounds += 1;
        std::thread::sleep(PAUSE);
    }
    let whole = holding.map(|holding| holding.is_right(calls)).transpose()?;
    // No reader, as above.
    let _ = whole.map(round);
    Ok(())
}

/// Reports whether a result is right.
fn round(right: bool) -> Result<()> {
    let (right, wrong) = (u64::from(right), u64::from(!right));
    say(&Said::Round { right, wrong })
}
