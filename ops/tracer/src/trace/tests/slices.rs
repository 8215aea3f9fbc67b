//! The spans of slices: their kernels, transfers and loads, and those that share a span.

use std::rc::Rc;

use bus_schemas::{CostClass, KernelKey};
use telemetry::{Attribute, SpanEvent};

use super::made::{amount, attribute, check_names, joined, made, named};
use crate::join::{Part, Ran};
use crate::parts::SLICES;

#[test]
fn kernels_are_events_with_measured_or_estimated_times() {
    let run = |key, ops| Ran {
        class: CostClass::Launch,
        key: KernelKey(key),
        bytes: 0,
        ops,
    };
    let mut one = joined();
    let part = Rc::make_mut(&mut one.parts[0]);
    part.work = [run(7, 50), run(8, 1)].into();
    part.device_ns = 30_000;
    let spans = made(&one);
    let [first] = named(&spans, "gpu launch matmul +50")[..] else {
        panic!("{spans:#?}");
    };
    let event = |event: &SpanEvent| {
        let number = |name: &str| {
            let found = event.attributes.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        };
        (
            number("warploom.kernel"),
            number("warploom.device_ns"),
            number("warploom.estimated"),
        )
    };
    let told = |name: &str, ns, estimated| {
        (
            Some(Attribute::Text(name.into())),
            Some(Attribute::Number(ns)),
            Some(Attribute::Flag(estimated)),
        )
    };
    let events: Vec<_> = first.events.iter().map(event).collect();
    assert_eq!(
        events,
        [told("softmax", 10_000, true), told("matmul", 20_000, true)]
    );
    assert!(
        first
            .events
            .iter()
            .all(|it| (first.start..=first.end).contains(&it.at))
    );
    let only = named(&spans, "gpu launch softmax +1")[0];
    assert_eq!(event(&only.events[0]), told("softmax", 50, false));
}

#[test]
fn transfers_and_loads_beside_launches_have_spans_of_their_own() {
    let mut one = joined();
    one.request.loads = [(2, 2)].into();
    let copies = |class, bytes| Ran {
        class,
        key: KernelKey(0),
        ops: 2,
        bytes,
    };
    let mut work = one.parts[0].work.to_vec();
    work.insert(0, copies(CostClass::Copy, 1 << 16));
    work.push(copies(CostClass::Sync, 1 << 10));
    Rc::make_mut(&mut one.parts[0]).work = work.into();
    let spans = made(&one);
    let slice = named(&spans, "gpu launch softmax +2")[0];
    let mut reached = slice.start;
    for (name, ops, bytes) in [
        ("load", 1, None),
        ("transfer", 2, Some(1 << 16)),
        ("transfer out", 2, Some(1 << 10)),
    ] {
        let [span] = named(&spans, name)[..] else {
            panic!("{name} in {spans:#?}");
        };
        assert!(reached <= span.start && span.start < span.end && span.end <= slice.end);
        reached = span.end;
        assert_eq!(span.parent, Some(spans[0].span));
        for key in ["warploom.gpu", "warploom.position", "warploom.op", "hw.id"] {
            assert_eq!(attribute(span, key), attribute(slice, key));
        }
        assert_eq!(amount(span, "warploom.ops"), ops);
        let said = bytes.map(Attribute::Number);
        assert_eq!(attribute(span, "warploom.bytes"), said.as_ref());
        let estimated = attribute(span, "warploom.estimated");
        assert_eq!(estimated, Some(&Attribute::Flag(true)));
    }
    check_names(&spans);
    let ids: std::collections::HashSet<_> = spans.iter().map(|it| it.span).collect();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn many_slices_are_bounded_and_none_of_their_waits_is_lost() {
    let mut one = joined();
    let slice = Part::clone(&one.parts[0]);
    let part = |n: u64| Part {
        position: n,
        first: 3 * n + 1,
        last: 3 * n + 3,
        ..slice.clone()
    };
    one.parts = (0..1_000).map(part).map(Rc::new).collect();
    let spans = made(&one);
    assert!(spans.len() <= 2 * SLICES + 4, "{}", spans.len());
    let slices = spans.iter().filter(|span| span.name.starts_with("gpu"));
    let rest: Vec<_> = slices
        .filter(|it| attribute(it, "warploom.slices").is_some())
        .collect();
    let [rest] = rest[..] else {
        panic!("{rest:?}");
    };
    assert_eq!(amount(rest, "warploom.slices"), 1_001 - SLICES as u64);
    let waited = spans[1..]
        .iter()
        .filter(|it| attribute(it, "warploom.wait_ns").is_some());
    let waited: u64 = waited.map(|it| amount(it, "warploom.wait_ns")).sum();
    assert_eq!(waited, amount(&spans[0], "warploom.wait_ns"));
}

#[test]
fn a_part_of_several_slices_is_one_span_with_their_waits() {
    let mut one = joined();
    let mut part = Part::clone(&one.parts[0]);
    part.slices = 3;
    part.timing.waited_ns = 130;
    part.timing.waits.truncate(1);
    part.timing.waits[0].ns = 130;
    let whole = (part.timing.announced, part.timing.ended);
    one.parts = vec![Rc::new(part)];
    let spans = made(&one);
    assert!(spans.iter().all(|span| span.name != "queue"));
    let span = spans.iter().find(|span| span.name.starts_with("gpu"));
    let span = span.expect("a slice");
    assert_eq!((span.start, span.end), whole);
    assert_eq!(amount(span, "warploom.slices"), 3);
    assert_eq!(amount(span, "warploom.wait_ns"), 130);
    assert_eq!(amount(&spans[0], "warploom.wait_ns"), 130);
}

#[test]
fn a_slice_that_loads_modules_is_named_by_that_and_its_kernels_go_first() {
    let mut joined = joined();
    joined.request.loads = Box::new([(2, 3), (5, 9)]);
    let spans = made(&joined);
    check_names(&spans);
    let loads = |name: &str| -> Vec<_> {
        let events = named(&spans, name)
            .into_iter()
            .flat_map(|span| &span.events);
        let loads = events.filter(|event| event.name == "load");
        loads.map(|event| event.attributes[0].1.clone()).collect()
    };
    assert_eq!(loads("gpu launch softmax +2"), [Attribute::Number(2)]);
    assert_eq!(loads("gpu launch softmax +1"), [Attribute::Number(1)]);
}
