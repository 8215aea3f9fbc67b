//! The device in virtual time: streams, and the kernels and copies that run on it.
//!
//! A kernel begins once its stream has come to it and its blocks fit on the multiprocessors. The kernels that
//! wait for room begin in the order of their streams' priorities, then of their coming. None overtakes: while
//! the first does not fit, the others wait. A copy has one of the copy engines to itself.
//!
//! The effect of an item is applied when it ends, so that memory which work under way uses is seen too early
//! or too late if it is used wrongly.

mod booked;
mod marks;
mod stream;
mod work;

use std::collections::BTreeMap;

use crate::Nanos;
use crate::costs::{EMPTY, Rates};
use booked::Booked;
use marks::Marks;
use stream::{Running, Stream};
pub(crate) use work::{Engine, Work};
use work::{Item, UseKind};

/// The streams and events of a device; `E` is an effect.
#[derive(Debug)]
pub(crate) struct Timeline<E> {
    now: Nanos,
    rates: Rates,
    streams: BTreeMap<u64, Stream<E>>,
    marks: Marks,
    sms: u64,
    free_sms: u64,
    booked: Booked,
    /// End of the work that has ended last.
    worked: Nanos,
    /// The code of the first effect that failed.
    failed: Option<u32>,
}

impl<E> Timeline<E> {
    pub(crate) fn new(rates: Rates, sms: u64) -> Self {
        Self {
            now: 0,
            rates,
            streams: BTreeMap::new(),
            marks: Marks::default(),
            sms,
            free_sms: sms,
            booked: Booked::default(),
            worked: 0,
            failed: None,
        }
    }

    /// The code of the effect that has ended everything, if any.
    pub(crate) fn failed(&self) -> Option<u32> {
        self.failed
    }

    pub(crate) fn add_stream(&mut self, stream: u64, priority: i32) {
        self.streams.insert(stream, Stream::new(priority));
    }

    /// Removes a stream once its work is done.
    pub(crate) fn remove_stream(&mut self, stream: u64) {
        if let Some(it) = self.streams.get_mut(&stream) {
            it.removed = true;
        }
        self.drop_removed();
    }

    pub(crate) fn add_event(&mut self, event: u64, timed: bool) {
        self.marks.add(event, timed);
    }

    pub(crate) fn remove_event(&mut self, event: u64) {
        self.marks.remove(event);
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Adds work to a stream; `ready` is the end of the call that brings it.
    pub(crate) fn push(&mut self, stream: u64, ready: Nanos, work: Work, effect: Option<E>) {
        let late = ready < self.now;
        if let Some(it) = self.streams.get_mut(&stream) {
            it.queue.push_back(Item {
                ready,
                work,
                effect,
                late,
            });
        }
    }

    /// Adds a record of an event to a stream.
    pub(crate) fn record(&mut self, stream: u64, event: u64, ready: Nanos) {
        let (record, timed) = self.marks.record(event);
        let work = Work::Mark {
            event,
            record,
            timed,
        };
        self.push(stream, ready, work, None);
    }

    /// True if a stream has work that has not ended; without one, if any has.
    pub(crate) fn is_busy(&self, stream: Option<u64>) -> bool {
        match stream {
            Some(stream) => self.streams.get(&stream).is_some_and(Stream::is_busy),
            None => self.streams.values().any(Stream::is_busy),
        }
    }

    /// True if a stream has work at a time, up to which the device has run at least.
    pub(crate) fn is_busy_at(&self, stream: u64, at: Nanos) -> bool {
        let it = self.streams.get(&stream);
        it.is_some_and(|it| it.is_busy() || it.passed > at)
    }

    /// Number of streams with work at a time, except one.
    pub(crate) fn busy_beside(&self, stream: Option<u64>, at: Nanos) -> u32 {
        let others = self.streams.keys().filter(|id| Some(**id) != stream);
        let busy = others.filter(|id| self.is_busy_at(**id, at)).count();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }

    /// Runs to a time; `apply` gets the effects in the order in which they end.
    pub(crate) fn advance(&mut self, to: Nanos, apply: &mut impl FnMut(E) -> Result<(), u32>) {
        while let Some(next) = self.settle().filter(|next| *next <= to) {
            self.now = self.now.max(next);
            self.finish(apply);
        }
        self.now = self.now.max(to);
    }

    /// Runs until a stream has no more work, or none has. Returns the time of that.
    pub(crate) fn run_out(
        &mut self,
        stream: Option<u64>,
        apply: &mut impl FnMut(E) -> Result<(), u32>,
    ) -> Nanos {
        while self.is_busy(stream)
            && let Some(next) = self.settle()
        {
            self.now = self.now.max(next);
            self.finish(apply);
        }
        let stream = stream.and_then(|stream| self.streams.get(&stream));
        stream.map_or(self.worked, |it| it.passed)
    }

    /// Starts all that can start now; returns the time at which something may change.
    fn settle(&mut self) -> Option<Nanos> {
        while self.start_one() {}
        self.drop_removed();
        let ends = self.streams.values().filter_map(Stream::end);
        let begins = self.streams.values().filter_map(|it| self.earliest(it));
        ends.chain(begins.filter(|at| *at > self.now)).min()
    }

    /// The time from which the first item of a stream may begin; `None` if that is not known.
    fn earliest(&self, stream: &Stream<E>) -> Option<Nanos> {
        let item = stream.next()?;
        let begun = item.ready + self.rates.start;
        match item.work {
            Work::Kernel { .. } => Some(begun.max(stream.passed).max(stream.rested(&self.rates))),
            Work::Copy { .. } => Some(begun.max(stream.passed).max(stream.rested(&self.rates))),
            Work::Mark { .. } => Some(begun.max(stream.passed)),
            Work::Wait { event, record } => {
                let passed = self.marks.passed(event, record)?;
                Some(item.ready.max(stream.passed).max(passed))
            }
        }
    }

    /// Starts the most urgent item that can start now. Returns false if there is none.
    fn start_one(&mut self) -> bool {
        let heads = self.streams.iter().filter_map(|(id, stream)| {
            let at = self.earliest(stream).filter(|at| *at <= self.now)?;
            let item = stream.next()?;
            Some((stream.priority, at, *id, item.work, item.late))
        });
        let mut heads: Vec<_> = heads.collect();
        heads.sort_unstable_by_key(|(priority, at, id, ..)| (*priority, *at, *id));
        let mut full = false;
        for (_, at, id, work, late) in heads {
            let begin = match work {
                Work::Mark { .. } | Work::Wait { .. } => at,
                _ if late => self.place(work, at),
                Work::Kernel { sms, .. } if full || sms > self.free_sms => {
                    full = true;
                    continue;
                }
                Work::Copy { engine, .. } if self.copies(engine) => continue,
                _ => self.now,
            };
            if begin <= self.now {
                self.start(id, work, begin);
                return true;
            }
        }
        false
    }

    /// True if an engine has a copy.
    fn copies(&self, engine: Engine) -> bool {
        let mut streams = self.streams.values();
        streams.any(|it| it.engine() == Some(engine))
    }

    /// The time at which late work would have begun, had it come in time.
    fn place(&self, work: Work, from: Nanos) -> Nanos {
        let Some(uses) = work.uses() else {
            return from;
        };
        let capacity = if uses.kind == UseKind::Multiprocessors {
            self.sms
        } else {
            1
        };
        self.booked.place(uses, from, self.time(work), capacity)
    }

    /// Nanoseconds that work takes.
    fn time(&self, work: Work) -> Nanos {
        match work {
            Work::Kernel { ns, .. } => ns,
            Work::Copy { engine, bytes } => self.copy_time(engine, bytes),
            Work::Mark { .. } | Work::Wait { .. } => 0,
        }
    }

    fn start(&mut self, id: u64, work: Work, begin: Nanos) {
        let end = begin + self.time(work);
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let Some(item) = stream.queue.pop_front() else {
            return;
        };
        match work {
            Work::Kernel { .. } | Work::Copy { .. } => {
                stream.running = Some(Running { end, item });
            }
            Work::Mark {
                event,
                record,
                timed,
            } => {
                stream.passed = begin;
                stream.timed |= timed;
                self.marks.pass(event, record, begin);
            }
            Work::Wait { .. } => stream.passed = begin,
        }
        if let Work::Kernel { sms, .. } = work {
            self.free_sms = self.free_sms.saturating_sub(sms);
        }
        if let Some(uses) = work.uses() {
            self.booked.add(uses, begin, end);
        }
    }

    fn copy_time(&self, engine: Engine, bytes: u64) -> Nanos {
        let shared = self.rates.both / 2.0;
        let rate = match engine {
            Engine::Inwards if self.copies(Engine::Outwards) => self.rates.inwards.min(shared),
            Engine::Outwards if self.copies(Engine::Inwards) => self.rates.outwards.min(shared),
            Engine::Inwards => self.rates.inwards,
            Engine::Outwards => self.rates.outwards,
            Engine::Within => self.rates.within,
        };
        EMPTY + (bytes as f64 / rate) as Nanos
    }

    /// Ends what runs to now at most, in order.
    fn finish(&mut self, apply: &mut impl FnMut(E) -> Result<(), u32>) {
        let ended = self
            .streams
            .iter()
            .filter_map(|(id, it)| Some((it.end()?, *id)));
        let mut ended: Vec<_> = ended.filter(|(end, _)| *end <= self.now).collect();
        ended.sort_unstable();
        for (end, id) in ended {
            let running = self.streams.get_mut(&id).and_then(|it| it.finish(end));
            let Some(Running { item, .. }) = running else {
                continue;
            };
            self.worked = self.worked.max(end);
            if let Work::Kernel { sms, .. } = item.work {
                self.free_sms += sms;
            }
            if let Some(code) = item.effect.and_then(|effect| apply(effect).err()) {
                self.fail(code);
                return;
            }
        }
        self.drop_removed();
    }

    /// Ends all work with an error, as a fault ends a context.
    pub(crate) fn fail(&mut self, code: u32) {
        self.failed.get_or_insert(code);
        self.booked.clear();
        for stream in self.streams.values_mut() {
            if let Some(Running { item, .. }) = stream.running.take()
                && let Work::Kernel { sms, .. } = item.work
            {
                self.free_sms += sms;
            }
            stream.queue.clear();
        }
        self.drop_removed();
    }

    fn drop_removed(&mut self) {
        self.streams.retain(|_, it| !it.removed || it.is_busy());
    }
}

#[cfg(test)]
mod tests;
