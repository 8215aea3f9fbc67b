//! Bounds and periods of a sequencer.

use crate::Nanos;

/// Bounds and periods of a sequencer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencerConfig {
    /// True if the device runs the most urgent slices first and parks those that they overtake. Started
    /// slices then wait on the device for more urgent ones, and not the other way round.
    pub preemptive: bool,
    /// Time that a head which is not ready waits, with a later position behind it.
    pub patience_ns: Nanos,
    /// Time that it waits with a later position of a higher priority behind it.
    pub urgent_patience_ns: Nanos,
    /// Time that it waits with no position behind it.
    pub idle_patience_ns: Nanos,
    /// Maximum number of slices started and not completed, unless their cost is known to be small. On a
    /// preemptive device those of a lower priority do not count, and no bound blocks the way to a position of
    /// a higher priority behind.
    pub depth: usize,
    /// Maximum number of slices started and not completed, however small.
    pub depth_max: usize,
    /// Charged cost started and not completed below which up to `depth_max` slices are started.
    pub depth_ns: u64,
    /// Assumed cost of an op of a standing grant before one was measured.
    pub unknown_ns: u64,
    /// Maximum number of grants kept aside above a gap.
    pub ahead: usize,
    /// Maximum number of accepted grants kept for replay. Beyond it the oldest are forgotten, and named when
    /// sealed.
    pub tail: usize,
    /// Maximum number of these in one message when the worker is sealed. A message holds about 7,000 in any
    /// case.
    pub seal_rows: usize,
    /// Maximum number of ops that a session may have received and not completed.
    pub pending_ops: u64,
    /// Bytes of such ops above which a session is given no more credit.
    pub pending_bytes: u64,
    /// Bytes of such ops above which a session's batches are not kept. Larger than any slice.
    pub pending_bytes_max: u64,
    /// Bytes of such ops of all sessions above which no batch is kept.
    pub pending_bytes_total: u64,
    /// Maximum bytes of results that a session may have unacknowledged.
    pub result_bytes: u64,
    /// Time that a session may stand above that bound, or claim a transfer that is not whole, before it
    /// fails.
    pub stall_ns: Nanos,
    /// Maximum staged bytes that a client may have unacknowledged.
    pub staging: u64,
    /// Staged bytes held for all sessions above which credit shrinks to one chunk a session.
    pub staged_total: u64,
    /// Minimum time between done messages while the device is busy.
    pub report_ns: Nanos,
    /// Maximum work, together, of reports that are not sent at once when the device is idle.
    pub little_ns: u64,
    /// Time that those reports wait for more.
    pub linger_little_ns: Nanos,
    /// Maximum number of reports gathered.
    pub report_count: usize,
    /// Time for which acknowledgements are gathered.
    pub ack_ns: Nanos,
    /// Number of ops done since the last acknowledgement after which one is sent at once.
    pub ack_ops: u64,
    /// First interval between repeats of an unacknowledged message; it doubles.
    pub repeat_ns: Nanos,
    /// Maximum of that interval.
    pub repeat_max_ns: Nanos,
    /// Time per byte of a result on its way before the result is taken for lost.
    pub byte_ns: Nanos,
    /// Heartbeat interval.
    pub beat_ns: Nanos,
    /// Minimum time between refusals, and between rejections of one session.
    pub refusal_ns: Nanos,
    /// Time for which results of a closed session are kept for its client. Also the time that a draining
    /// worker waits for acknowledgements of its results.
    pub linger_ns: Nanos,
    /// Time that a draining worker waits for a leader to acknowledge its reports and to note that it leaves.
    pub leave_ns: Nanos,
}

impl Default for SequencerConfig {
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
