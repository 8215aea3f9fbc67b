//! Tests of the device model. Gaps are 2 and, with a timing event, 4; a start takes 10.

use super::*;

const RATES: Rates = Rates {
    gap: 2,
    timed_gap: 4,
    start: 10,
    inwards: 50.0,
    outwards: 50.0,
    both: 80.0,
    within: 1_000.0,
};

/// A device of 100 multiprocessors with these streams, and the order in which effects ended.
struct Bench {
    device: Timeline<&'static str>,
    ended: Vec<&'static str>,
    ends: Vec<Nanos>,
}

impl Bench {
    fn new(priorities: &[i32]) -> Self {
        let mut device = Timeline::new(RATES, 100);
        for (id, priority) in (1..).zip(priorities) {
            device.add_stream(id, *priority);
        }
        Self {
            device,
            ended: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn push(&mut self, stream: u64, ready: Nanos, work: Work, effect: &'static str) {
        self.device.push(stream, ready, work, Some(effect));
    }

    fn kernel(&mut self, stream: u64, ready: Nanos, (ns, sms): (Nanos, u64), name: &'static str) {
        self.push(stream, ready, Work::Kernel { ns, sms }, name);
    }

    /// Runs out; the names of ended items in order.
    fn runs(&mut self, stream: Option<u64>) -> Nanos {
        let ended = &mut self.ended;
        self.device.run_out(stream, &mut |name| {
            ended.push(name);
            Ok(())
        })
    }

    fn advance(&mut self, to: Nanos) {
        let (ended, ends) = (&mut self.ended, &mut self.ends);
        self.device.advance(to, &mut |name| {
            ended.push(name);
            ends.push(to);
            Ok(())
        });
    }
}

#[test]
fn kernels_of_a_stream_follow_one_another_with_a_gap() {
    let mut bench = Bench::new(&[0]);
    bench.kernel(1, 0, (100, 100), "a");
    bench.kernel(1, 5, (100, 100), "b");
    assert_eq!(bench.runs(Some(1)), 10 + 100 + 2 + 100);
    assert_eq!(bench.ended, ["a", "b"]);
    bench.kernel(1, 1_000, (100, 100), "c");
    assert_eq!(bench.runs(Some(1)), 1_110, "an idle device starts anew");
}

#[test]
fn a_timing_event_makes_the_gap_larger() {
    let mut bench = Bench::new(&[0]);
    bench.device.add_event(7, true);
    bench.kernel(1, 0, (100, 1), "a");
    bench.device.record(1, 7, 0);
    bench.kernel(1, 0, (100, 1), "b");
    assert_eq!(bench.runs(None), 10 + 100 + 4 + 100);
    assert_eq!(bench.device.marks().passed(7, 1), Some(110));
}

#[test]
fn kernels_of_two_streams_run_side_by_side_where_they_fit() {
    let mut bench = Bench::new(&[0, 0, 0]);
    bench.kernel(1, 0, (100, 60), "a");
    bench.kernel(2, 1, (100, 40), "b");
    bench.kernel(3, 2, (10, 1), "c");
    assert_eq!(bench.runs(Some(2)), 111);
    assert_eq!(bench.runs(Some(3)), 120, "no room was left");
    assert_eq!(bench.ended, ["a", "b", "c"]);
}

#[test]
fn the_most_urgent_of_those_that_wait_goes_first_and_none_overtakes_it() {
    let mut bench = Bench::new(&[0, 0, -5, 0]);
    bench.kernel(1, 0, (100, 70), "runs");
    bench.kernel(2, 1, (100, 40), "waits");
    bench.kernel(3, 50, (100, 80), "urgent");
    bench.kernel(4, 2, (10, 30), "small");
    bench.runs(None);
    assert_eq!(bench.ended, ["runs", "urgent", "small", "waits"]);
}

#[test]
fn copies_both_ways_share_the_way_and_those_of_one_way_wait() {
    let copy = |engine| Work::Copy {
        engine,
        bytes: 50_000,
    };
    let mut bench = Bench::new(&[0, 0, 0]);
    bench.push(1, 0, copy(Engine::Inwards), "in");
    assert_eq!(bench.runs(None), 10 + EMPTY + 1_000);
    let at = 10_000;
    bench.push(1, at, copy(Engine::Inwards), "in");
    bench.push(2, at + 1, copy(Engine::Outwards), "out");
    bench.push(3, at + 2, copy(Engine::Inwards), "in behind");
    assert_eq!(bench.runs(Some(2)), at + 11 + EMPTY + 1_250);
    let behind = at + 10 + 2 * EMPTY + 1_000 + 1_250;
    assert_eq!(bench.runs(Some(3)), behind);
}

#[test]
fn a_stream_waits_for_the_record_that_it_was_told_of() {
    let mut bench = Bench::new(&[0, 0]);
    bench.device.add_event(7, false);
    bench.kernel(1, 0, (100, 1), "before");
    bench.device.record(1, 7, 0);
    let record = bench.device.marks().last(7);
    bench.device.record(1, 7, 0);
    let wait = Work::Wait { event: 7, record };
    bench.push(2, 0, wait, "the wait");
    bench.kernel(2, 0, (5, 1), "after");
    assert_eq!(bench.runs(Some(2)), 115);
    assert_eq!(bench.ended, ["before", "after"]);
}

#[test]
fn time_is_only_seen_up_to_where_it_went() {
    let mut bench = Bench::new(&[0, 0]);
    bench.kernel(1, 0, (100, 1), "a");
    bench.advance(109);
    assert!(bench.ended.is_empty() && bench.device.is_busy(Some(1)));
    assert_eq!(bench.device.busy_beside(Some(1), 109), 0);
    assert_eq!(bench.device.busy_beside(Some(2), 109), 1);
    bench.advance(110);
    assert_eq!(
        (&bench.ended[..], &bench.ends[..]),
        (&["a"][..], &[110][..])
    );
    assert!(!bench.device.is_busy(None));
}

#[test]
fn a_fault_ends_all_work() {
    let mut bench = Bench::new(&[0, 0]);
    bench.kernel(1, 0, (10, 60), "faults");
    bench.kernel(2, 0, (100, 60), "never ends");
    bench.device.advance(50, &mut |_| Err(700));
    assert_eq!(bench.device.failed(), Some(700));
    assert!(!bench.device.is_busy(None));
    assert_eq!(bench.device.free_sms, 100);
}

#[test]
fn a_destroyed_stream_goes_after_its_work() {
    let mut bench = Bench::new(&[0]);
    bench.kernel(1, 0, (10, 1), "a");
    bench.device.remove_stream(1);
    assert!(bench.device.is_busy(None));
    bench.runs(None);
    assert_eq!(
        (&bench.ended[..], bench.device.streams.len()),
        (&["a"][..], 0)
    );
}

#[test]
fn work_that_another_thread_brings_late_runs_when_it_would_have_run() {
    let mut bench = Bench::new(&[0, 0, 0]);
    bench.kernel(1, 0, (1_000, 60), "long");
    assert_eq!(bench.runs(None), 1_010, "one thread waits");
    bench.device.add_event(7, false);
    // Another thread is at 100, when the long kernel runs.
    bench.kernel(2, 100, (50, 40), "beside");
    bench.device.record(2, 7, 101);
    bench.kernel(3, 102, (50, 41), "behind");
    assert_eq!(bench.device.busy_beside(None, 100), 3);
    assert_eq!(bench.runs(Some(2)), 160);
    assert_eq!(bench.device.marks().passed(7, 1), Some(160));
    assert_eq!(bench.runs(Some(3)), 1_060);
    assert_eq!(bench.runs(None), 1_060);
    assert_eq!(bench.device.free_sms, 100);
}
