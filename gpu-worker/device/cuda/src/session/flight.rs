//! A slice on its way through the driver.

use std::collections::VecDeque;
use std::sync::Arc;

use bus_schemas::{Failure, OpNumber};
use device::Slice;

use super::runs::Runs;
use crate::pools::{Lease, Mark};

/// The answer to an op once the device has passed its slice.
#[derive(Debug)]
pub(super) enum Given {
    Nothing,
    /// The pieces of a copy to the host.
    Copied(Vec<Lease>),
    Symbols(Vec<u8>),
}

/// A slice on its way through the driver.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) slice: Slice,
    /// Span, and op in it, that the driver gets next.
    pub(super) at: (usize, usize),
    /// Number of that op.
    pub(super) next: OpNumber,
    /// The end of the slice before, if that has not passed.
    pub(super) begin: Arc<Mark>,
    pub(super) end: Option<Arc<Mark>>,
    /// True if each of its launches is measured.
    pub(super) sampled: bool,
    pub(super) runs: Runs<Mark>,
    /// True if the last launch is measured by itself.
    pub(super) alone: bool,
    /// Marks on the way, each with the number of launches before it. They exist if only few launches may be
    /// in flight.
    passing: VecDeque<(Mark, usize)>,
    /// Number of launches known to have ended.
    ended: usize,
    /// Buffers that its copies to the device read, until it has ended.
    pub(super) staged: Vec<Lease>,
    /// True if the driver reads transfers themselves.
    pub(super) reads: bool,
    pub(super) results: Vec<(OpNumber, Given)>,
    /// Timed events: their ops, numbers and marks.
    pub(super) events: Vec<(OpNumber, u32, Mark)>,
    pub(super) fault: Option<(OpNumber, Failure)>,
}

impl Flight {
    pub(super) fn new(slice: Slice, begin: Arc<Mark>, sampled: bool) -> Self {
        Self {
            next: slice.first,
            slice,
            at: (0, 0),
            begin,
            end: None,
            sampled,
            runs: Runs::default(),
            alone: false,
            passing: VecDeque::new(),
            ended: 0,
            staged: Vec::new(),
            reads: false,
            results: Vec::new(),
            events: Vec::new(),
            fault: None,
        }
    }

    /// True if the driver is to get more of it.
    pub(super) fn is_part(&self) -> bool {
        self.at.0 != usize::MAX
    }

    /// True if launches lie behind its last mark on the way.
    pub(super) fn wants_mark(&self) -> bool {
        let marked = self
            .passing
            .back()
            .map_or(self.ended, |(_, before)| *before);
        self.runs.launched() > marked
    }

    /// Notes that all launches so far lie before this mark; without a mark they count as ended.
    pub(super) fn passes(&mut self, mark: Option<Mark>) {
        let launched = self.runs.launched();
        match mark {
            Some(mark) => self.passing.push_back((mark, launched)),
            None => self.ended = launched,
        }
    }

    /// Number of launches that have not ended, as far as marks show. A failed one has ended: its slice's end
    /// reports it.
    pub(super) fn flying(&mut self) -> usize {
        let launched = self.runs.launched();
        while let Some((mark, before)) = self.passing.front() {
            if !mark.is_done().unwrap_or(true) {
                break;
            }
            self.ended = self.ended.max(*before);
            self.passing.pop_front();
        }
        let end = self.end.as_ref().filter(|_| self.ended < launched);
        if end.is_some_and(|end| end.is_done().unwrap_or(true)) {
            self.ended = launched;
        }
        launched - self.ended
    }
}
