//! Answers to a session's client: copies, times, addresses of variables.

use bus_schemas::{Code, EventTime, Failure, Parcel, ResultKind, Row, Symbol, limits};
use device::{Completion, OpResult};

use super::Session;
use super::flight::{Flight, Given};
use super::runs::divide;
use crate::pools::{Lease, Room as _};

impl Session {
    /// Checks that a range is the session's: in an allocation, or in a variable with a known address.
    pub(super) fn check(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let inside = |(first, size): &(u64, u64)| {
            let offset = address.checked_sub(*first);
            offset.is_some_and(|offset| offset.saturating_add(bytes) <= *size)
        };
        let known = self.slots.values().flat_map(|loaded| &loaded.variables);
        match self.memory.check(address, bytes) {
            Err(_) if known.into_iter().any(inside) => Ok(()),
            checked => checked,
        }
    }

    /// Returns the addresses of the variables of a slot's module.
    pub(super) fn symbols(&mut self, slot: u32) -> Result<Vec<u8>, Failure> {
        let Some(loaded) = self.slots.get_mut(slot) else {
            let detail = format!("no module in slot {slot}");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let mut rows = Vec::new();
        loaded.variables.clear();
        for variable in loaded.linked.variables.iter().take(limits::SYMBOLS) {
            let place = loaded.module.variable(&variable.name)?;
            loaded.variables.extend(place);
            let (address, bytes) = place.unwrap_or((0, variable.size));
            let symbol = Symbol {
                address,
                bytes,
                writable: !variable.constant,
            };
            symbol.write(&mut rows);
        }
        Ok(rows)
    }

    /// Returns the bytes of a completed copy to the host, copied from its pinned memory.
    fn parcel(&self, pieces: &[Lease]) -> Parcel {
        let total = pieces.iter().map(Lease::len).sum();
        let mut parcel = self.pools.spares().parcel(total);
        let mut at = 0;
        for piece in pieces {
            parcel.write(at, piece.bytes());
            at += piece.len();
        }
        parcel
    }

    /// Counts a slice's launches with their times; those of a run share the run's time.
    fn count_launches(&self, flight: &Flight, completion: &mut Completion) {
        let mut times = self.pools.times();
        let end = flight.end.as_deref();
        let mut all = 0;
        for (from, end, launches) in flight.runs.each(&flight.begin, end) {
            let ns = end.map_or(0, |end| end.since(from));
            all += ns;
            if let ([alone], true) = (launches, ns > 0) {
                times.measured(alone.key, alone.count, ns);
            }
            for (it, ns) in divide(ns, launches, |key| times.about(key)) {
                completion.count_all(it.key, it.count, ns, it.sms);
            }
        }
        // Elapsed times are rounded, each by itself.
        completion.device_ns = completion.device_ns.max(all);
    }

    /// Returns the completion of a finished slice; `late` is an error that the device reported while it ran.
    pub(super) fn completion(&mut self, mut flight: Flight, late: Option<Failure>) -> Completion {
        if late.is_some() || flight.end.is_none() {
            // It is unknown which of them ran, and copies have no bytes.
            flight.results.clear();
            flight.events.clear();
        }
        let mut completion = Completion {
            position: flight.slice.position,
            session: self.id,
            resident: self.memory.resident(),
            fault: late
                .map(|failure| (flight.slice.first, failure))
                .or(flight.fault.take()),
            ..Completion::default()
        };
        if completion.fault.is_none() || flight.end.is_some() {
            completion.device_ns = flight
                .end
                .as_ref()
                .map_or(0, |end| end.since(&flight.begin));
        }
        self.count_launches(&flight, &mut completion);
        let device_ns = completion.device_ns;
        completion.results = flight
            .results
            .into_iter()
            .map(|(op, given)| {
                let (kind, bytes) = match given {
                    Given::Nothing => (ResultKind::Sync, None),
                    Given::Copied(pinned) => (ResultKind::CopyOut, Some(self.parcel(&pinned))),
                    Given::Symbols(rows) => (ResultKind::Symbols, Some(rows[..].into())),
                };
                OpResult {
                    op,
                    kind,
                    bytes,
                    // The driver prints to the worker's own output and offers no way to read it.
                    printed: Vec::new(),
                    // All answers go out together.
                    device_ns,
                }
            })
            .collect();
        let began = self.base.1 + flight.begin.since(&self.base.0);
        let times = flight.events.iter().map(|(op, event, reached)| {
            let ns = began + reached.since(&flight.begin);
            (*op, EventTime { event: *event, ns })
        });
        completion.events = times.collect();
        self.base = (flight.begin, began);
        completion
    }
}
