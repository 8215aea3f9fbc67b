//! Bounds and periods of a sequencer.

use crate::Nanos;

/// Bounds and periods of a sequencer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The device runs what is most urgent first and parks what that overtakes. Then what is
    /// started waits on the device for what is more urgent, and not the other way round.
    pub preemptive: bool,
    /// How long a head that is not ready waits while a later position waits behind it.
    pub patience_ns: Nanos,
    /// How long it waits while a later position of a higher priority waits behind it.
    pub urgent_patience_ns: Nanos,
    /// How long it waits while nothing does.
    pub idle_patience_ns: Nanos,
    /// Slices started and not completed while their cost is not known to be small. On a preemptive
    /// device those of a lower priority do not count, and no bound stands in the way of a higher
    /// one that waits behind.
    pub depth: usize,
    /// Slices started and not completed at most, however small.
    pub depth_max: usize,
    /// Charged cost started and not completed below which up to `depth_max` slices are started.
    pub depth_ns: u64,
    /// What an op of a standing grant is taken to cost before one was measured.
    pub unknown_ns: u64,
    /// Grants kept aside above a gap.
    pub ahead: usize,
    /// Accepted grants kept for replay. Beyond it the oldest are forgotten, and named when sealed.
    pub tail: usize,
    /// Of these, at most so many go in one message when the worker is sealed; a message holds about
    /// 7,000 in any case.
    pub seal_rows: usize,
    /// Ops a session may have received and not completed.
    pub pending_ops: u64,
    /// Bytes of such ops above which a session is given no more credit.
    pub pending_bytes: u64,
    /// Bytes of such ops above which a session's batches are not kept. Larger than any slice.
    pub pending_bytes_max: u64,
    /// Bytes of such ops of all sessions above which no batch is kept.
    pub pending_bytes_total: u64,
    /// Bytes of results a session may have unacknowledged.
    pub result_bytes: u64,
    /// How long a session may stand above that bound, or claim a transfer that is not whole,
    /// before it fails.
    pub stall_ns: Nanos,
    /// Staged bytes a client may have unacknowledged.
    pub staging: u64,
    /// Staged bytes held for all sessions above which credit shrinks to one chunk a session.
    pub staged_total: u64,
    /// While the device is busy, done messages are at least this far apart.
    pub report_ns: Nanos,
    /// Reports of at most so much work together are not told at once when the device is idle.
    pub little_ns: u64,
    /// How long they wait for more.
    pub linger_little_ns: Nanos,
    /// Reports gathered at most.
    pub report_count: usize,
    /// How long acknowledgements are gathered.
    pub ack_ns: Nanos,
    /// Ops done since the last acknowledgement after which one is sent at once.
    pub ack_ops: u64,
    /// First period of repeating what is not acknowledged; doubles.
    pub repeat_ns: Nanos,
    /// Longest such period.
    pub repeat_max_ns: Nanos,
    /// How long each byte of a result may be on its way before it is taken for lost.
    pub byte_ns: Nanos,
    /// Period of beats.
    pub beat_ns: Nanos,
    /// Refusals, and rejections of one session, are at least this far apart.
    pub refusal_ns: Nanos,
    /// How long results of a closed session are kept for its client; also how long a draining
    /// worker waits for its results to be acknowledged.
    pub linger_ns: Nanos,
    /// How long a draining worker waits for a leader to acknowledge its reports and to note that it
    /// leaves.
    pub leave_ns: Nanos,
}

impl Default for Config {
    fn default() -> Self {
        const MS: Nanos = 1_000_000;
        Self {
            preemptive: false,
            patience_ns: 2 * MS,
            urgent_patience_ns: MS / 4,
            idle_patience_ns: 50 * MS,
            depth: 4,
            depth_max: 64,
            depth_ns: MS,
            unknown_ns: 20_000,
            ahead: 4_096,
            tail: 65_536,
            seal_rows: usize::MAX,
            pending_ops: 16 << 10,
            pending_bytes: 16 << 20,
            pending_bytes_max: 64 << 20,
            pending_bytes_total: 1 << 30,
            result_bytes: 64 << 20,
            stall_ns: 10_000 * MS,
            staging: 8 << 20,
            staged_total: 8 << 30,
            report_ns: MS / 5,
            little_ns: 50_000,
            linger_little_ns: MS,
            report_count: 64,
            ack_ns: MS,
            ack_ops: 2_048,
            repeat_ns: 5 * MS,
            repeat_max_ns: 200 * MS,
            byte_ns: 10,
            beat_ns: 100 * MS,
            refusal_ns: 10 * MS,
            linger_ns: 2_000 * MS,
            leave_ns: 5_000 * MS,
        }
    }
}
