//! Messages of the sequencer to leaders and clients, and their encoding.

use bus_schemas::{
    Chain, Column, Done, DoneReport, DoneTimes, Epoch, Failure, FaultRow, GpuPosition, HeldChunks,
    LeaderId, OpNumber, Prepared, Received, RefusedImage, SessionFault, SessionId, Staged, Tenant,
    WIRE_VERSION, WorkerAck, encode_into,
};

/// The content of a [`Done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneMessage {
    /// See [`Done::epoch`].
    pub epoch: Epoch,
    /// See [`Done::accepted`].
    pub accepted: GpuPosition,
    /// See [`Done::chain`].
    pub chain: Chain,
    /// See [`Done::first`].
    pub first: u64,
    /// See [`Done::reports`].
    pub reports: Vec<DoneReport>,
    /// See [`Done::received`].
    pub received: Vec<Received>,
    /// See [`Done::faults`].
    pub faults: Vec<SessionFault>,
    /// See [`Done::times`]; `None` if the leader has not asked for them.
    pub times: Option<DoneTimes>,
}

impl DoneMessage {
    /// Encodes the message behind the content of `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let (mut reports, mut received) = (Vec::new(), Vec::new());
        let (mut faults, mut details) = (Vec::new(), String::new());
        let rows: Vec<_> = self
            .faults
            .iter()
            .map(|fault| FaultRow::of(fault, &mut details))
            .collect();
        let times = self.times.as_ref().map(DoneTimes::encode);
        let times = times.unwrap_or_default();
        let message = Done {
            v: WIRE_VERSION,
            epoch: self.epoch,
            accepted: self.accepted,
            chain: self.chain,
            first: self.first,
            reports: Column::pack(&self.reports, &mut reports),
            received: Column::pack(&self.received, &mut received),
            faults: Column::pack(&rows, &mut faults),
            details: &details,
            times: &times,
        };
        encode_into(&message, out);
    }
}

/// The content of a [`WorkerAck`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckMessage {
    /// The tenant that gets it.
    pub tenant: Tenant,
    /// The session that it concerns.
    pub session: SessionId,
    /// See [`WorkerAck::epoch`].
    pub epoch: Epoch,
    /// See [`WorkerAck::leader`].
    pub leader: LeaderId,
    /// See [`WorkerAck::received`].
    pub received: OpNumber,
    /// See [`WorkerAck::done`].
    pub done: OpNumber,
    /// See [`WorkerAck::send_through`].
    pub send_through: OpNumber,
    /// See [`WorkerAck::staging`].
    pub staging: u64,
    /// See [`WorkerAck::results`].
    pub results: u64,
    /// See [`WorkerAck::staged`]. Includes the last few transfers that became whole, and transfers of which a
    /// client sends a part again.
    pub staged: Vec<Staged>,
    /// See [`WorkerAck::failure`] and [`WorkerAck::failed_op`].
    pub failure: Option<(OpNumber, Failure)>,
    /// See [`WorkerAck::prepared`].
    pub prepared: Vec<Prepared>,
    /// See [`WorkerAck::refused`].
    pub refused: Vec<RefusedImage>,
    /// See [`WorkerAck::held`].
    pub held: Vec<HeldChunks>,
}

impl AckMessage {
    /// Encodes the message behind the content of `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let (mut staged, mut prepared, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let message = WorkerAck {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            received: self.received,
            done: self.done,
            send_through: self.send_through,
            staging: self.staging,
            results: self.results,
            staged: Column::pack(&self.staged, &mut staged),
            failure: self.failure.as_ref().map(|(_, failure)| failure.clone()),
            failed_op: self.failure.as_ref().map_or(0, |(op, _)| *op),
            prepared: Column::pack(&self.prepared, &mut prepared),
            refused: self.refused.clone(),
            held: Column::pack(&self.held, &mut held),
        };
        encode_into(&message, out);
    }
}
