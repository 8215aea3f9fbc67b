//! Workers that an administrator drains: they get no new sessions, and leave when they have none.

use bus_schemas::Incarnation;

use super::context::Context;
use super::event::Placement;
use super::term::Term;
use crate::input::Input;

/// Drained workers remembered in the placement: some may have gone while nobody led.
const DRAINED: usize = 4_096;

impl Term {
    /// The store's placement was read again: what administrators had the leader before us do, and we
    /// read only now, is taken over.
    pub(super) fn placement_read(
        &mut self,
        before: &Placement,
        now: &Placement,
        cx: &mut Context<'_>,
    ) {
        if !now.follows(before) {
            // Where the store has forgotten what was read of it before, nobody has undone that: it
            // is what this leader still goes by, and what the next one is to find.
            self.placement_changed |= before.follows(now);
            return;
        }
        if now.epoch >= self.publisher.epoch {
            // It is our own.
            return;
        }
        if before.held != now.held {
            self.hold(now.held, cx);
        }
        self.expect(&now.workers, cx);
        self.clients.inherit(&now.closing, cx);
        for worker in before.drained.iter().chain(&now.drained) {
            let draining = now.drained.contains(worker);
            if before.drained.contains(worker) != draining {
                self.drain(*worker, draining, cx);
            }
        }
    }

    /// A worker is to be drained, or not any more.
    pub(super) fn drain(&mut self, worker: Incarnation, draining: bool, cx: &mut Context<'_>) {
        let (drained, lost) = (&mut self.placement.drained, &self.placement.lost);
        if drained.contains(&worker) == draining || (draining && lost.contains(&worker)) {
            return;
        }
        self.placement_changed = true;
        if draining {
            drained.push(worker);
            let surplus = drained.len().saturating_sub(DRAINED);
            drained.drain(..surplus);
            self.drained(worker, cx);
            return;
        }
        drained.retain(|other| *other != worker);
        if self.scheduler.worker(worker).is_some() {
            self.apply(
                Input::Cordon {
                    incarnation: worker,
                    cordoned: false,
                },
                cx,
            );
            for input in self.clients.waiting_opens() {
                self.apply(input, cx);
            }
        }
    }

    /// A worker that is drained was heard of: the order is told, and the worker that it is not
    /// needed any more.
    pub(super) fn drained(&mut self, worker: Incarnation, cx: &mut Context<'_>) {
        let Some(view) = self.scheduler.worker(worker) else {
            return;
        };
        if !view.cordoned {
            self.apply(
                Input::Cordon {
                    incarnation: worker,
                    cordoned: true,
                },
                cx,
            );
        } else if view.sessions == 0 {
            self.publisher.leave(worker, false, cx.actions);
        }
    }
}
