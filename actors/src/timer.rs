//! The one timer of an actor, as set by its core: the earliest request wins.

use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context, SpawnHandle};

/// Returns the nanoseconds since `began`: the clock that actors give to their cores.
pub(crate) fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Time of the next alarm, nanoseconds of the actor's clock.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<(u64, SpawnHandle)>);

impl Timer {
    /// Sets the alarm to `due`, unless it is set earlier: an early alarm only costs an extra check.
    /// `ring` must call [`Timer::rang`] first.
    pub(crate) fn set<A>(
        &mut self,
        now: u64,
        due: u64,
        ctx: &mut Context<A>,
        ring: fn(&mut A, &mut Context<A>),
    ) where
        A: Actor<Context = Context<A>>,
    {
        if let Some((set, handle)) = self.0 {
            if set <= due {
                return;
            }
            ctx.cancel_future(handle);
        }
        let wait = Duration::from_nanos(due.saturating_sub(now));
        self.0 = Some((due, ctx.run_later(wait, ring)));
    }

    /// Notes that the alarm rang, and is no longer set.
    pub(crate) fn rang(&mut self) {
        self.0 = None;
    }
}
