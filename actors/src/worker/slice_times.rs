//! The times of slices and of memory moves, as the worker's metrics show them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bus_schemas::{GpuId, GpuPosition, SessionId, Tenant};
use device::{Completion, Moved};
use gpu_worker_core::sequencer::StartAction;

use telemetry::{Telemetry, TenantMeters};

/// The times of one worker's slices.
pub(super) struct SliceTimes {
    telemetry: Telemetry,
    gpu: GpuId,
    sessions: HashMap<SessionId, Arc<TenantMeters>>,
    /// Running slices, by position.
    running: VecDeque<(StartAction, Instant)>,
}

impl SliceTimes {
    pub(super) fn new(telemetry: Telemetry, gpu: GpuId) -> Self {
        Self {
            telemetry,
            gpu,
            sessions: HashMap::new(),
            running: VecDeque::new(),
        }
    }

    pub(super) fn opened(&mut self, session: SessionId, tenant: &Tenant) {
        let meters = self.telemetry.meters().tenant(tenant);
        self.sessions.insert(session, meters);
    }

    pub(super) fn ended(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.running.retain(|(start, _)| start.session != session);
    }

    pub(super) fn started(&mut self, start: StartAction) {
        self.running.push_back((start, Instant::now()));
    }

    /// Counts a completed slice.
    pub(super) fn completed(&mut self, completion: &Completion) {
        let Some(started) = self.take(completion.position) else {
            return;
        };
        let began = completion.began.unwrap_or(started);
        if let Some(meters) = self.sessions.get(&completion.session) {
            meters.execute(self.gpu, began.elapsed());
        }
    }

    /// Counts a move of a session's memory.
    pub(super) fn moved(&self, moved: &Moved) {
        if let Some(meters) = self.sessions.get(&moved.session) {
            meters.moved(self.gpu, moved.out, moved.bytes, moved.took);
        }
    }

    fn take(&mut self, position: GpuPosition) -> Option<Instant> {
        let mut slices = self.running.iter();
        let index = slices.position(|(start, _)| start.position == position)?;
        self.running.remove(index).map(|(_, began)| began)
    }
}
