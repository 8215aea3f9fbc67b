//! Replays that explain the waits of positions and the use of devices.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, GpuId};

use super::changes::{Changes, ReplayedChange};
use super::failures::ReplayedFailure;
use super::recompute::Replay;
use super::replayed::ReplayedPosition;
use crate::time::Nanos;
use crate::why::{DeviceDay, DeviceIdle, Explainer};

impl Replay {
    /// Returns the same replay with the failures of sessions, to be taken by [`Self::take_failures`].
    #[must_use]
    pub fn telling_failures(mut self) -> Self {
        self.failures.get_or_insert_default();
        self
    }

    /// The failures of the inputs applied since the last call. A seal before the end of a session
    /// tells its failure again.
    pub fn take_failures(&mut self) -> Vec<ReplayedFailure> {
        let failures = self.failures.as_mut().map(std::mem::take);
        failures.unwrap_or_default()
    }

    /// Returns the same replay with the changes from `from` to `to`, nanoseconds of the leaders'
    /// clock, to be taken by [`Self::take_changes`].
    #[must_use]
    pub fn telling_changes(mut self, from: Nanos, to: Nanos) -> Self {
        self.changes = Some(Changes::between(from, to));
        self
    }

    /// The newest changes since the last call, the oldest first: 4,096 at most.
    pub fn take_changes(&mut self) -> Vec<ReplayedChange> {
        let changes = self.changes.as_mut().map(Changes::take);
        changes.unwrap_or_default()
    }

    /// Returns the same replay with timings. Each position has its times and the causes of its wait
    /// ([`super::ReplayedPosition::timing`]), if the record has the times.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explainer.get_or_insert_default();
        self
    }

    /// Returns the same replay with timings, and with the devices' time from `from` to `to` only, nanoseconds of
    /// the leaders' clock. It reports the parts of a standing grant one by one as they end. Each is a position with
    /// that part's ops; the end of the grant has no timing.
    #[must_use]
    pub fn explaining_between(mut self, from: Nanos, to: Nanos) -> Self {
        self.explainer = Some(Box::new(Explainer::new((from, to), true)));
        self
    }

    /// Time of the first applied input that has times, nanoseconds of the leader's clock. Nothing before it is
    /// explained.
    #[must_use]
    pub fn explained_from(&self) -> Option<Nanos> {
        self.explainer.as_ref().and_then(|it| it.first())
    }

    /// True if inputs before the replayed ones were cut off the record.
    #[must_use]
    pub fn begins_at_anchor(&self) -> bool {
        self.restored.is_some()
    }

    /// Returns the same replay with the announced costs of each position and part with a timing
    /// ([`super::ReplayedPosition::work`]). Returns of memory have timings too.
    #[must_use]
    pub fn telling_costs(mut self) -> Self {
        self.costs.get_or_insert_default();
        self.explainer.get_or_insert_default().tell_returns();
        self
    }

    /// The standing grants that have not ended, with their waits so far. Each stands for all ops
    /// that its session has run since.
    #[must_use]
    pub fn standing(&self) -> Vec<ReplayedPosition> {
        let standing = self.explainer.iter().flat_map(|it| it.standing());
        let rows = standing.filter_map(|(place, through, timing)| {
            let row = self.chains.standing(place, through, &self.launches)?;
            Some(ReplayedPosition {
                timing: Some(timing),
                ..row
            })
        });
        rows.collect()
    }

    /// Use of each device on each replayed day: its busy time, and the causes of its idle time.
    #[must_use]
    pub fn device_days(&mut self) -> Vec<DeviceDay> {
        let Some(explainer) = &mut self.explainer else {
            return Vec::new();
        };
        explainer.rest();
        explainer.days()
    }

    /// The idle time of each device, as far as the record is replayed.
    #[must_use]
    pub fn device_idle(&mut self) -> BTreeMap<GpuId, DeviceIdle> {
        let Some(explainer) = &mut self.explainer else {
            return BTreeMap::new();
        };
        explainer.idle()
    }

    /// Use of the devices before each replayed epoch served them, as far as it is known now. The
    /// end of work that a leader left behind is reported to its successor.
    #[must_use]
    pub fn device_days_before_epochs(&mut self) -> BTreeMap<Epoch, Vec<DeviceDay>> {
        let Some(explainer) = &mut self.explainer else {
            return BTreeMap::new();
        };
        explainer.rest();
        explainer.days_before_epochs()
    }

    /// Keeps the days of the epochs before this one together from now on.
    pub fn merge_device_days(&mut self, before: Epoch) {
        if let Some(explainer) = &mut self.explainer {
            explainer.merge_days(before);
        }
    }
}
