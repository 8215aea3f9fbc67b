//! The standing grants that have not ended.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{GpuPosition, SessionId};

use super::pending::Standing;

/// Standing grants by position; at most one is open, the one behind the accepted positions.
#[derive(Debug, Default)]
pub(super) struct Standings {
    grants: BTreeMap<GpuPosition, Standing>,
    open: Option<GpuPosition>,
    /// Closed standing grants with a closing that is not known to be recorded, each with the number of its
    /// report.
    closings: VecDeque<(GpuPosition, u64)>,
}

impl Standings {
    /// Adds a standing grant that is open.
    pub(super) fn open(&mut self, position: GpuPosition, standing: Standing) {
        self.grants.insert(position, standing);
        self.open = Some(position);
    }

    /// The position of the open one.
    pub(super) fn open_position(&self) -> Option<GpuPosition> {
        self.open
    }

    /// The open one.
    pub(super) fn present(&self) -> Option<&Standing> {
        self.get(self.open?)
    }

    /// Closes the open one, and returns its position.
    pub(super) fn close(&mut self) -> Option<GpuPosition> {
        self.open.take()
    }

    /// Notes the number of the report that it was closed.
    pub(super) fn closed(&mut self, position: GpuPosition, report: u64) {
        self.closings.push_back((position, report));
    }

    pub(super) fn get(&self, position: GpuPosition) -> Option<&Standing> {
        self.grants.get(&position)
    }

    pub(super) fn get_mut(&mut self, position: GpuPosition) -> Option<&mut Standing> {
        self.grants.get_mut(&position)
    }

    /// The first one of a session.
    pub(super) fn first_of(&self, session: SessionId) -> Option<(GpuPosition, &Standing)> {
        let mut grants = self.grants.iter();
        let found = grants.find(|(_, standing)| standing.grant.session == session);
        found.map(|(position, standing)| (*position, standing))
    }

    /// Removes one that has ended.
    pub(super) fn remove(&mut self, position: GpuPosition) {
        self.grants.remove(&position);
    }

    /// The first closed one that the tail must keep.
    pub(super) fn unrecorded(&self) -> GpuPosition {
        let first = self.closings.front();
        first.map_or(GpuPosition::MAX, |(position, _)| *position)
    }

    /// Forgets closings with reports through this one. The leader acknowledges them once they are recorded.
    pub(super) fn acknowledge(&mut self, through: u64) {
        let known = |(_, report): &mut (GpuPosition, u64)| *report <= through;
        while self.closings.pop_front_if(known).is_some() {}
    }

    /// Begins an epoch: the seal's answer has the closed grants.
    pub(super) fn begin_epoch(&mut self) {
        self.closings.clear();
    }
}
