//! A slice on its way through the driver.

use bus_schemas::{Failure, KernelKey, OpNumber};
use device::Slice;

use crate::driver::Event;
use crate::pools::Lease;

/// What an op is answered with once the device has passed it.
#[derive(Debug)]
pub(super) enum Given {
    Nothing,
    /// The pieces of a copy to the host.
    Copied(Vec<Lease>),
    Symbols(Vec<u8>),
}

/// A timed launch.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) key: KernelKey,
    pub(super) sms: u64,
    pub(super) end: Event,
}

/// A slice on its way through the driver.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) slice: Slice,
    /// Span, and op in it, that the driver gets next.
    pub(super) at: (usize, usize),
    /// That op's number.
    pub(super) next: OpNumber,
    pub(super) begin: Event,
    pub(super) end: Option<Event>,
    pub(super) launches: Vec<Timed>,
    /// Launches known to have ended.
    ended: usize,
    /// What its copies to the device are read from, until it has ended.
    pub(super) staged: Vec<Lease>,
    /// The driver reads transfers themselves.
    pub(super) reads: bool,
    pub(super) results: Vec<(OpNumber, Given, Event)>,
    /// Timed events: their ops and numbers.
    pub(super) events: Vec<(OpNumber, u32, Event)>,
    pub(super) fault: Option<(OpNumber, Failure)>,
}

impl Flight {
    pub(super) fn new(slice: Slice, begin: Event) -> Self {
        Self {
            next: slice.first,
            slice,
            at: (0, 0),
            begin,
            end: None,
            launches: Vec::new(),
            ended: 0,
            staged: Vec::new(),
            reads: false,
            results: Vec::new(),
            events: Vec::new(),
            fault: None,
        }
    }

    /// Whether the driver is to have more of it.
    pub(super) fn is_part(&self) -> bool {
        self.at.0 != usize::MAX
    }

    /// Launches that have not ended. One that failed has: its slice's end says so.
    pub(super) fn flying(&mut self) -> usize {
        let launches = self.launches.get(self.ended..).unwrap_or_default();
        let ended = launches
            .iter()
            .take_while(|timed| timed.end.is_done().unwrap_or(true));
        self.ended += ended.count();
        self.launches.len() - self.ended
    }
}
