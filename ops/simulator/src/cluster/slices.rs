//! What the worker's device thread has started: slices, launched one call after the other, run in
//! the order the sequencer started them.

use std::collections::VecDeque;

use bus_schemas::{KernelKey, OpNumber};
use gpu_worker_core::sequencer::StartAction;

use crate::device::{Device, DeviceKind, Launch};
use virtual_time::Nanos;

/// An op of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SliceOp {
    /// Launches this kernel.
    Kernel(u32),
    /// Is answered.
    Sync,
}

/// A started slice.
#[derive(Debug)]
pub(super) struct Slice {
    pub start: StartAction,
    pub client: usize,
    pub ops: Vec<SliceOp>,
    /// Ops done, or on the device.
    next: usize,
    /// When the thread makes its next call for it.
    call_at: Nanos,
    /// The device runs one of its kernels.
    runs: bool,
    /// Device time of its ops.
    pub device_ns: u64,
    /// Kernels run, with their device time.
    pub measured: Vec<(KernelKey, u64, u64)>,
}

impl Slice {
    pub(super) fn new(start: StartAction, client: usize, ops: Vec<SliceOp>) -> Self {
        Self {
            start,
            client,
            measured: Vec::with_capacity(ops.len()),
            ops,
            next: 0,
            call_at: 0,
            runs: false,
            device_ns: 0,
        }
    }

    /// Its syncs' op numbers.
    pub(super) fn syncs(&self) -> impl Iterator<Item = OpNumber> {
        let ops = (self.start.first..).zip(&self.ops);
        ops.filter(|(_, op)| **op == SliceOp::Sync)
            .map(|(number, _)| number)
    }

    fn launches(&self) -> u64 {
        let launches = self.ops.iter().filter(|op| **op != SliceOp::Sync);
        launches.count() as u64
    }

    fn is_done(&self) -> bool {
        self.next == self.ops.len() && !self.runs
    }

    /// Passes syncs: everything before them is done.
    fn pass_syncs(&mut self) {
        while !self.runs && self.ops.get(self.next) == Some(&SliceOp::Sync) {
            self.next += 1;
        }
    }
}

/// The slices in the order of their start.
#[derive(Debug)]
pub(super) struct Slices {
    slices: VecDeque<Box<Slice>>,
    kind: DeviceKind,
    call: Nanos,
    /// When the thread has made all calls of the slices started.
    thread_at: Nanos,
}

impl Slices {
    pub(super) fn new(kind: DeviceKind, call: Nanos) -> Self {
        Self {
            slices: VecDeque::new(),
            kind,
            call,
            thread_at: 0,
        }
    }

    /// The thread takes a slice: its calls follow those of the slices before.
    pub(super) fn start(&mut self, now: Nanos, mut slice: Slice) {
        let from = now.max(self.thread_at);
        slice.call_at = from + self.call;
        self.thread_at = from + self.call * slice.launches();
        self.slices.push_back(Box::new(slice));
    }

    /// The slices that may run something: the first of each session, of a serial device the first.
    fn firsts(&self) -> impl Iterator<Item = usize> + '_ {
        let most = match self.kind {
            DeviceKind::Serial => 1,
            DeviceKind::Overlapping => self.slices.len(),
        };
        (0..most.min(self.slices.len())).filter(|index| {
            let mut before = self.slices.range(..*index);
            let client = self.slices[*index].client;
            before.all(|slice| slice.client != client)
        })
    }

    /// The next launch that the device can begin now.
    pub(super) fn next(&mut self, now: Nanos, device: &Device) -> Option<(usize, u32)> {
        let ready = |index: &usize| {
            let slice = &self.slices[*index];
            let more = slice.next < slice.ops.len();
            !slice.runs && more && slice.call_at <= now && !device.runs(slice.client as u32)
        };
        let index = self.firsts().find(ready)?;
        let slice = &mut self.slices[index];
        let SliceOp::Kernel(kernel) = slice.ops[slice.next] else {
            return None;
        };
        slice.next += 1;
        slice.runs = true;
        slice.call_at += self.call;
        Some((slice.client, kernel))
    }

    /// A kernel has ended; gives its slice if that is done.
    pub(super) fn ended(
        &mut self,
        launch: &Launch,
        key: KernelKey,
        took: Nanos,
    ) -> Option<Box<Slice>> {
        let client = launch.tenant as usize;
        let index = self
            .slices
            .iter()
            .position(|slice| slice.client == client)?;
        let slice = &mut self.slices[index];
        slice.runs = false;
        slice.device_ns += took;
        slice.measured.push((key, 1, took));
        self.take_done(index)
    }

    /// Takes a slice that is done without having run anything.
    pub(super) fn take_idle(&mut self) -> Option<Box<Slice>> {
        let index = self.firsts().find(|index| {
            let slice = &self.slices[*index];
            slice.ops.get(slice.next) == Some(&SliceOp::Sync) && !slice.runs
        })?;
        self.take_done(index)
    }

    fn take_done(&mut self, index: usize) -> Option<Box<Slice>> {
        let slice = &mut self.slices[index];
        slice.pass_syncs();
        slice.is_done().then(|| self.slices.remove(index))?
    }

    /// When a call will have been made that something waits for.
    pub(super) fn wake(&self, device: &Device) -> Option<Nanos> {
        if !device.has_room() {
            return None;
        }
        let waiting = self.firsts().filter_map(|index| {
            let slice = &self.slices[index];
            let waits = !slice.runs && slice.next < slice.ops.len();
            waits.then_some(slice.call_at)
        });
        waiting.min()
    }
}
