//! A program of a chaos run, in its own process: sessions of about 10 ms, one after the other, or one
//! session for as long as it lasts. Every result is compared with what plain Rust computes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use client_agent::{Client, Error, Function, Session};
use workloads::SplitMix64;

use super::args::ChaosProgramArgs;
use super::calls::Calls;
use super::holding::Holding;
use super::said::Said;
use crate::lines::{say, stop_flag};
use warploom_cli::credentials::client_settings;
use warploom_cli::process;
use warploom_cli::settings::Settings;

/// A kernel whose result depends on the order of its launches: x = 1664525 x + add + index.
const MIX: &[u8] = include_bytes!("mix.ptx");
/// Numbers that a session mixes.
const COUNT: u32 = 256;
/// Threads of a block.
const BLOCK: u32 = 64;
/// Launches of a round of a long session, at most.
const LAUNCHES: u32 = 48;
/// Rounds of a short session.
const ROUNDS: u32 = 2;
/// Between two rounds or short sessions.
const PAUSE: Duration = Duration::from_millis(4);
/// Between two requests for a session where one was refused.
const AGAIN: Duration = Duration::from_millis(100);

/// Runs one program in this process.
///
/// # Errors
/// When its output is not read any more.
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
        match calls.watch("open", || joined.open()) {
            Ok(session) => live(session, args, &mut random, &calls, &stop)?,
            Err(error) => refused(&error)?,
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

fn refused(error: &Error) -> Result<()> {
    say(&Said::Refused {
        code: error.code().name().to_owned(),
        why: error.to_string(),
    })?;
    std::thread::sleep(AGAIN);
    Ok(())
}

/// A session from its beginning to its end.
fn live(
    session: Session,
    args: &ChaosProgramArgs,
    random: &mut SplitMix64,
    calls: &Calls,
    stop: &AtomicBool,
) -> Result<()> {
    let id = session.id().to_string();
    say(&Said::Opened {
        session: id.clone(),
        ordinal: session.opened().ordinal,
    })?;
    let lived = work(&session, args, random, calls, stop);
    let closed = calls.watch("close", || session.close());
    match lived.and(closed) {
        Ok(()) => say(&Said::Closed { session: id }),
        Err(error) => say(&Said::Failed {
            session: id,
            code: error.code().name().to_owned(),
            why: error.to_string(),
        }),
    }
}

/// The rounds of a session.
fn work(
    session: &Session,
    args: &ChaosProgramArgs,
    random: &mut SplitMix64,
    calls: &Calls,
    stop: &AtomicBool,
) -> Result<(), Error> {
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
        // Nobody reads it any more: the run is over.
        if round(right).is_err() {
            return Ok(());
        }
        rounds += 1;
        std::thread::sleep(PAUSE);
    }
    let whole = holding.map(|holding| holding.is_right(calls)).transpose()?;
    // As above.
    let _ = whole.map(round);
    Ok(())
}

/// Says whether what came back is right.
fn round(right: bool) -> Result<()> {
    let (right, wrong) = (u64::from(right), u64::from(!right));
    say(&Said::Round { right, wrong })
}

/// Numbers on the device, and what they must be.
struct Mixing<'a> {
    session: &'a Session,
    mix: Function,
    address: u64,
    expected: Vec<u32>,
}

impl<'a> Mixing<'a> {
    fn begin(session: &'a Session, random: &mut SplitMix64, calls: &Calls) -> Result<Self, Error> {
        let module = calls.watch("load", || session.load(MIX))?;
        let mix = calls.watch("function", || module.function("mix"))?;
        let address = calls.watch("alloc", || session.alloc(4 * u64::from(COUNT)))?;
        let expected: Vec<u32> = (0..COUNT).map(|_| random.bits() as u32).collect();
        let bytes: Vec<u8> = expected.iter().flat_map(|x| x.to_le_bytes()).collect();
        calls.watch("copy in", || session.copy_in(address, &bytes))?;
        Ok(Self {
            session,
            mix,
            address,
            expected,
        })
    }

    /// Launches, and compares what comes back.
    fn round(&mut self, random: &mut SplitMix64, calls: &Calls, long: bool) -> Result<bool, Error> {
        let launches = match long {
            true => 1 + random.below(LAUNCHES),
            false => 1 + random.below(4),
        };
        calls.watch("launch", || {
            for _ in 0..launches {
                let add = random.bits() as u32;
                let mut params = self.address.to_le_bytes().to_vec();
                params.extend(COUNT.to_le_bytes());
                params.extend(add.to_le_bytes());
                let grid = [COUNT.div_ceil(BLOCK), 1, 1];
                self.session
                    .launch(&self.mix, grid, [BLOCK, 1, 1], 0, &params)?;
                for (index, x) in (0..).zip(&mut self.expected) {
                    *x = x
                        .wrapping_mul(1_664_525)
                        .wrapping_add(add)
                        .wrapping_add(index);
                }
            }
            Ok::<(), Error>(())
        })?;
        if random.below(4) == 0 {
            calls.watch("sync", || self.session.sync())?;
        }
        let mut bytes = vec![0; 4 * COUNT as usize];
        calls.watch("copy out", || {
            self.session.copy_out(self.address, &mut bytes)
        })?;
        let found = bytes.chunks_exact(4);
        let found = found.map(|it| u32::from_le_bytes(it.try_into().expect("four bytes")));
        Ok(found.eq(self.expected.iter().copied()))
    }
}
