//! The counters of a run. Each stands here once; sums and names come from the table.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident as $printed:literal,)*) => {
        /// Counters of a run, or their sums over many runs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds another run's.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// The counters with the names under which they are printed.
            #[must_use]
            pub fn named(&self) -> impl IntoIterator<Item = (&'static str, u64)> + use<> {
                [$(($printed, self.$name),)*]
            }
        }
    };
}

counters! {
    /// Events handled.
    steps as "events",
    /// Ops that ran.
    ops as "ops",
    /// Positions that ended void.
    voids as "positions_void",
    /// Sessions that ended in good order.
    ended as "sessions_ended",
    /// Sessions that failed for a good reason.
    failed as "sessions_failed",
    /// Runs with more than one term.
    failovers as "runs_with_failover",
    /// Terms.
    epochs as "reigns",
    /// Faults injected.
    faults as "faults",
    /// Positions in the replay.
    replayed as "positions_replayed",
    /// Positions in the replay that were taken from seals' tails.
    adopted as "positions_adopted",
    /// Sessions that were opened and closed within a leader's last append.
    adopted_sessions as "sessions_adopted",
    /// Workers that are gone, with chains that match the record.
    gone as "lost_workers_compared",
    /// Positions that the record names as unrecorded.
    unrecorded as "positions_unrecorded_by_name",
    /// Times that a leader left inputs unrecorded.
    gaps as "gaps_named",
    /// Slices of closed sessions that were stopped.
    stopped as "slices_of_closed_sessions_stopped",
    /// Sessions with a client that timed out.
    gave_up as "sessions_given_up",
    /// Times that a leader took over from itself.
    renewed as "leaders_followed_by_themselves",
    /// Runs in which two leaders led at the same time.
    rivals as "runs_with_two_leaders_at_once",
    /// Epochs that a store gave out twice, to two nodes.
    epochs_twice as "epochs_given_twice",
    /// Comparisons of two tenants' shares.
    compared as "shares_compared",
    /// Checked accesses to memory.
    touched as "accesses_judged",
    /// Answers to requests for memory.
    promised as "requests_for_memory_answered",
    /// Transfers of offered copies that were answered.
    offered as "offered_transfers_answered",
    /// Chunks of offered copies that were not sent again.
    unsent as "chunks_not_sent_again",
    /// Answered requests about memory that sessions share.
    exchanged as "requests_for_shared_memory_answered",
    /// Imports of other sessions' memory.
    imported as "imports",
    /// Checked accesses to imports.
    peeked as "accesses_to_imports",
    /// Sessions that were refused memory.
    denied as "sessions_refused_memory",
    /// Times that a session's memory was swapped out.
    swaps as "sessions_swapped_out",
    /// Reports of use that were compared with the actual use.
    metered as "usage_reports_compared",
    /// Blocks with moves of memory that were compared with the actual moves.
    moved as "blocks_of_moves_compared",
    /// Granted requests for several devices.
    several as "several_devices_had",
    /// Refusals sent to clients, which ask again.
    declined as "requests_told_to_wait",
    /// Requests for several devices during which a worker died, when some sessions had begun and
    /// others had not.
    halved as "several_devices_half_begun_when_a_worker_died",
    /// Workers that a leader reported as drained.
    drained as "workers_drained",
    /// Drained workers that had no session left and were told to leave.
    dismissed as "drained_workers_told_to_leave",
    /// Messages of a hostile tenant.
    harm as "messages_of_a_hostile_tenant",
}
