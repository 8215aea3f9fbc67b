mod made;
mod slices;

use std::rc::Rc;

use bus_schemas::{
    Code, FaultAccess, FaultKind, GrantKind, KernelFault, SourceLine, SpanId, TraceContext,
};
use scheduler_leader_core::why::Wait;

use super::*;
use crate::parts::Met;
use made::{amount, attribute, check_names, joined, made, named};

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
