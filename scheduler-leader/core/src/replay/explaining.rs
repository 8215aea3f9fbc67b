//! Replays that explain: what positions waited for, and what devices did.

use super::recompute::Replay;
use super::replayed::ReplayedPosition;
use crate::why::DeviceDay;

impl Replay {
    /// The same replay, which tells with each position when it waited and ran and what it waited for
    /// ([`super::ReplayedPosition::timing`]), where the record has the times.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explainer.get_or_insert_default();
        self
    }

    /// The standing grants that have not ended, with what they waited for so far: each stands for all that its
    /// session has run since.
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

    /// What each device did on each day, so far as it was replayed: how long it ran, and what kept it idle.
    #[must_use]
    pub fn device_days(&mut self) -> Vec<DeviceDay> {
        let Some(explainer) = &mut self.explainer else {
            return Vec::new();
        };
        explainer.rest();
        explainer.days()
    }
}
