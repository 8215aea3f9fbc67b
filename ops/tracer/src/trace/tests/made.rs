//! A request with its spans, and what is read of them.

use bus_schemas::subject::Subjects;
use scheduler_leader_core::why::{Cause, Wait};
use telemetry::catalogue::traces as names;
use telemetry::{Attribute, FinishedSpan};

use crate::destinations::Destinations;
use crate::ids::Ids;
use crate::join::tests::{position, request};
use crate::join::{Join, Joined};
use crate::kernels::Kernels;
use crate::links::Links;
use crate::sampling::Kept;
use crate::trace::{Context, spans};

pub(super) fn kernels() -> Kernels {
    Kernels::with(&[(7, "softmax", 10), (8, "matmul", 1_000)])
}

pub(super) fn made(joined: &Joined<u8>) -> Vec<FinishedSpan> {
    let subjects = Subjects::new(&"lab".parse().expect("a name"));
    let ids = Ids::new(subjects.cluster());
    let context = Context {
        ids: &ids,
        destinations: &Destinations::new(&subjects),
        kernels: &kernels(),
        target: Some(500),
        kept: Kept::Slow,
        links: &Links::default(),
    };
    spans(joined, &context)
}

/// A request from 1,000 to 2,000 µs of two slices: one is announced at 1,200, the other at 1,600.
pub(super) fn joined() -> Joined<u8> {
    const US: u64 = 1_000;
    let mut join = Join::new();
    join.is_read(0);
    for (ops, at) in [((1, 3), 1_200), ((4, 5), 1_600)] {
        let mut slice = position("chat", 1, ops, 0);
        let timing = slice.timing.as_mut().expect("it has run");
        timing.announced = at * US;
        timing.granted = (at + 80) * US;
        timing.accepted = (at + 90) * US;
        timing.begun = (at + 95) * US;
        timing.started = (at + 100) * US;
        timing.ended = (at + 150) * US;
        timing.waited_ns = 100 * US;
        timing.waits[0].ns = 70 * US;
        timing.waits.push(Wait {
            cause: Cause::Bus,
            of: None,
            ns: 30 * US,
        });
        join.position(&slice);
    }
    let mut whole = request("chat", 1, (1, 5));
    (whole.report.began, whole.report.waited, whole.report.ended) =
        (1_000 * US, 1_100 * US, 2_000 * US);
    join.request(whole, 0, 1);
    join.due(1).remove(0)
}

pub(super) fn named<'s>(spans: &'s [FinishedSpan], name: &str) -> Vec<&'s FinishedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

pub(super) fn attribute<'s>(span: &'s FinishedSpan, name: &str) -> Option<&'s Attribute> {
    let mut attributes = span.attributes.iter();
    attributes
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

pub(super) fn amount(span: &FinishedSpan, name: &str) -> u64 {
    match attribute(span, name) {
        Some(Attribute::Number(value)) => *value,
        other => panic!("{name} of {} is {other:?}", span.name),
    }
}

/// Checks that names of spans, events and attributes are of the table, and are on the spans that it names. Checks that
/// spans have the service and the kind that it names.
pub(super) fn check_names(spans: &[FinishedSpan]) {
    let first = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    let has = |name: &str, on: &str| {
        let cause = name.strip_prefix("warploom.wait.");
        let cause = cause.and_then(|it| it.strip_suffix("_ns"));
        let entry = match cause {
            Some(cause) => {
                assert!(Cause::ALL.iter().any(|it| it.name() == cause), "{name}");
                names::WAIT_CAUSE_NS
            }
            None => name,
        };
        let mut entries = names::ATTRIBUTES.iter().filter(|it| it.name == entry);
        entries.next().is_some_and(|it| it.on.contains(&on))
    };
    for span in spans {
        let kind = first(&span.name);
        let entry = names::SPANS.iter().find(|it| first(it.name) == kind);
        let entry = entry.map(|it| (it.role, it.kind));
        assert_eq!(entry, Some((span.role, span.kind)), "{}", span.name);
        for (name, _) in &span.attributes {
            assert!(has(name, &kind), "{name} of {}", span.name);
        }
        for event in &span.events {
            let known = names::EVENTS
                .iter()
                .any(|(name, of, _)| (*name, *of) == (event.name, &*kind));
            assert!(known, "{} of {}", event.name, span.name);
            for (name, _) in &event.attributes {
                assert!(has(name, event.name), "{name} of {}", event.name);
            }
        }
    }
}
