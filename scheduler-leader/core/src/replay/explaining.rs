//! Replays that explain: what positions waited for, and what devices did.

use super::recompute::Replay;
use crate::why::DeviceDay;

impl Replay {
    /// The same replay, which tells with each position when it waited and ran and what it waited for
    /// ([`super::ReplayedPosition::timing`]), where the record has the times.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explainer.get_or_insert_default();
        self
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
