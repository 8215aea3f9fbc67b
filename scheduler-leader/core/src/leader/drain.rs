//! Workers that an administrator drains: they get no new sessions, and leave when they have none.

use bus_schemas::Incarnation;

use super::context::Context;
use super::event::{Action, Placement};
use super::publisher::Leaving;
use super::term::Term;
use crate::input::Input;

/// Maximum number of drained workers in the placement: some may have gone while no leader led.
const DRAINED: usize = 4_096;

impl Term {
    /// Has the placement stored, if it has changed.
    pub(super) fn keep_placement(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.placement_changed) {
            self.placement.ordinals = self.scheduler.ordinals();
            self.placement.version = self.placement.version.saturating_add(1);
            cx.actions
                .push(Action::WritePlacement(self.placement.clone()));
        }
    }

    /// Takes in a placement that was read from the store again: administrators' requests to the
    /// previous leader that are read only now.
    pub(super) fn placement_read(
        &mut self,
        before: &Placement,
        now: &Placement,
        cx: &mut Context<'_>,
    ) {
        if !now.follows(before) {
            // If the store has forgotten what was read before, no administrator has undone it. This
            // leader still goes by it, and the next one must find it.
            self.placement_changed |= before.follows(now);
            return;
        }
        if now.epoch >= self.publisher.epoch {
            // This leader wrote it.
            return;
        }
        if before.held != now.held {
            self.hold(now.held, cx);
        }
        self.expect(&now.workers, cx);
        self.missed_read(before, now, cx);
        self.clients.inherit(&now.closing, cx);
        for worker in before.drained.iter().chain(&now.drained) {
            let draining = now.drained.contains(worker);
            if before.drained.contains(worker) != draining {
                self.drain(*worker, draining, cx);
            }
        }
    }

    /// Starts or stops the drain of a worker.
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

    /// Handles a message of a drained worker: tells the order, and once no session is left, tells
    /// the worker to leave.
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
            self.publisher.leave(worker, Leaving::Drained, cx.actions);
        }
    }
}
