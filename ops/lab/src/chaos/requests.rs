//! The requests of a hostile tenant's neighbour: launch, wait for the result, compare it. Beside them its
//! session holds a secret, which it exports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client_agent::{Error, Session};
use workloads::SplitMix64;

use super::calls::Calls;
use super::hostile::secret::Secret;
use super::mixing::Mixing;
use super::said::Said;
use crate::lines::say;

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(2);
/// Launches of a request.
const LAUNCHES: u32 = 8;

/// Sends one request after the other until it is stopped.
pub(super) fn requests(
    session: &Session,
    seed: u64,
    random: &mut SplitMix64,
    calls: &Calls,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let secret = Secret::of(seed);
    let address = calls.watch("alloc", || session.alloc(secret.bytes.len() as u64))?;
    calls.watch("copy in", || session.copy_in(address, &secret.bytes))?;
    calls.watch("sync", || session.sync())?;
    calls.watch("export", || session.channel().export(secret.key, address))?;
    let mut mixing = Mixing::begin(session, random, calls)?;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        mixing.launch(LAUNCHES, random, calls)?;
        let right = mixing.is_right(calls)?;
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (right, wrong) = (u64::from(right), u64::from(!right));
        // The reader is gone: the run is over.
        if say(&Said::Request { ns })
            .and_then(|()| say(&Said::Round { right, wrong }))
            .is_err()
        {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    let mut found = vec![0; secret.bytes.len()];
    calls.watch("copy out", || session.copy_out(address, &mut found))?;
    let right = found == secret.bytes;
    let _ = say(&Said::Round {
        right: u64::from(right),
        wrong: u64::from(!right),
    });
    Ok(())
}
