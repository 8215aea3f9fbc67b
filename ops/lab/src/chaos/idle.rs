//! A program that waits for nothing: it keeps sessions, makes no call on them, and notices when one ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use client_agent::{Client, Session};

use super::calls::Calls;
use super::said::Said;
use super::tell::{failed, opened, refused};
use crate::lines::say;

/// Time between two looks at a session.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two reports that the program is alive.
const ALIVE: Duration = Duration::from_secs(2);

/// Keeps this many sessions, each on a thread of its own. A session that has ended is replaced.
///
/// # Errors
/// If its output has no reader any more.
pub(super) fn idle(
    client: &Client,
    sessions: usize,
    deadline: Duration,
    stop: &AtomicBool,
) -> Result<()> {
    std::thread::scope(|scope| {
        let keep = || scope.spawn(|| keep(client, deadline, stop));
        let threads: Vec<_> = (0..sessions).map(|_| keep()).collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Keeps one session after the other.
fn keep(client: &Client, deadline: Duration, stop: &AtomicBool) -> Result<()> {
    let calls = Calls::watched(deadline)?;
    while !stop.load(Ordering::Relaxed) {
        match calls.watch("open", || client.open()) {
            Ok(session) => look(session, client.connection(), &calls, stop)?,
            Err(error) => refused(&error)?,
        }
    }
    Ok(())
}

/// Looks at a session until it ends, without making a call.
fn look(session: Session, connection: &str, calls: &Calls, stop: &AtomicBool) -> Result<()> {
    let id = opened(&session, connection)?;
    let mut said = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if said.elapsed() > ALIVE {
            say(&Said::Idle)?;
            said = Instant::now();
        }
        if session.failure().is_some() {
            say(&Said::Noticed {
                session: id.clone(),
            })?;
            break;
        }
        std::thread::sleep(LOOK);
    }
    let failure = session.failure();
    let closed = calls.watch("close", || session.close());
    match (failure, closed) {
        (Some(failure), _) => failed(id, failure.code, &failure.detail),
        (None, Err(error)) => failed(id, error.code(), &error.to_string()),
        (None, Ok(())) => say(&Said::Closed { session: id }),
    }
}
