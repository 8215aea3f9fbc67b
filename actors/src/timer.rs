//! The one timer of an actor, as its core asks for it: the earliest of what was asked wins.

use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context, SpawnHandle};

/// Nanoseconds since `began`: the clock that actors hand to their cores.
pub(crate) fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// When it rings next, nanoseconds of the actor's clock.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<(u64, SpawnHandle)>);

impl Timer {
    /// Rings at `due`, if it would not ring before: ringing too early is only a spare look.
    /// `ring` says [`Timer::rang`] first.
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

    /// It rang, and is not set any more.
    pub(crate) fn rang(&mut self) {
        self.0 = None;
    }
}
