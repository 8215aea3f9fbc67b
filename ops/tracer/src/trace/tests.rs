use std::rc::Rc;

use bus_schemas::subject::Subjects;
use bus_schemas::{
    Code, CostClass, FaultAccess, FaultKind, GrantKind, KernelFault, KernelKey, SourceLine, SpanId,
    TraceContext,
};
use scheduler_leader_core::why::Wait;
use telemetry::SpanEvent;

use super::*;
use crate::join::tests::{position, request};
use crate::join::{Join, Ran};
use crate::parts::Met;
use crate::slices::SLICES;

fn kernels() -> Kernels {
    Kernels::with(&[(7, "softmax", 10), (8, "matmul", 1_000)])
}

fn made(joined: &Joined<u8>) -> Vec<FinishedSpan> {
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
fn joined() -> Joined<u8> {
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

fn named<'s>(spans: &'s [FinishedSpan], name: &str) -> Vec<&'s FinishedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attribute<'s>(span: &'s FinishedSpan, name: &str) -> Option<&'s Attribute> {
    let mut attributes = span.attributes.iter();
    attributes
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

fn amount(span: &FinishedSpan, name: &str) -> u64 {
    match attribute(span, name) {
        Some(Attribute::Number(value)) => *value,
        other => panic!("{name} of {} is {other:?}", span.name),
    }
}

#[test]
fn the_children_of_a_request_cover_it_and_none_reaches_beyond() {
    let spans = made(&joined());
    let [root, children @ ..] = &spans[..] else {
        panic!("spans");
    };
    assert_eq!(root.name, "request");
    for child in children {
        assert_eq!((child.trace, child.parent), (root.trace, Some(root.span)));
        assert!(
            root.start <= child.start && child.end <= root.end,
            "{child:?}"
        );
    }
    let stretches = children.iter().map(|it| (it.start, it.end)).collect();
    assert_eq!(uncovered((root.start, root.end), stretches), []);
    let names: Vec<_> = children.iter().map(|it| &*it.name).collect();
    let launch = ["gpu launch softmax +2", "gpu launch softmax +1"];
    assert_eq!(
        names,
        [
            "queue", launch[0], "queue", launch[1], "submit", "program", "answer"
        ]
    );
    let ids: std::collections::HashSet<_> = spans.iter().map(|it| it.span).collect();
    assert_eq!(ids.len(), spans.len());
    assert_eq!(spans, made(&joined()), "the same again");
}

#[test]
fn compilations_of_loads_have_spans_within_their_request() {
    const US: u64 = 1_000;
    let mut one = joined();
    let compiled = |began, ended| Compilation {
        began: began * US,
        ended: ended * US,
    };
    let part = Rc::make_mut(&mut one.parts[0]);
    part.timing.compiled = vec![
        compiled(700, 900),
        compiled(950, 1_100),
        compiled(1_100, 1_250),
    ];
    assert!(
        named(&made(&one), "compile").is_empty(),
        "of another thread"
    );
    one.request.loads = [(2, 3)].into();
    let spans = made(&one);
    let compilations = named(&spans, "compile");
    let times: Vec<_> = compilations.iter().map(|it| (it.start, it.end)).collect();
    assert_eq!(
        times,
        [(1_000 * US, 1_100 * US), (1_100 * US, 1_250 * US)],
        "one was before the request, and one began before it"
    );
    let slice = named(&spans, "gpu launch softmax +2")[0];
    for span in &compilations {
        assert_eq!(span.parent, Some(spans[0].span));
        for key in ["warploom.gpu", "warploom.position", "warploom.op", "hw.id"] {
            assert_eq!(attribute(span, key), attribute(slice, key));
        }
    }
    let ids: std::collections::HashSet<_> = spans.iter().map(|it| it.span).collect();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn the_causes_of_a_wait_add_up_to_it() {
    let spans = made(&joined());
    for queue in named(&spans, "queue") {
        assert_eq!(amount(queue, "warploom.wait_ns"), queue.end - queue.start);
        assert_eq!(amount(queue, "warploom.wait.priority_ns"), 70_000);
        assert_eq!(amount(queue, "warploom.wait.bus_ns"), 30_000);
    }
    assert_eq!(amount(&spans[0], "warploom.wait_ns"), 200_000);
    assert_eq!(amount(&spans[0], "warploom.target_ns"), 500);
}

#[test]
fn a_part_of_a_standing_grant_waited_for_its_program_before_its_ops_came() {
    let mut one = joined();
    let part = Rc::make_mut(&mut one.parts[0]);
    part.kind = GrantKind::Standing;
    part.timing.waited_ns = 20_000;
    part.timing.waits = vec![Wait {
        cause: Cause::Device,
        of: None,
        ns: 20_000,
    }];
    let spans = made(&one);
    let queue = named(&spans, "queue")[0];
    assert_eq!(amount(queue, "warploom.wait_ns"), 100_000);
    assert_eq!(amount(queue, "warploom.wait.device_ns"), 20_000);
    assert_eq!(amount(queue, "warploom.wait.program_ns"), 80_000);
}

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
fn errors_that_did_not_end_a_request_are_told_by_events_within_it() {
    const US: u64 = 1_000;
    let mut one = joined();
    let met = |at: u64, count, code, words: &str| Met {
        at: at * US,
        count,
        code,
        words: words.into(),
    };
    one.request.errors = vec![
        met(900, 1, Code::BadModule, "no PTX"),
        met(1_300, 3, Code::Quota, ""),
    ];
    let spans = made(&one);
    assert_eq!(amount(&spans[0], "warploom.errors"), 4);
    assert_eq!(attribute(&spans[0], "error.type"), None);
    assert_eq!(spans[0].error, None, "the request did not fail");
    let told = |spans: &[FinishedSpan]| -> Vec<_> {
        let events = spans[0].events.iter();
        let told = events.map(|it| {
            (
                it.at,
                it.attributes[0].1.clone(),
                it.attributes[1].1.clone(),
            )
        });
        told.collect()
    };
    let event = |at: u64, code: Code, words: &str| {
        let [code, words] = [code.name(), words].map(|it| Attribute::Text(it.to_owned()));
        (at * US, code, words)
    };
    let wanted = [
        event(1_000, Code::BadModule, "no PTX"),
        event(1_300, Code::Quota, Code::Quota.meaning()),
    ];
    assert_eq!(told(&spans), wanted);
    // The error that ends it comes last.
    one.request.report.error = Some(Code::Trap);
    one.request.failure = Some("it fell".into());
    let last = told(&made(&one)).pop();
    assert_eq!(last, Some(event(2_000, Code::Trap, "it fell")));
    one.request.errors.clear();
    assert_eq!(attribute(&made(&one)[0], "warploom.errors"), None);
}

#[test]
fn a_parent_and_an_error_are_told() {
    let mut one = joined();
    let parent = TraceContext {
        trace: TraceId([5; 16]),
        span: SpanId([6; 8]),
        sampled: true,
    };
    one.request.report.parent = Some(parent);
    one.request.report.error = Some(Code::BadAddress);
    one.is_whole = false;
    let spans = made(&one);
    let root = &spans[0];
    assert!(spans.iter().all(|span| span.trace == parent.trace));
    assert_eq!((root.parent, root.is_remote), (Some(parent.span), true));
    let code = Code::BadAddress.name();
    assert_eq!(
        attribute(root, "error.type"),
        Some(&Attribute::Text(code.into()))
    );
    assert_eq!(root.error.as_ref().map(|(code, _)| *code), Some(code));
    assert_eq!(
        attribute(root, "warploom.incomplete"),
        Some(&Attribute::Flag(true))
    );
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

/// Checks that names of spans, events and attributes are of the table, and are on the spans that it names. Checks that
/// spans have the service and the kind that it names.
fn check_names(spans: &[FinishedSpan]) {
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

#[test]
fn the_messages_at_both_ends_are_of_their_kind_and_name_their_destination() {
    let spans = made(&joined());
    check_names(&spans);
    for (name, kind, told) in [
        (
            "submit",
            SpanKind::Producer,
            ["publish", "send", "wl.v1.lab.t.*.up.l.intent.*"],
        ),
        (
            "answer",
            SpanKind::Consumer,
            ["receive", "receive", "wl.v1.lab.t.*.dn.*.*"],
        ),
    ] {
        let span = named(&spans, name)[0];
        assert_eq!((span.role, span.kind), (Role::Client, kind));
        let keys = [
            names::MESSAGING_OPERATION,
            names::MESSAGING_TYPE,
            names::MESSAGING_DESTINATION,
        ];
        for (key, value) in keys.into_iter().zip(told) {
            let value = Attribute::Text(value.into());
            assert_eq!(attribute(span, key), Some(&value), "{key} of {name}");
        }
    }
}

#[test]
fn a_fault_is_told_with_all_that_is_known_of_it_and_every_name_is_of_the_table() {
    let mut joined = joined();
    joined.request.report.error = Some(Code::IllegalAddress);
    let source = SourceLine::new("saxpy.cu", 12);
    let fault = KernelFault::new(
        FaultKind::IllegalAddress,
        "saxpy",
        34,
        ([1, 0, 0], [5, 0, 0]),
    );
    let access = FaultAccess {
        write: false,
        bytes: 4,
    };
    let fault = fault
        .at(source)
        .of(Some(access), Some(0x7f00))
        .because("4 bytes past the end");
    joined.request.failure = Some(fault.to_string().as_str().into());
    let spans = made(&joined);
    check_names(&spans);
    let root = &spans[0];
    for (name, value) in [
        (names::ERROR_TYPE, Code::IllegalAddress.name()),
        (names::CODE_FUNCTION, "saxpy"),
        (names::CODE_FILE, "saxpy.cu"),
        (names::FAULT_BLOCK, "1,0,0"),
        (names::FAULT_THREAD, "5,0,0"),
        (names::FAULT_ADDRESS, "0x7f00"),
    ] {
        assert_eq!(
            attribute(root, name),
            Some(&Attribute::Text(value.into())),
            "{name}"
        );
    }
    assert_eq!(
        (
            amount(root, names::CODE_LINE),
            amount(root, names::FAULT_PTX_LINE)
        ),
        (12, 34)
    );
    let [event] = &root.events[..] else {
        panic!("{:?}", root.events);
    };
    let told = (
        Cow::Borrowed(names::EXCEPTION_MESSAGE),
        Attribute::Text(fault.to_string()),
    );
    assert!(
        event.name == "exception" && event.attributes.contains(&told),
        "{event:?}"
    );
    // An error of another kind has words only, and one without a detail those of its code.
    joined.request.failure = Some("the worker is gone".into());
    let spans = made(&joined);
    let status = spans[0].error.as_ref().map(|(_, words)| words.as_str());
    assert_eq!(status, Some("the worker is gone"));
    assert_eq!(attribute(&spans[0], names::CODE_FUNCTION), None);
    joined.request.failure = None;
    let words = Code::IllegalAddress.meaning().to_owned();
    assert_eq!(
        made(&joined)[0].error,
        Some((Code::IllegalAddress.name(), words))
    );
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
