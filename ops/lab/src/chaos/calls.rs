//! A watch over a program's calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::said::Said;
use crate::lines::say;

/// The call under way, if any, and the time at which it began.
type Current = Arc<Mutex<Option<(&'static str, Instant)>>>;

/// Watches calls: reports a call that misses the deadline, and then ends the process.
pub(super) struct Calls(Current);

impl Calls {
    /// Starts the watch on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn watched(deadline: Duration) -> Result<Self> {
        let current = Current::default();
        let theirs = Arc::clone(&current);
        std::thread::Builder::new()
            .name("deadline".into())
            .spawn(move || {
                loop {
                    std::thread::sleep(Duration::from_millis(200));
                    let current = *theirs.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some((call, _)) = current.filter(|(_, at)| at.elapsed() > deadline) else {
                        continue;
                    };
                    // Without a reader the process has no purpose either.
                    let _ = say(&Said::Hung { call: call.into() });
                    std::process::exit(3);
                }
            })?;
        Ok(Self(current))
    }

    /// Makes a call under this name.
    pub(super) fn watch<T>(&self, call: &'static str, run: impl FnOnce() -> T) -> T {
        self.set(Some((call, Instant::now())));
        let value = run();
        self.set(None);
        value
    }

    fn set(&self, current: Option<(&'static str, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }
}
