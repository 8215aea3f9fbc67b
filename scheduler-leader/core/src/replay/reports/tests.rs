use bus_schemas::{
    Chain, CostClass, CostRun, KernelKey, LeaderId, SealedSession, WIRE_VERSION, Window,
};

use super::*;

const WORKER: Incarnation = Incarnation(7);
const SESSION: SessionId = SessionId(3);

fn tenant(_: SessionId) -> Option<Tenant> {
    "a".parse().ok()
}

fn report(position: GpuPosition, outcome: Outcome, measured: u64, received: u64) -> DoneReport {
    DoneReport {
        position,
        session: SESSION,
        measured,
        received,
        outcome,
        declared: 0,
    }
}

/// A position that has ended.
fn row(kind: GrantKind, first: OpNumber, last: OpNumber) -> ReplayedPosition {
    ReplayedPosition {
        gpu: 0,
        incarnation: WORKER,
        position: 1,
        global: 1,
        epoch: 1,
        input: 1,
        tenant: "a".parse().unwrap(),
        ordinal: 1,
        session: SESSION,
        kind,
        priority: 1,
        first,
        last,
        launches: None,
        work: Vec::new(),
        cost: 0,
        end: None,
        adopted: false,
        timing: None,
        chain: None,
    }
}

/// The seal of a worker that has made this many reports.
fn seal(reports: u64, position: GpuPosition, done: OpNumber) -> SealAnswer {
    let session = SealedSession {
        tenant: "a".parse().unwrap(),
        session: SESSION,
        ordinal: 1,
        window: Window { base: 0, size: 1 },
        quota: 0,
        nonce: 0,
        accepted: done,
        done,
        received: done,
        closing: false,
    };
    SealAnswer {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        gpu: 0,
        capacity: 0,
        position,
        chain: Chain::default(),
        global: 0,
        reports,
        sessions: vec![session],
        outstanding: Vec::new(),
        tail_epoch: 0,
        tail_recorded: 0,
        tail: Vec::new(),
        ordinals: Vec::new(),
        faults: Vec::new(),
        named: Vec::new(),
        forgotten: None,
    }
}

/// Intents in which every second op is a launch, up to this one.
fn announced(through: OpNumber) -> Launches {
    let run = |class| CostRun {
        class,
        key: KernelKey(1),
        bytes: 0,
        count: 1,
    };
    let pair = [run(CostClass::Copy), run(CostClass::Launch)];
    let runs: Vec<_> = pair.into_iter().cycle().take(through as usize).collect();
    let mut launches = Launches::default();
    launches.announce(SESSION, 1, &runs);
    launches
}

fn reports(recorded: u64) -> Reports {
    Reports::new(&BTreeMap::from([(WORKER, recorded)]))
}

/// The sums of the only tenant, and the number of unrecorded reports.
fn sums_of(reports: &Reports, launches: &Launches) -> (ReportedWork, u64) {
    let mut sums = reports.summed(launches, tenant);
    let mut sum = sums.remove(&WORKER).expect("it was asked about");
    let own = sum.tenants.remove(&tenant(SESSION));
    assert!(sum.tenants.is_empty(), "{sum:?}");
    (own.unwrap_or_default(), sum.unrecorded)
}

fn sums(device_ns: u64, launches: u64, unknown: u64) -> ReportedWork {
    ReportedWork {
        device_ns,
        launches,
        unknown,
    }
}

/// A slice, and parts of a standing grant that was never closed.
fn slice_and_parts(reports: &mut Reports) {
    reports.sealed(WORKER, &seal(0, 0, 0));
    let slice = report(1, Outcome::Ran, 50, 4);
    reports.report(WORKER, &slice, Some(&row(GrantKind::Run, 1, 4)));
    for (measured, received) in [(0, 4), (70, 10), (30, 13)] {
        reports.report(WORKER, &report(2, Outcome::Part, measured, received), None);
    }
}

#[test]
fn parts_of_a_grant_that_was_never_closed_count() {
    let expected = [
        (0, sums(150, 6, 0)),
        (1, sums(100, 4, 0)),
        (2, sums(100, 4, 0)),
        (3, sums(30, 1, 0)),
        (4, sums(0, 0, 0)),
        (9, sums(0, 0, 0)),
    ];
    for (recorded, expected) in expected {
        let mut reports = reports(recorded);
        slice_and_parts(&mut reports);
        assert_eq!(
            sums_of(&reports, &announced(20)),
            (expected, 0),
            "{recorded}"
        );
    }
    // The client died with the worker before it announced them.
    let mut reports = reports(2);
    slice_and_parts(&mut reports);
    assert_eq!(sums_of(&reports, &announced(11)), (sums(100, 3, 2), 0));
}

#[test]
fn the_end_of_a_standing_grant_tells_nothing_twice() {
    let mut reports = reports(0);
    slice_and_parts(&mut reports);
    // It continues at the next position before its last part is done.
    reports.report(WORKER, &report(2, Outcome::Closed, 5, 15), None);
    reports.report(WORKER, &report(4, Outcome::Part, 0, 13), None);
    reports.report(WORKER, &report(2, Outcome::Part, 9, 15), None);
    let end = row(GrantKind::Standing, 5, 15);
    reports.report(WORKER, &report(2, Outcome::Ran, 0, 15), Some(&end));
    reports.report(WORKER, &report(4, Outcome::Part, 1, 16), None);
    assert_eq!(sums_of(&reports, &announced(20)), (sums(160, 8, 0), 0));
}

#[test]
fn what_went_with_a_leader_is_counted_in_reports() {
    let mut reports = reports(2);
    slice_and_parts(&mut reports);
    // Three more were made and died with the leader; the part under way was closed by the seal.
    reports.sealed(WORKER, &seal(7, 2, 18));
    reports.report(WORKER, &report(2, Outcome::Part, 40, 20), None);
    assert_eq!(sums_of(&reports, &announced(20)), (sums(140, 5, 0), 3));
    // All of them are in the usage blocks.
    let mut recorded = self::reports(7);
    slice_and_parts(&mut recorded);
    recorded.sealed(WORKER, &seal(7, 2, 18));
    recorded.report(WORKER, &report(2, Outcome::Part, 40, 20), None);
    assert_eq!(sums_of(&recorded, &announced(20)), (sums(40, 1, 0), 0));
}

#[test]
fn what_failed_and_what_is_behind_it_did_not_run() {
    // A part that failed at op 16.
    let mut reports = reports(2);
    slice_and_parts(&mut reports);
    reports.report(WORKER, &report(2, Outcome::Part, 8, 13), None);
    reports.failed(SESSION, 16);
    assert_eq!(sums_of(&reports, &announced(20)), (sums(108, 5, 0), 0));
    // A slice that failed at op 16.
    let mut reports = self::reports(2);
    slice_and_parts(&mut reports);
    let slice = report(3, Outcome::Ran, 8, 20);
    reports.report(WORKER, &slice, Some(&row(GrantKind::Run, 14, 20)));
    reports.failed(SessionId(99), 1);
    reports.failed(SESSION, 16);
    assert_eq!(sums_of(&reports, &announced(20)), (sums(108, 5, 0), 0));
    // A slice that did not run.
    reports.report(WORKER, &report(4, Outcome::Void, 0, 20), None);
    assert_eq!(sums_of(&reports, &announced(20)), (sums(108, 5, 0), 0));
}

#[test]
fn others_are_not_asked_about() {
    let mut reports = reports(0);
    reports.sealed(Incarnation(8), &seal(0, 0, 0));
    reports.report(Incarnation(8), &report(1, Outcome::Part, 5, 5), None);
    assert_eq!(
        sums_of(&reports, &announced(20)),
        (ReportedWork::default(), 0)
    );
}
