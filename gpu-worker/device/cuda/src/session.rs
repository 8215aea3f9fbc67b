//! One session: its stream, memory, modules, and the slices on their way.

mod answers;
mod copies;
mod ended;
mod exports;
mod flight;
mod frees;
mod graves;
mod launches;
mod loads;
mod ops;
mod runs;
mod slots;
mod swapping;
mod tensor_maps;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bus_schemas::{Code, Failure, FunctionFingerprint, Op, SessionId, Window};
use device::{Completion, OpSpan, Slice};
use device_swap::Movable as _;

use crate::driver::{Context, EventKind, Function, Reservation, Stream};
use crate::linked::Linked;
use crate::loader::{Loader, Loading, OwnedModule};
use crate::memory::Memory;
use crate::modules::Modules;
use crate::pools::{Mark, Pools};
use flight::Flight;
use graves::Graves;
use slots::Slots;

/// A module instance: its globals are the session's own.
#[derive(Debug)]
struct Loaded {
    linked: Arc<Linked>,
    module: OwnedModule,
    /// Functions that were launched, by index.
    functions: Vec<Option<Entry>>,
    /// Addresses and bytes of its variables, once its client has asked for them. The driver placed them,
    /// outside of the session's window.
    variables: Vec<(u64, u64)>,
}

/// A function that was launched.
#[derive(Debug, Clone, Copy)]
struct Entry {
    function: Function,
    fingerprint: FunctionFingerprint,
    /// Bytes of its parameters.
    params: usize,
    /// Dynamic shared bytes that the function is allowed.
    allowed: u32,
}

/// A session on the device.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    context: Context,
    window: Window,
    stream: Stream,
    memory: Memory,
    pools: Pools,
    /// The window's addresses. Fields are dropped in order, so that nothing is mapped there any more by then.
    _addresses: Reservation,
    /// The last slice's begin, and its time on the device's clock. An elapsed time is a single-precision
    /// number, so it must not grow with the session's age.
    base: (Arc<Mark>, u64),
    slots: Slots<Loaded>,
    /// Freed memory and modules that may be in use.
    graves: Graves<Loaded>,
    /// The urgency of its stream.
    urgency: u8,
    /// Slices that the driver has all or part of; only the last can be one of which it has a part.
    flights: VecDeque<Flight>,
    /// Slices of which the driver has nothing.
    waiting: VecDeque<Slice>,
    /// Slices that the driver will not get, each with the failure.
    given_up: VecDeque<(Slice, Failure)>,
    /// Allocations that others use, and the one among them to free next.
    exported: BTreeSet<u64>,
    frees: Option<u64>,
    /// True if its next op waits for something other than its own work.
    held_up: bool,
    /// The module of its next op, or why there will be none.
    loading: Option<Result<Loading, Failure>>,
    failed: bool,
    /// The failure that ended it while its memory was away.
    stopped: Option<Failure>,
}

/// The state beside its session that an op needs.
pub(crate) struct Surroundings<'a> {
    pub(crate) context: &'a Context,
    pub(crate) modules: &'a Modules,
    pub(crate) loader: &'a Loader,
    pub(crate) sms: u32,
    /// Bytes that other sessions leave on the device.
    pub(crate) room: u64,
    /// True if closed sessions still have memory.
    pub(crate) closing: bool,
}

impl Surroundings<'_> {
    /// True if an op failed for want of memory, and closed sessions will leave some.
    fn will_have_room(&self, op: &Op, failure: &Failure) -> bool {
        let allocates = matches!(op, Op::Alloc { .. });
        self.closing && allocates && failure.code == Code::OutOfMemory
    }
}

impl Drop for Session {
    /// Waits for the session's work; then its memory may go, and its modules back to the loader.
    fn drop(&mut self) {
        // An error here is the session's last and has no reader.
        drop(self.context.enter());
        drop(self.stream.wait());
    }
}

/// The urgency of a session's stream before its first slice: the least.
const NONE: u8 = 4;

impl Session {
    /// Creates a session that begins at `now` nanoseconds of the device's clock.
    pub(crate) fn new(
        id: SessionId,
        window: Window,
        (context, granularity): (Context, u64),
        pools: Pools,
        now: u64,
    ) -> Result<Self, Failure> {
        let addresses = context.reserve(window.base, window.size)?;
        let stream = Stream::new(NONE)?;
        let base = Arc::new(pools.events.take(EventKind::Timed)?);
        stream.record(&base)?;
        let memory = Memory::new(window, granularity);
        let (slots, flights) = (Slots::default(), VecDeque::new());
        let (urgency, waiting) = (NONE, VecDeque::new());
        Ok(Self {
            id,
            context,
            window,
            stream,
            memory,
            pools,
            _addresses: addresses,
            base: (base, now),
            slots,
            graves: Graves::default(),
            urgency,
            flights,
            waiting,
            given_up: VecDeque::new(),
            exported: BTreeSet::new(),
            frees: None,
            held_up: false,
            loading: None,
            failed: false,
            stopped: None,
        })
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    pub(crate) fn resident(&self) -> u64 {
        self.memory.resident()
    }

    /// Bytes that it takes of the device, including freed ones that may be in use.
    pub(crate) fn held(&self) -> u64 {
        self.memory.held()
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.flights.is_empty() || !self.given_up.is_empty() || self.waits()
    }

    /// True if the driver has not got all of its slices.
    pub(crate) fn waits(&self) -> bool {
        let part = self.flights.back().is_some_and(Flight::is_part);
        part || !self.waiting.is_empty()
    }

    /// True if the driver should get more of its slices as soon as it has little left.
    pub(crate) fn hurries(&self) -> bool {
        self.waits() && !self.held_up
    }

    /// The urgency of the most urgent of its slices, because they run in order.
    pub(crate) fn urgency(&self) -> u8 {
        let flights = self.flights.iter().map(|flight| flight.slice.priority);
        let waiting = self.waiting.iter().map(|slice| slice.priority);
        flights.chain(waiting).min().unwrap_or(NONE)
    }

    pub(crate) fn submit(&mut self, slice: Slice) {
        self.waiting.push_back(slice);
    }

    /// Hands the driver ops in order, while it has fewer than `depth` launches.
    pub(crate) fn refill(&mut self, surroundings: &Surroundings<'_>, depth: u32) {
        loop {
            if let Some(flight) = self.flights.pop_back_if(|flight| flight.is_part()) {
                let (flight, whole) = self.go_on(surroundings, depth, flight);
                self.flights.push_back(flight);
                if !whole {
                    return;
                }
            }
            let Some(slice) = self.waiting.pop_front() else {
                return;
            };
            match self.begin(&slice) {
                Ok(begin) => {
                    let sampled = self.pools.times().samples();
                    self.flights.push_back(Flight::new(slice, begin, sampled));
                }
                Err(failure) => self.given_up.push_back((slice, failure)),
            }
        }
    }

    /// Gives up all ops that the driver has not got, with this failure.
    pub(crate) fn give_up(&mut self, why: &Failure) {
        if let Some(mut flight) = self.flights.pop_back_if(|flight| flight.is_part()) {
            flight.fault.get_or_insert((flight.next, why.clone()));
            let flight = self.whole(flight);
            self.flights.push_back(flight);
        }
        let waiting = self.waiting.drain(..);
        self.given_up
            .extend(waiting.map(|slice| (slice, why.clone())));
    }

    /// Returns the mark before a slice, on a stream of its urgency if the session's stream can be changed. It
    /// is the end of the slice before, if that has not passed.
    fn begin(&mut self, slice: &Slice) -> Result<Arc<Mark>, Failure> {
        if slice.priority != self.urgency && self.flights.is_empty() {
            // Work on the old stream is done: ops outside of slices wait for it themselves.
            self.stream.wait()?;
            self.stream = Stream::new(slice.priority)?;
            self.urgency = slice.priority;
        }
        let before = self.flights.back().and_then(|flight| flight.end.as_ref());
        if let Some(before) = before.filter(|end| matches!(end.is_done(), Ok(false))) {
            return Ok(Arc::clone(before));
        }
        self.mark(EventKind::Timed).map(Arc::new)
    }

    /// Number of launches that the driver has and that have not ended.
    fn flying(&mut self) -> usize {
        let mut flying = 0;
        for flight in &mut self.flights {
            flying += flight.flying();
        }
        flying
    }

    /// Continues a slice; returns true if the driver has all of it.
    fn go_on(
        &mut self,
        surroundings: &Surroundings<'_>,
        depth: u32,
        mut flight: Flight,
    ) -> (Flight, bool) {
        let spans = std::mem::take(&mut flight.slice.spans);
        let whole = self.hand_over(surroundings, depth, &spans, &mut flight);
        flight.slice.spans = spans;
        match whole {
            true => (self.whole(flight), true),
            false => (flight, false),
        }
    }

    /// Hands over a slice's ops from its position on; returns true if the driver gets no more of it.
    fn hand_over(
        &mut self,
        surroundings: &Surroundings<'_>,
        depth: u32,
        spans: &[OpSpan],
        flight: &mut Flight,
    ) -> bool {
        let bounded = depth != u32::MAX;
        self.held_up = false;
        while let Some(span) = spans.get(flight.at.0) {
            for op in span.ops().iter().skip(flight.at.1) {
                if self.waits_for_importers(&op.op)
                    || self.waits_for_load(surroundings, &op.op, flight)
                {
                    return false;
                }
                let launch = matches!(op.op, Op::Launch(_));
                if bounded && launch {
                    if flight.wants_mark() {
                        flight.passes(self.mark(EventKind::Plain).ok());
                    }
                    if self.flying() + flight.flying() >= depth as usize {
                        return false;
                    }
                }
                let number = flight.next;
                flight.at.1 += 1;
                flight.next += 1;
                let planned = flight.slice.fail_at.as_ref();
                let planned = planned.filter(|(at, _)| *at == number);
                let outcome = match (self.fault(), planned) {
                    (Some(fault), _) => Err(fault),
                    (None, Some((_, failure))) => Err(failure.clone()),
                    (None, None) => self.run(surroundings, number, &op, flight),
                };
                if let Err(failure) = outcome {
                    if surroundings.will_have_room(&op.op, &failure) {
                        // The op is tried again once they are gone: it changed nothing.
                        (flight.at.1, flight.next) = (flight.at.1 - 1, number);
                        self.held_up = true;
                        return false;
                    }
                    flight.fault = Some((number, failure));
                    return true;
                }
            }
            flight.at = (flight.at.0 + 1, 0);
        }
        true
    }

    /// Finishes a slice of which the driver has everything that it gets.
    fn whole(&mut self, mut flight: Flight) -> Flight {
        flight.at = (usize::MAX, 0);
        match self.mark(EventKind::Timed) {
            Ok(end) => flight.end = Some(Arc::new(end)),
            Err(failure) => {
                let first = flight.slice.first;
                flight.fault.get_or_insert((first, failure));
            }
        }
        self.failed |= flight.fault.is_some();
        flight
    }

    /// Appends the slices that are done, in order.
    pub(crate) fn completed(&mut self, completions: &mut Vec<Completion>) {
        self.complete(completions);
        // Afterwards: memory that a slice freed is gone when the slice has completed.
        self.drop_passed();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>) {
        while let Some(flight) = self.flights.front().filter(|flight| !flight.is_part()) {
            let done = flight.end.as_ref().map_or(Ok(true), |end| end.is_done());
            let late = match done {
                Ok(false) => return,
                Ok(true) => None,
                Err(failure) => Some(failure),
            };
            let Some(flight) = self.flights.pop_front() else {
                return;
            };
            if flight.end.is_none() || late.is_some() {
                // Nothing reports when its copies have passed, and their buffers go now. In a context that has
                // ended this is no wait.
                let _ = self.stream.wait();
            }
            self.failed |= late.is_some();
            completions.push(self.completion(flight, late));
        }
        if self.flights.is_empty() {
            for (slice, why) in self.given_up.drain(..) {
                self.failed = true;
                completions.push(Completion {
                    position: slice.position,
                    session: self.id,
                    resident: self.memory.resident(),
                    fault: Some((slice.first, why)),
                    ..Completion::default()
                });
            }
        }
    }
}
