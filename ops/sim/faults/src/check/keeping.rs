//! The record as leaders write it. `record.buffer`, beside the tails that workers hand over, bounds the
//! unrecorded inputs that a leader keeps. No input goes unrecorded while there is room.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Epoch, GpuPosition, Incarnation, limits};

use super::{CheckResult, Violation};
use sim_cluster::NodeId;
use sim_cluster::{MILLI, Nanos};

/// Maximum bytes of a block beside those of its inputs.
const HEAD: u64 = 256;
/// An append interval: the time in which a leader gathers inputs, the delay of its timer, and the latency
/// of an unimpaired store.
const INTERVAL: Nanos = 30 * MILLI;

/// Blocks of one term that are not acknowledged.
#[derive(Debug, Default)]
struct TermState {
    kept: VecDeque<(u64, u64)>,
    bytes: u64,
    /// Maximum bytes kept so far.
    most: u64,
    /// Bytes of the last block.
    last: u64,
    /// Bytes that workers handed over when they were sealed; kept beside the buffer.
    handed_over: u64,
}

/// The leaders' kept bytes, and the times of their grants.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Maximum bytes that a leader may keep: `record.buffer`.
    buffer: u64,
    terms: BTreeMap<(NodeId, Epoch), TermState>,
    granted: BTreeMap<(Incarnation, GpuPosition, Epoch), Nanos>,
    ordered: BTreeMap<Epoch, Nanos>,
    /// Number of blocks that report unrecorded inputs after them.
    pub gaps: u64,
}

impl Keeping {
    /// Makes a checker without kept bytes.
    #[must_use]
    pub(crate) fn new(buffer: u64) -> Self {
        Self {
            buffer,
            terms: BTreeMap::new(),
            granted: BTreeMap::new(),
            ordered: BTreeMap::new(),
            gaps: 0,
        }
    }

    /// Checks a block that a leader cut.
    pub(crate) fn cut(
        &mut self,
        leader: NodeId,
        (epoch, number): (Epoch, u64),
        (bytes, gap): (u64, bool),
    ) -> CheckResult {
        let buffer = self.buffer;
        let term = self.terms.entry((leader, epoch)).or_default();
        if number == 1 {
            // A store that has forgotten the lease gives an epoch out again.
            let handed_over = term.handed_over;
            *term = TermState {
                handed_over,
                ..TermState::default()
            };
        }
        if gap {
            self.gaps += 1;
            if term.most <= buffer {
                let most = term.most;
                let what = format!(
                    "the leader of epoch {epoch} left inputs unrecorded when it kept {most} bytes \
                     at most, and may keep {buffer}"
                );
                return Err(Violation::new("record", what));
            }
            return Ok(());
        }
        let heads = HEAD * term.kept.len() as u64;
        // One large input takes several blocks, all but the last of them full.
        let begins = term.last + HEAD < limits::RECORD_BLOCK_BYTES as u64;
        if begins && term.bytes > buffer + heads + term.handed_over {
            let kept = term.bytes;
            let what = format!(
                "the leader of epoch {epoch} goes on with block {number} while it keeps {kept} \
                 bytes, and may keep {buffer}"
            );
            return Err(Violation::new("record", what));
        }
        term.last = bytes;
        term.kept.push_back((number, bytes));
        term.bytes += bytes;
        term.most = term.most.max(term.bytes);
        Ok(())
    }

    /// Notes that a leader received this many bytes of a worker's tail.
    pub(crate) fn handed_over(&mut self, leader: NodeId, epoch: Epoch, bytes: u64) {
        let term = self.terms.entry((leader, epoch)).or_default();
        term.handed_over += bytes;
    }

    /// Notes that the store acknowledged a leader's block.
    pub(crate) fn acknowledged(&mut self, leader: NodeId, (epoch, number): (Epoch, u64)) {
        if let Some(term) = self.terms.get_mut(&(leader, epoch)) {
            while let Some((oldest, bytes)) = term.kept.front().copied()
                && oldest <= number
            {
                term.kept.pop_front();
                term.bytes -= bytes;
            }
        }
    }

    /// Notes the time of a grant that a leader published.
    pub(crate) fn granted(
        &mut self,
        now: Nanos,
        worker: Incarnation,
        position: GpuPosition,
        epoch: Epoch,
    ) {
        let key = (worker, position, epoch);
        if let std::collections::btree_map::Entry::Vacant(place) = self.granted.entry(key) {
            place.insert(now);
            self.ordered.insert(epoch, now);
        }
    }

    /// Checks the grant time of an adopted position, if the leader could reach the store. It must lie
    /// within an append interval of the leader's last grant.
    pub(crate) fn adopted(
        &self,
        worker: Incarnation,
        position: GpuPosition,
        epoch: Epoch,
    ) -> CheckResult {
        let at = self.granted.get(&(worker, position, epoch));
        let (Some(at), Some(last)) = (at, self.ordered.get(&epoch)) else {
            return Ok(());
        };
        if last.saturating_sub(*at) <= INTERVAL {
            return Ok(());
        }
        let late = (last - at) / MILLI;
        let what = format!(
            "position {position} of {worker} is adopted, and its leader granted for {late} ms more: \
             longer than an append interval"
        );
        Err(Violation::new("record", what))
    }
}
