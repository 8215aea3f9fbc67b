//! One session: its stream, memory, modules, and the slices on their way.

mod answers;
mod flight;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bus_schemas::{
    Code, Failure, FunctionFingerprint, Launch, ModuleHash, Op, OpNumber, OpRef, SessionId, Window,
};
use device::{Completion, OpSpan, Slice};

use crate::Linked;
use crate::driver::{Context, Event, Function, Module, Pinned, Stream};
use crate::memory::Memory;
use answers::Given;
use flight::{Flight, Timed};

/// A module instance: its globals are the session's own.
#[derive(Debug)]
struct Loaded {
    linked: Arc<Linked>,
    module: Module,
    functions: BTreeMap<u32, Function>,
    /// Addresses and bytes of its variables, once its client has asked for them. They lie where
    /// the driver put them, outside of the session's window.
    variables: Vec<(u64, u64)>,
}

/// A session on the device.
#[derive(Debug)]
pub(crate) struct Session {
    id: SessionId,
    window: Window,
    memory: Memory,
    stream: Stream,
    /// The last slice's begin, and when on the device's clock that was. An elapsed time is a
    /// single-precision number, so it must not grow with the session's age.
    base: (Event, u64),
    slots: BTreeMap<u32, Loaded>,
    /// The urgency of its stream.
    urgency: u8,
    /// Slices the driver has all or part of: only the last can be one of which it has a part.
    flights: VecDeque<Flight>,
    /// Slices it has nothing of.
    waiting: VecDeque<Slice>,
    failed: bool,
}

/// What an op needs beside its session.
pub(crate) struct Surroundings<'a> {
    pub(crate) context: &'a Context,
    pub(crate) modules: &'a BTreeMap<ModuleHash, Arc<Linked>>,
    pub(crate) sms: u32,
    /// Bytes that are left on the device.
    pub(crate) spare: u64,
}

/// The urgency of a session's stream before its first slice: the least.
const NONE: u8 = 4;

impl Session {
    /// A session that begins at `now` nanoseconds of the device's clock.
    pub(crate) fn new(
        id: SessionId,
        window: Window,
        granularity: u64,
        now: u64,
    ) -> Result<Self, Failure> {
        let stream = Stream::new(NONE)?;
        let base = Event::new()?;
        stream.record(&base)?;
        let memory = Memory::new(window, granularity);
        let (slots, flights) = (BTreeMap::new(), VecDeque::new());
        let (urgency, waiting) = (NONE, VecDeque::new());
        Ok(Self {
            id,
            window,
            memory,
            stream,
            base: (base, now),
            slots,
            urgency,
            flights,
            waiting,
            failed: false,
        })
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    pub(crate) fn resident(&self) -> u64 {
        self.memory.resident()
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.flights.is_empty() || self.waits()
    }

    /// Whether the driver has not got all of its slices.
    pub(crate) fn waits(&self) -> bool {
        let part = self.flights.back().is_some_and(Flight::is_part);
        part || !self.waiting.is_empty()
    }

    /// As urgent as the most urgent of its slices, for they run in order.
    pub(crate) fn urgency(&self) -> u8 {
        let flights = self.flights.iter().map(|flight| flight.slice.priority);
        let waiting = self.waiting.iter().map(|slice| slice.priority);
        flights.chain(waiting).min().unwrap_or(NONE)
    }

    /// Waits for the session's work; then its memory and modules may go.
    pub(crate) fn end(self) {
        // An error here is the session's last and nobody's business any more.
        drop(self.stream.wait());
    }

    pub(crate) fn submit(&mut self, slice: Slice) {
        self.waiting.push_back(slice);
    }

    /// Hands the driver ops in order, while fewer than `depth` launches are there.
    pub(crate) fn feed(&mut self, surroundings: &Surroundings<'_>, depth: u32) {
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
                Ok(begin) => self.flights.push_back(Flight::new(slice, begin)),
                // Nothing of the context works any more; the session's flights say so.
                Err(_) => return,
            }
        }
    }

    /// The mark before a slice, on a stream of its urgency if the session's can be changed.
    fn begin(&mut self, slice: &Slice) -> Result<Event, Failure> {
        if slice.priority != self.urgency && self.flights.is_empty() {
            // What was on the old one is done: ops that are no slice's wait for it themselves.
            self.stream.wait()?;
            self.stream = Stream::new(slice.priority)?;
            self.urgency = slice.priority;
        }
        let event = Event::new()?;
        self.stream.record(&event)?;
        Ok(event)
    }

    /// Launches that the driver has and that have not ended.
    fn flying(&mut self) -> usize {
        let mut flying = 0;
        for flight in &mut self.flights {
            flying += flight.flying();
        }
        flying
    }

    /// Goes on with a slice; gives whether the driver has all of it.
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

    /// Hands over a slice's ops from where it is; gives whether it is to have no more.
    fn hand_over(
        &mut self,
        surroundings: &Surroundings<'_>,
        depth: u32,
        spans: &[OpSpan],
        flight: &mut Flight,
    ) -> bool {
        let bounded = depth != u32::MAX;
        while let Some(span) = spans.get(flight.at.0) {
            for op in span.ops().iter().skip(flight.at.1) {
                let launch = matches!(op.op, Op::Launch(_));
                if bounded && launch && self.flying() + flight.flying() >= depth as usize {
                    return false;
                }
                let number = flight.next;
                flight.at.1 += 1;
                flight.next += 1;
                let planned = flight.slice.fail_at.as_ref();
                let outcome = match planned.filter(|(at, _)| *at == number) {
                    _ if self.failed => Err(Failure::new(
                        Code::SessionGone,
                        "an earlier op of the session failed",
                    )),
                    Some((_, failure)) => Err(failure.clone()),
                    None => self.run(surroundings, number, &op, flight),
                };
                if let Err(failure) = outcome {
                    flight.fault = Some((number, failure));
                    return true;
                }
            }
            flight.at = (flight.at.0 + 1, 0);
        }
        true
    }

    /// The driver has all of a slice that it is to have.
    fn whole(&mut self, mut flight: Flight) -> Flight {
        flight.at = (usize::MAX, 0);
        let end = Event::new().and_then(|event| self.stream.record(&event).map(|()| event));
        match end {
            Ok(end) => flight.end = Some(end),
            Err(failure) => {
                let first = flight.slice.first;
                flight.fault.get_or_insert((first, failure));
            }
        }
        self.failed |= flight.fault.is_some();
        flight
    }

    fn run(
        &mut self,
        surroundings: &Surroundings<'_>,
        number: OpNumber,
        op: &OpRef<'_>,
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        match op.op {
            Op::Alloc { address, bytes } => {
                if bytes > surroundings.spare {
                    let left = surroundings.spare;
                    let detail = format!("{bytes} bytes asked for, {left} are left on the device");
                    return Err(Failure::new(Code::OutOfMemory, detail));
                }
                self.memory.alloc(surroundings.context, address, bytes)?;
                // What another session left there is nobody's to read.
                self.stream.set(address, bytes, 0, 1)
            }
            Op::Free { address } => {
                self.stream.wait()?;
                self.memory.free(address)
            }
            Op::CopyIn {
                address,
                bytes,
                transfer,
            } => {
                self.check(address, bytes)?;
                let staged = flight
                    .slice
                    .transfers
                    .iter()
                    .find(|(id, _)| *id == transfer);
                let (held, source) = match (transfer, staged) {
                    (0, _) => (op.payload.len(), None),
                    (_, Some((_, staged))) => (staged.len(), Some(staged)),
                    (_, None) => (0, None),
                };
                if held as u64 != bytes {
                    let detail = format!("transfer {transfer} does not hold {bytes} bytes");
                    return Err(Failure::new(Code::Protocol, detail));
                }
                let Some(source) = source else {
                    return self.stream.copy_in(address, op.payload);
                };
                let mut to = address;
                source.slices(0, held).try_for_each(|slice| {
                    self.stream.copy_in(to, slice)?;
                    to += slice.len() as u64;
                    Ok(())
                })
            }
            Op::CopyOut { address, bytes } => {
                self.check(address, bytes)?;
                let mut pinned = Pinned::new(bytes as usize)?;
                self.stream.copy_out(&mut pinned, address)?;
                self.answer(number, Given::Copied(pinned), flight)
            }
            Op::Copy { to, from, bytes } => {
                self.check(to, bytes)?;
                self.check(from, bytes)?;
                self.stream.copy(to, from, bytes)
            }
            Op::Set {
                address,
                count,
                value,
                width,
            } => {
                let bytes = count.saturating_mul(u64::from(width));
                self.check(address, bytes)?;
                if !address.is_multiple_of(u64::from(width)) {
                    let detail = format!("{address:#x} is not a multiple of {width}");
                    return Err(Failure::new(Code::Misaligned, detail));
                }
                self.stream.set(address, count, value, width)
            }
            Op::LoadModule { slot, hash } => self.load(surroundings, slot, hash),
            Op::UnloadModule { slot } => {
                self.stream.wait()?;
                self.slots.remove(&slot);
                Ok(())
            }
            Op::Launch(launch) => self.launch(surroundings.sms, &launch, op.payload, flight),
            Op::Event { timed: false, .. } => Ok(()),
            Op::Event { event, timed: true } => {
                let reached = Event::new()?;
                self.stream.record(&reached)?;
                flight.events.push((number, event, reached));
                Ok(())
            }
            Op::Sync => self.answer(number, Given::Nothing, flight),
            Op::Symbols { slot } => {
                let rows = self.symbols(slot)?;
                self.answer(number, Given::Symbols(rows), flight)
            }
        }
    }

    fn answer(
        &mut self,
        number: OpNumber,
        given: Given,
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        let event = Event::new()?;
        self.stream.record(&event)?;
        flight.results.push((number, given, event));
        Ok(())
    }

    fn load(
        &mut self,
        surroundings: &Surroundings<'_>,
        slot: u32,
        hash: ModuleHash,
    ) -> Result<(), Failure> {
        let Some(linked) = surroundings.modules.get(&hash) else {
            let detail = format!("no image {hash} was staged");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let module = Module::load(&linked.code)?;
        let loaded = Loaded {
            linked: linked.clone(),
            module,
            functions: BTreeMap::new(),
            variables: Vec::new(),
        };
        if self.slots.contains_key(&slot) {
            self.stream.wait()?;
        }
        self.slots.insert(slot, loaded);
        Ok(())
    }

    fn launch(
        &mut self,
        sms: u32,
        launch: &Launch,
        params: &[u8],
        flight: &mut Flight,
    ) -> Result<(), Failure> {
        let unknown = |what: String| Failure::new(Code::UnknownFunction, what);
        let loaded = self.slots.get_mut(&launch.module);
        let loaded = loaded.ok_or_else(|| unknown(format!("slot {} is empty", launch.module)))?;
        let info = loaded.linked.info.functions.get(launch.function as usize);
        let info = info.ok_or_else(|| unknown(format!("no function {}", launch.function)))?;
        if params.len() != info.param_bytes as usize {
            let (name, have, need) = (&info.name, params.len(), info.param_bytes);
            let detail = format!("{name} takes {need} bytes of parameters, not {have}");
            return Err(Failure::new(Code::BadLaunch, detail));
        }
        let function = match loaded.functions.get(&launch.function) {
            Some(function) => *function,
            None => {
                let function = loaded.module.function(&info.name)?;
                loaded.functions.insert(launch.function, function);
                function
            }
        };
        if launch.shared > 48 << 10 {
            function.allow_shared(launch.shared)?;
        }
        self.stream
            .launch(function, launch.grid, launch.block, launch.shared, params)?;
        let end = Event::new()?;
        self.stream.record(&end)?;
        let fingerprint = FunctionFingerprint::new(&loaded.linked.hash, &info.name);
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product::<u64>();
        flight.launches.push(Timed {
            key: fingerprint.key(launch.grid, launch.block, launch.shared),
            sms: blocks.min(u64::from(sms)),
            end,
        });
        Ok(())
    }

    /// Appends the slices that are done, in order.
    pub(crate) fn completed(&mut self, completions: &mut Vec<Completion>) {
        while let Some(flight) = self.flights.front().filter(|flight| !flight.is_part()) {
            let done = flight.end.as_ref().map_or(Ok(true), Event::is_done);
            let late = match done {
                Ok(false) => return,
                Ok(true) => None,
                Err(failure) => Some(failure),
            };
            let Some(flight) = self.flights.pop_front() else {
                return;
            };
            self.failed |= late.is_some();
            completions.push(self.completion(flight, late));
        }
    }
}
