//! The work of a slice: its kernels, its transfers and its loads of modules, at their times.
//!
//! The device measures the time of a whole slice. So the times of one kind of work among several are estimates: its
//! share of the slice.

use std::borrow::Cow;
use std::cmp::Reverse;

use bus_schemas::{CostClass, KernelKey};
use telemetry::catalogue::traces as names;
use telemetry::{Attribute, Attributes, SpanEvent};

use crate::attribute::{number, text};
use crate::join::{Part, Ran};
use crate::kernels::Kernels;
use crate::timeline::Stretch;

/// Estimated nanoseconds of a launch of a kernel that was not measured.
const LAUNCH: u64 = 1_000;
/// Estimated bytes that a transfer moves in a nanosecond.
const BYTES: u64 = 8;
/// Estimated nanoseconds of a load of a compiled module.
const LOAD: u64 = 10_000;

/// Work that has a span of its own beside a slice of another name: its kind, its span, and the slice that it names.
const BESIDE: [(Kind, &str, &str); 3] = [
    (Kind::Load, "load", "gpu load"),
    (Kind::Copy, "transfer", "gpu copy"),
    (Kind::CopyOut, "transfer out", "gpu copy out"),
];

/// One kind of work of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Launches of a kernel.
    Launch(KernelKey),
    /// Copies to or on the device.
    Copy,
    /// Copies to the host.
    CopyOut,
    /// Loads of modules.
    Load,
    /// Allocations, frees, events and the like.
    Light,
    /// Waits of the program, which take no time of the device.
    Wait,
}

/// Work of one kind in a slice.
#[derive(Debug)]
struct Item {
    kind: Kind,
    ops: u64,
    bytes: u64,
    /// Its time by the profile, nanoseconds.
    estimate: u64,
    /// The time of its event.
    at: u64,
    /// True if the slice has other work that takes time.
    is_estimated: bool,
}

/// A transfer or a load that has a span of its own.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) name: &'static str,
    pub(crate) stretch: Stretch,
    ops: u64,
    /// Bytes of a transfer.
    bytes: Option<u64>,
}

impl Beside {
    /// Its attributes besides those of all parts of a slice.
    pub(crate) fn attributes(&self) -> Attributes {
        let mut attributes = vec![
            number(names::OPS, self.ops),
            (Cow::Borrowed(names::ESTIMATED), Attribute::Flag(true)),
        ];
        attributes.extend(self.bytes.map(|bytes| number(names::BYTES, bytes)));
        attributes
    }
}

/// The work of a slice, in the order in which it came. Loads are the first.
#[derive(Debug)]
pub(crate) struct Work<'k> {
    items: Vec<Item>,
    stretch: Stretch,
    kernels: &'k Kernels,
}

impl<'k> Work<'k> {
    /// The work of a part with this number of loads of modules, which ran in `stretch`.
    pub(crate) fn new(part: &Part, loads: u64, stretch: Stretch, kernels: &'k Kernels) -> Self {
        let load = (loads > 0).then(|| Item::new(Kind::Load, loads, 0, LOAD.saturating_mul(loads)));
        let of_run = |run| item(run, kernels);
        let items = load.into_iter().chain(part.work.iter().map(of_run));
        let mut work = Self {
            items: items.collect(),
            stretch,
            kernels,
        };
        work.lay_out();
        work
    }

    /// Gives each item its share of the slice.
    fn lay_out(&mut self) {
        let (start, end) = self.stretch;
        let estimates = self.items.iter().map(|it| u128::from(it.estimate));
        let whole = estimates.fold(0, u128::saturating_add).max(1);
        let takes_time = self.items.iter().filter(|it| it.kind != Kind::Wait);
        let is_estimated = takes_time.count() > 1;
        let at = |before: u128| {
            let share = u128::from(end - start).saturating_mul(before) / whole;
            start + u64::try_from(share).unwrap_or(u64::MAX).min(end - start)
        };
        let mut before = 0_u128;
        for item in &mut self.items {
            (item.at, item.is_estimated) = (at(before), is_estimated);
            before = before.saturating_add(u128::from(item.estimate));
        }
    }

    /// The name of the slice: its longest kernel and the number of other launches, or its other work.
    pub(crate) fn name(&self) -> String {
        let launches = self.items.iter().filter_map(|item| match item.kind {
            Kind::Launch(kernel) => Some((item, kernel)),
            _ => None,
        });
        let total = launches.clone().map(|(item, _)| item.ops);
        let total = total.fold(0, u64::saturating_add);
        // Kernels that are not told apart name a slice only among themselves.
        let rank = |(item, kernel): &(&Item, KernelKey)| {
            (*kernel != KernelKey::OTHER, item.estimate, Reverse(*kernel))
        };
        let longest = launches.max_by_key(rank);
        if let Some((_, kernel)) = longest {
            let name = self.kernels.shown(kernel);
            return match total.saturating_sub(1) {
                0 => format!("gpu launch {name}"),
                others => format!("gpu launch {name} +{others}"),
            };
        }
        let has = |kind| self.items.iter().any(|item| item.kind == kind);
        let name = match () {
            () if has(Kind::Copy) => "gpu copy",
            () if has(Kind::CopyOut) => "gpu copy out",
            () if has(Kind::Load) => "gpu load",
            () if has(Kind::Wait) => "gpu sync",
            () if self.items.is_empty() => "gpu execute",
            () => "gpu memory",
        };
        name.to_owned()
    }

    /// The events of the slice. `device_ns` is its time on the device.
    pub(crate) fn events(&self, device_ns: u64) -> Vec<SpanEvent> {
        let estimates = self.items.iter().map(|it| u128::from(it.estimate));
        let whole = estimates.fold(0, u128::saturating_add).max(1);
        let share = |own: u64| {
            let share = u128::from(device_ns).saturating_mul(own.into()) / whole;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let event = |item: &Item| {
            let (name, attributes) = match item.kind {
                Kind::Launch(kernel) => (
                    "kernel",
                    vec![
                        text(names::KERNEL, &self.kernels.name(kernel)),
                        number(names::LAUNCHES, item.ops),
                        number(names::DEVICE_NS, share(item.estimate)),
                        (
                            Cow::Borrowed(names::ESTIMATED),
                            Attribute::Flag(item.is_estimated),
                        ),
                    ],
                ),
                Kind::Copy | Kind::CopyOut => (
                    "copy",
                    vec![
                        number(names::OPS, item.ops),
                        number(names::BYTES, item.bytes),
                    ],
                ),
                Kind::Load => ("load", vec![number(names::OPS, item.ops)]),
                Kind::Light | Kind::Wait => return None,
            };
            Some(SpanEvent {
                name,
                at: item.at,
                attributes,
            })
        };
        self.items.iter().filter_map(event).collect()
    }

    /// Transfers and loads with spans of their own: those that do not name their slice. Those of one kind share a span.
    /// Their times must be the same whenever they are computed, so they do not depend on the kernels' profile. Loads
    /// come first, then transfers; those to the host end with the slice.
    pub(crate) fn beside(&self, slice: &str) -> Vec<Beside> {
        let (start, end) = self.stretch;
        let mut from = start;
        let mut beside = Vec::new();
        for (kind, name, _) in BESIDE.into_iter().filter(|(_, _, it)| *it != slice) {
            let items = self.items.iter().filter(|item| item.kind == kind);
            let sums = items.fold((0_u64, 0_u64, 0_u64), |(ops, bytes, ns), item| {
                (
                    ops.saturating_add(item.ops),
                    bytes.saturating_add(item.bytes),
                    ns.saturating_add(item.estimate),
                )
            });
            let (ops, bytes, ns) = sums;
            if ops == 0 {
                continue;
            }
            let took = ns.min(end - from);
            let stretch = match kind {
                Kind::CopyOut => (end - took, end),
                _ => (from, from + took),
            };
            if kind != Kind::CopyOut {
                from = stretch.1;
            }
            beside.push(Beside {
                name,
                stretch,
                ops,
                bytes: (kind != Kind::Load).then_some(bytes),
            });
        }
        beside
    }
}

impl Item {
    /// Work of a kind with an estimated time, nanoseconds.
    fn new(kind: Kind, ops: u64, bytes: u64, estimate: u64) -> Self {
        Self {
            kind,
            ops,
            bytes,
            estimate,
            at: 0,
            is_estimated: false,
        }
    }
}

fn item(run: &Ran, kernels: &Kernels) -> Item {
    let of = |kind, estimate| Item::new(kind, run.ops, run.bytes, estimate);
    let copies = (run.bytes / BYTES).max(1);
    match run.class {
        CostClass::Launch => {
            let each = kernels.estimate(run.key).unwrap_or(LAUNCH).max(1);
            of(Kind::Launch(run.key), each.saturating_mul(run.ops))
        }
        CostClass::Copy => of(Kind::Copy, copies),
        CostClass::Sync if run.bytes > 0 => of(Kind::CopyOut, copies),
        CostClass::Sync => of(Kind::Wait, 0),
        CostClass::Light => of(Kind::Light, 0),
    }
}

#[cfg(test)]
mod tests;
