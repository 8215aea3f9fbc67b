use bus_schemas::{ModuleHash, ShortText, SpanId, TraceId, decode};

use super::*;

const FREE: Op = Op::Free { address: 0 };
const OUT: Op = Op::CopyOut {
    address: 0,
    bytes: 1,
};
const ZERO: u64 = 1_000_000;

fn span(n: u8) -> TraceContext {
    TraceContext {
        trace: TraceId([n; 16]),
        span: SpanId([n; 8]),
        sampled: true,
    }
}

fn caller(thread: u32) -> Caller {
    Caller {
        thread,
        parent: None,
    }
}

fn reported(requests: &mut Requests, now: Option<Nanos>) -> Option<RequestReports> {
    let process = ClientProcess {
        host: ShortText::new("host"),
        pid: 1,
        name: ShortText::new("name"),
    };
    let bytes = requests.report(now, ZERO, SessionId(7), process)?;
    Some(decode(&bytes).expect("it is read"))
}

#[test]
fn a_request_ends_with_its_answer_and_pieces_of_a_copy_are_one() {
    let mut requests = Requests::default();
    let ops = [FREE, FREE, Op::Sync, FREE, OUT, OUT, OUT, FREE];
    for (number, op) in (1..).zip(&ops) {
        requests.pushed(op, number, caller(1), || 10 * number);
    }
    requests.answered(2, 100);
    assert_eq!(requests.next_wakeup(), None);
    requests.answered(3, 110);
    requests.answered(6, 120);
    requests.answered(7, 130);
    assert_eq!(reported(&mut requests, Some(130)), None);
    let report = reported(&mut requests, Some(110 + LINGER)).expect("due");
    let rows: Vec<_> = report.rows.iter().map(|it| (it.first, it.last)).collect();
    assert_eq!(rows, [(1, 3), (4, 7)]);
    let times = |it: &RequestReport| (it.began - ZERO, it.waited - ZERO, it.ended - ZERO);
    let times: Vec<_> = report.rows.iter().map(times).collect();
    assert_eq!(times, [(10, 30, 110), (40, 50, 130)]);
    assert!(report.runs.is_empty());
    assert_eq!(requests.next_wakeup(), None);
}

#[test]
fn a_wait_for_ops_that_are_known_to_be_done_ends_a_request_too() {
    let mut requests = Requests::default();
    requests.pushed(&FREE, 1, caller(1), || 10);
    requests.pushed(&FREE, 2, caller(2), || 11);
    requests.settled(1, 0, 20);
    assert_eq!(requests.next_wakeup(), None, "it waited for an earlier op");
    requests.settled(1, 2, 30);
    requests.pushed(&Op::Sync, 3, caller(1), || 40);
    requests.answered(3, 50);
    let report = reported(&mut requests, None).expect("asked for");
    let rows = report.rows.iter();
    let rows: Vec<_> = rows
        .map(|it| (it.first, it.last, it.ended - ZERO))
        .collect();
    assert_eq!(rows, [(1, 1, 30), (3, 3, 50)]);
}

#[test]
fn loads_of_modules_are_told_with_their_request() {
    let load = Op::LoadModule {
        slot: 1,
        hash: ModuleHash([7; 32]),
    };
    let mut requests = Requests::default();
    let ops = [load, load, FREE, load, Op::Sync, FREE, Op::Sync];
    for (number, op) in (1..).zip(&ops) {
        requests.pushed(op, number, caller(1), || number);
    }
    requests.answered(7, 9);
    let report = reported(&mut requests, None).expect("asked for");
    let loads = |index| report.loads_of(index).collect::<Vec<_>>();
    assert_eq!((loads(0), loads(1)), (vec![(1, 2), (4, 4)], vec![]));
}

#[test]
fn a_request_that_begins_with_a_load_has_the_time_in_which_its_module_was_given() {
    let load = Op::LoadModule {
        slot: 1,
        hash: ModuleHash([7; 32]),
    };
    let mut requests = Requests::default();
    requests.pushed(&load, 1, caller(1), || 20);
    requests.loaded(1, 1, 12);
    requests.pushed(&load, 2, caller(1), || 30);
    requests.loaded(1, 2, 25);
    requests.pushed(&Op::Sync, 3, caller(1), || 40);
    requests.answered(3, 50);
    requests.pushed(&FREE, 4, caller(1), || 60);
    requests.loaded(2, 4, 55);
    requests.settled(1, 4, 70);
    let report = reported(&mut requests, None).expect("asked for");
    let began: Vec<_> = report.rows.iter().map(|it| it.began - ZERO).collect();
    assert_eq!(
        began,
        [12, 60],
        "only the first op counts, and only of its thread"
    );
}

#[test]
fn failed_calls_are_told_with_the_request_under_way_or_the_next_one() {
    let (full, bad) = (
        Failure::new(Code::Quota, "full"),
        Failure::new(Code::BadModule, "no PTX"),
    );
    let mut requests = Requests::default();
    // Thread 1 has no request yet, and thread 2 has none after this.
    requests.call_failed(1, &bad, 1);
    requests.call_failed(2, &full, 2);
    requests.pushed(&FREE, 1, caller(1), || 10);
    requests.call_failed(1, &full, 11);
    requests.call_failed(1, &full, 12);
    requests.pushed(&Op::Sync, 2, caller(1), || 20);
    // While it waits, it has none under way.
    requests.call_failed(1, &bad, 25);
    requests.answered(2, 30);
    requests.pushed(&Op::Sync, 3, caller(1), || 40);
    requests.answered(3, 50);
    requests.pushed(&Op::Sync, 4, caller(1), || 60);
    requests.answered(4, 70);
    let report = reported(&mut requests, None).expect("asked for");
    assert!(report.rows.iter().all(|row| row.error.is_none()));
    let told = report.errors_in_words().map(|(error, words)| {
        let at = error.at - ZERO;
        (error.report, at, error.count, error.code, words)
    });
    let wanted = [
        (0, 1, 1, Code::BadModule, "no PTX"),
        (0, 11, 2, Code::Quota, "full"),
        (1, 25, 1, Code::BadModule, "no PTX"),
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
    // The end of the session ends the request of thread 2.
    requests.pushed(&FREE, 5, caller(2), || 80);
    requests.over(None, 90);
    let report = reported(&mut requests, None).expect("asked for");
    let errors = report.errors.iter().map(|it| (it.at - ZERO, it.code));
    assert_eq!(errors.collect::<Vec<_>>(), [(2, Code::Quota)]);
}

#[test]
fn errors_without_room_come_with_the_next_report() {
    let mut requests = Requests::default();
    for number in 1..=limits::REQUESTS as u64 {
        for call in 0..limits::CALL_ERRORS {
            let words = format!("{call} ").repeat(limits::CALL_ERROR_BYTES);
            requests.call_failed(1, &Failure::new(Code::Quota, words), 1);
        }
        requests.pushed(&Op::Sync, number, caller(1), || 5);
        requests.answered(number, 6);
    }
    let (mut rows, mut errors) = (0, 0);
    while let Some(report) = reported(&mut requests, None) {
        let bytes = report.errors.len() * 24 + report.words.len();
        assert!(bytes <= limits::REQUEST_RUNS * 24, "{bytes}");
        assert!(encode(&report).len() < 72 << 10);
        rows += report.rows.len();
        errors += report.errors.len();
    }
    assert_eq!(rows, limits::REQUESTS);
    assert_eq!(errors, limits::REQUESTS * limits::CALL_ERRORS);
}

#[test]
fn threads_have_requests_of_their_own() {
    let mut requests = Requests::default();
    let ops = [
        (1, FREE),
        (2, FREE),
        (1, FREE),
        (2, Op::Sync),
        (1, Op::Sync),
    ];
    for (number, (thread, op)) in (1..).zip(&ops) {
        requests.pushed(op, number, caller(*thread), || 0);
    }
    requests.answered(4, 1);
    requests.answered(5, 2);
    let report = reported(&mut requests, None).expect("asked for");
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|it| (it.thread, it.first, it.last))
        .collect();
    assert_eq!(rows, [(2, 2, 4), (1, 1, 5)]);
    let runs = |index| report.runs_of(index).collect::<Vec<_>>();
    assert_eq!(runs(0), [(2, 2), (4, 4)]);
    assert_eq!(runs(1), [(1, 1), (3, 3), (5, 5)]);
}

#[test]
fn a_threads_parent_counts_before_the_sessions() {
    let mut requests = Requests::default();
    requests.set_parent(Some(span(1)));
    let with_own = Caller {
        parent: Some(span(2)),
        ..caller(2)
    };
    requests.pushed(&Op::Sync, 1, caller(1), || 0);
    requests.pushed(&Op::Sync, 2, with_own, || 0);
    requests.answered(2, 1);
    let report = reported(&mut requests, None).expect("asked for");
    let parents: Vec<_> = report.rows.iter().map(|it| it.parent).collect();
    assert_eq!(parents, [Some(span(1)), Some(span(2))]);
}

#[test]
fn an_error_ends_all_and_numbers_are_bounded_and_counted() {
    let mut requests = Requests::default();
    for thread in 1..=300 {
        requests.pushed(&FREE, u64::from(thread), caller(thread), || 0);
    }
    requests.over(Some(&Failure::new(Code::Device, "it is gone")), 9);
    let report = reported(&mut requests, None).expect("asked for");
    assert_eq!(report.failure, "it is gone");
    assert_eq!(
        (report.rows.len(), report.dropped),
        (limits::REQUESTS, 300 - 256)
    );
    let (early, rest) = report.rows.split_at(300 - THREADS);
    assert!(early.iter().all(|row| row.error.is_none()));
    let report = RequestReports {
        rows: rest.to_vec(),
        ..report
    };
    assert!(
        report
            .rows
            .iter()
            .all(|row| row.error == Some(Code::Device))
    );
    for number in 301..=301 + WAITED as u64 {
        requests.pushed(&Op::Sync, number, caller(number as u32), || 0);
    }
    requests.over(None, 10);
    let report = reported(&mut requests, None).expect("asked for");
    assert_eq!(report.failure, "", "none of them ended with an error");
    assert_eq!(report.rows.len(), limits::REQUESTS);
    assert_eq!(report.dropped, 300 - 256 + 1 + WAITED as u64 - 256);
}

#[test]
fn the_request_of_a_thread_that_never_waits_ends_with_the_waits_of_others() {
    let mut requests = Requests::default();
    let age = UNWAITED;
    // Thread 2 only launches, and thread 3 waits for itself, later.
    for number in [1, 2] {
        requests.pushed(&FREE, number, caller(2), || number * age);
    }
    requests.pushed(&Op::Sync, 3, caller(3), || age + 5);
    requests.answered(3, age + 9);
    requests.pushed(&FREE, 4, caller(3), || 2 * age);
    requests.pushed(&FREE, 5, caller(2), || 3 * age);
    requests.pushed(&Op::Sync, 6, caller(1), || 4 * age);
    requests.answered(6, 5 * age);
    requests.pushed(&FREE, 7, caller(2), || 6 * age);
    requests.pushed(&Op::Sync, 8, caller(3), || 7 * age);
    requests.answered(8, 8 * age);
    let report = reported(&mut requests, None).expect("asked for");
    let row = |it: &RequestReport| (it.thread, it.first, it.last, (it.ended - ZERO) / age);
    let rows: Vec<_> = report.rows.iter().map(row).collect();
    let expected = [
        (3, 3, 3, 1),
        (1, 6, 6, 5),
        (2, 1, 5, 5),
        (3, 4, 8, 8),
        (2, 7, 7, 8),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn runs_without_room_come_with_the_next_report() {
    let mut requests = Requests::default();
    let mut number = 0;
    let mut push = |requests: &mut Requests, thread, op: &Op| {
        number += 1;
        requests.pushed(op, number, caller(thread), || number);
        number
    };
    for _ in 0..20 {
        for _ in 0..2 * RUNS {
            push(&mut requests, 1, &FREE);
            push(&mut requests, 2, &FREE);
        }
        for thread in [1, 2] {
            let last = push(&mut requests, thread, &Op::Sync);
            requests.answered(last, last);
        }
    }
    let mut told = 0;
    while let Some(report) = reported(&mut requests, None) {
        assert!(report.runs.len() <= limits::REQUEST_RUNS);
        for (index, row) in report.rows.iter().enumerate() {
            let runs: Vec<_> = report.runs_of(index).collect();
            assert_eq!(runs.len(), RUNS);
            assert_eq!((runs[0].0, runs[RUNS - 1].1), (row.first, row.last));
            told += 1;
        }
    }
    assert_eq!(told, 40);
}

#[test]
fn a_report_is_no_larger_than_the_stream_takes() {
    let mut requests = Requests::default();
    let load = Op::LoadModule {
        slot: 0,
        hash: ModuleHash::of(b"image"),
    };
    let mut number = 0;
    for _ in 0..20 {
        for _ in 0..2 * RUNS {
            for (thread, op) in [(1, &load), (2, &FREE)] {
                number += 1;
                requests.pushed(op, number, caller(thread), || number);
            }
        }
        for thread in [1, 2] {
            number += 1;
            requests.pushed(&Op::Sync, number, caller(thread), || number);
            requests.answered(number, number);
        }
    }
    let (mut told, mut loads) = (0, 0);
    while let Some(report) = reported(&mut requests, None) {
        assert!(report.runs.len() + report.loads.len() <= limits::REQUEST_RUNS);
        told += report.rows.len();
        loads += report.loads.len();
    }
    assert_eq!(told, 40);
    assert!(loads >= 20, "{loads}");
}

#[test]
fn enough_requests_are_reported_at_once() {
    let mut requests = Requests::default();
    for number in 1..=ENOUGH as u64 {
        requests.pushed(&Op::Sync, number, caller(1), || 5);
        requests.answered(number, 6);
    }
    assert_eq!(requests.next_wakeup(), Some(0));
}
