//! The tail: grants that the record may lack, kept for the next leader.

use std::collections::VecDeque;

use bus_schemas::{Epoch, GpuPosition, InputNumber, SealedGrant};

use super::pending::KeptGrant;

/// The latest grants, and what their leader reports as recorded.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<KeptGrant>,
    /// Range of the forgotten positions among those that the leader has not reported as recorded.
    forgotten: Option<(GpuPosition, GpuPosition)>,
    recorded: InputNumber,
}

impl Tail {
    /// Adds the latest grant; forgets the oldest if there are `most`.
    pub(super) fn push(&mut self, grant: KeptGrant, most: usize) {
        if self.kept.len() >= most
            && let Some(oldest) = self.kept.pop_front()
        {
            let last = oldest.sealed.position;
            let first = self.forgotten.map_or(last, |(first, _)| first);
            self.forgotten = Some((first, last));
        }
        self.kept.push_back(grant);
    }

    /// Forgets what the leader of this epoch reports as recorded, before the first position of which
    /// the closing is not recorded.
    pub(super) fn forget(
        &mut self,
        (epoch, recorded): (Epoch, InputNumber),
        unrecorded: GpuPosition,
    ) {
        if recorded <= self.recorded {
            return;
        }
        self.recorded = recorded;
        let known = |entry: &KeptGrant| {
            let SealedGrant { position, grant } = &entry.sealed;
            grant.epoch == epoch && grant.input <= recorded && *position < unrecorded
        };
        // Input numbers do not fall within an epoch, and epochs do not fall. So grants before a recorded one
        // are recorded too, or were handed to the leader that recorded it.
        if let Some(last) = self.kept.iter().rposition(known) {
            self.kept.drain(..=last);
            // Forgotten grants lie before it.
            self.forgotten = None;
        }
    }

    /// Begins an epoch: its leader has recorded nothing.
    pub(super) fn begin_epoch(&mut self) {
        self.recorded = 0;
    }

    /// The last input that the present leader reports as recorded.
    pub(super) fn recorded(&self) -> InputNumber {
        self.recorded
    }

    /// Range of the forgotten positions, if any were forgotten too early.
    pub(super) fn forgotten(&self) -> Option<(GpuPosition, GpuPosition)> {
        self.forgotten
    }

    /// The grants behind a position.
    pub(super) fn behind(
        &self,
        after: GpuPosition,
    ) -> impl ExactSizeIterator<Item = &KeptGrant> + Clone {
        self.kept.range(self.index(after)..)
    }

    /// The last `most` grants behind a position.
    pub(super) fn last_behind(
        &self,
        after: GpuPosition,
        most: usize,
    ) -> impl ExactSizeIterator<Item = &KeptGrant> + Clone {
        let fits = self.kept.len().saturating_sub(most);
        self.kept.range(self.index(after).max(fits)..)
    }

    /// The index of the first grant behind a position.
    fn index(&self, after: GpuPosition) -> usize {
        self.kept
            .partition_point(|kept| kept.sealed.position <= after)
    }
}
