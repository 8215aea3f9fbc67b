//! Slices that the worker's device thread has started. It launches their kernels one call after the other,
//! as the real feed allows. Each session has a stream with the session's priority.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{CostClass, CostRun, KernelKey, OpNumber};
use device::Feed;
use device::KernelTime;
use gpu_worker_core::sequencer::StartAction;

use super::place::SMS;
use crate::device::{Device, Launch};
use sim_cluster::Nanos;

/// An op of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SliceOp {
    /// Launches this kernel.
    Kernel(u32),
    /// Waits for an answer.
    Sync,
}

/// A started slice.
#[derive(Debug)]
pub(super) struct Slice {
    pub start: StartAction,
    pub client: usize,
    pub ops: Vec<SliceOp>,
    /// Number of ops that the thread has passed.
    called: usize,
    /// Number of launches that have not ended.
    left: usize,
    /// Device time of its ops.
    pub device_ns: u64,
    /// Kernels that ran, with their device time.
    pub measured: Vec<KernelTime>,
}

impl Slice {
    pub(super) fn new(start: StartAction, client: usize, ops: Vec<SliceOp>) -> Self {
        let left = ops.iter().filter(|op| **op != SliceOp::Sync).count();
        Self {
            start,
            client,
            measured: Vec::with_capacity(left),
            ops,
            called: 0,
            left,
            device_ns: 0,
        }
    }

    /// Its syncs' op numbers.
    pub(super) fn syncs(&self) -> impl Iterator<Item = OpNumber> {
        let ops = (self.start.first..).zip(&self.ops);
        ops.filter(|(_, op)| **op == SliceOp::Sync)
            .map(|(number, _)| number)
    }

    /// Sum of the costs that its ops declare; `keys` are those of its client's kernels.
    pub(super) fn declared(&self, keys: &[KernelKey]) -> u64 {
        let one = |op: &SliceOp| {
            let (class, key) = match op {
                SliceOp::Kernel(kernel) => (CostClass::Launch, keys[*kernel as usize]),
                SliceOp::Sync => (CostClass::Sync, KernelKey(0)),
            };
            let run = CostRun {
                key,
                bytes: 0,
                count: 1,
                class,
            };
            run.declared()
        };
        self.ops.iter().map(one).fold(0, u64::wrapping_add)
    }

    /// The kernel that the thread launches next. Ops after a sync follow it without a call.
    fn next_call(&mut self) -> Option<u32> {
        while let Some(op) = self.ops.get(self.called) {
            match op {
                SliceOp::Kernel(kernel) => return Some(*kernel),
                SliceOp::Sync => self.called += 1,
            }
        }
        None
    }
}

/// A launch on its stream.
#[derive(Debug, Clone, Copy)]
struct Called {
    kernel: u32,
    /// Time at which the call has returned.
    at: Nanos,
    /// Number of earlier calls.
    number: u64,
}

/// A session's slices and stream.
#[derive(Debug, Default)]
struct Stream {
    slices: VecDeque<Box<Slice>>,
    called: VecDeque<Called>,
    runs: bool,
}

impl Stream {
    fn urgency(&self) -> u8 {
        let urgencies = self.slices.iter().map(|slice| slice.start.priority);
        urgencies.min().unwrap_or(u8::MAX)
    }

    /// The slice of the next call.
    fn uncalled(&mut self) -> Option<&mut Slice> {
        let mut slices = self.slices.iter_mut();
        slices.find_map(|slice| slice.next_call().is_some().then_some(&mut **slice))
    }
}

/// The started slices.
#[derive(Debug)]
pub(super) struct Slices {
    streams: BTreeMap<usize, Stream>,
    feed: Feed,
    call: Nanos,
    /// Time at which the thread has finished its current call.
    thread_at: Nanos,
    calls: u64,
    /// The last time that was passed in.
    now: Nanos,
}

impl Slices {
    pub(super) fn new(call: Nanos) -> Self {
        Self {
            streams: BTreeMap::new(),
            feed: Feed::default(),
            call,
            thread_at: 0,
            calls: 0,
            now: 0,
        }
    }

    /// Takes a slice.
    pub(super) fn start(&mut self, now: Nanos, slice: Slice) {
        self.now = now;
        self.thread_at = self.thread_at.max(now);
        let StartAction {
            session, priority, ..
        } = slice.start;
        self.feed.submitted(now, session, priority);
        let stream = self.streams.entry(slice.client).or_default();
        stream.slices.push_back(Box::new(slice));
    }

    /// The session with the next launch to call.
    fn callable(&mut self) -> Option<usize> {
        let (gate, now) = (self.feed.gate(self.now), self.now);
        let mut best: Option<((u8, u64), usize)> = None;
        for (client, stream) in &mut self.streams {
            let urgency = stream.urgency();
            let flying = stream.called.len() + usize::from(stream.runs);
            let Some(slice) = stream.uncalled() else {
                continue;
            };
            let rank = (urgency, slice.start.position);
            if gate.admits(urgency)
                && (flying as u64) < u64::from(self.feed.depth(now, urgency))
                && best.is_none_or(|(before, _)| rank < before)
            {
                best = Some((rank, *client));
            }
        }
        best.map(|(_, client)| client)
    }

    /// Makes the due call of the thread.
    pub(super) fn call(&mut self, now: Nanos) {
        self.now = now;
        if self.thread_at > now {
            return;
        }
        let Some(client) = self.callable() else {
            return;
        };
        let Some(stream) = self.streams.get_mut(&client) else {
            return;
        };
        let Some(slice) = stream.uncalled() else {
            return;
        };
        if let Some(kernel) = slice.next_call() {
            slice.called += 1;
            self.calls += 1;
            self.thread_at = now + self.call;
            stream.called.push_back(Called {
                kernel,
                at: self.thread_at,
                number: self.calls,
            });
        }
    }

    /// The next launch that the device can begin now, from the most urgent stream.
    pub(super) fn next(&mut self, now: Nanos) -> Option<(usize, u32)> {
        let ready = |(client, stream): (&usize, &Stream)| {
            let first = stream.called.front()?;
            let ready = !stream.runs && first.at <= now;
            ready.then_some(((stream.urgency(), first.number), *client))
        };
        let (_, client) = self.streams.iter().filter_map(ready).min()?;
        let stream = self.streams.get_mut(&client)?;
        let called = stream.called.pop_front()?;
        stream.runs = true;
        Some((client, called.kernel))
    }

    /// Handles the end of a kernel. Returns its slice if the slice is done.
    pub(super) fn ended(
        &mut self,
        now: Nanos,
        launch: &Launch,
        key: KernelKey,
        took: Nanos,
    ) -> Option<Box<Slice>> {
        self.now = now;
        let client = launch.tenant as usize;
        let stream = self.streams.get_mut(&client)?;
        stream.runs = false;
        let slice = stream.slices.front_mut()?;
        slice.left -= 1;
        slice.device_ns += took;
        slice.measured.push(KernelTime {
            key,
            count: 1,
            total_ns: took,
            sm_ns: took * u64::from(SMS),
            least_ns: took,
            most_ns: took,
        });
        self.take_done(client)
    }

    /// Takes a slice that is done without having run a kernel.
    pub(super) fn take_idle(&mut self, now: Nanos) -> Option<Box<Slice>> {
        self.now = now;
        let idle = |stream: &Stream| stream.slices.front().is_some_and(|slice| slice.left == 0);
        let client = self.streams.iter().find(|(_, stream)| idle(stream));
        let client = *client?.0;
        self.take_done(client)
    }

    fn take_done(&mut self, client: usize) -> Option<Box<Slice>> {
        let stream = self.streams.get_mut(&client)?;
        let slice = stream.slices.pop_front_if(|slice| slice.left == 0)?;
        let answered = slice.syncs().next().is_some();
        self.feed.ended(self.now, slice.start.session, answered);
        Some(slice)
    }

    /// Time of the next call, or of the return of a call that the device waits for.
    pub(super) fn wake(&mut self, device: &Device) -> Option<Nanos> {
        let call = self.callable().map(|_| self.thread_at);
        let gate = self.feed.gate(self.now).until;
        let streams = self.streams.values();
        let ready = streams.filter_map(|stream| match stream.runs {
            false => stream.called.front().map(|called| called.at),
            true => None,
        });
        let ready = ready.filter(|_| device.has_room()).min();
        let idle = |stream: &Stream| stream.slices.front().is_some_and(|slice| slice.left == 0);
        let idle = self.streams.values().any(idle).then_some(self.now);
        [call, gate, ready, idle].into_iter().flatten().min()
    }
}
