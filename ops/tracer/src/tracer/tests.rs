use telemetry::{Role, Telemetry, TelemetrySettings};

use super::*;
use crate::join::tests::{position, request};

fn tracer(share: f64, exports: bool) -> Tracer<u64> {
    let subjects = Subjects::new(&"test".parse().expect("a name"));
    let mut tracer = Tracer::new(&subjects, Sampling::new(share, true), exports, 0);
    tracer.begins(0);
    tracer.is_read(0);
    tracer
}

/// The page of metrics, without comments.
fn page(telemetry: &Telemetry, name: &str) -> Vec<String> {
    let page = telemetry.exposition().expect("it is enabled");
    let lines = page.lines().filter(|line| line.starts_with(name));
    lines.map(str::to_owned).collect()
}

/// The numbers of requests that are not traced, by reason, without zeros.
fn untraced(telemetry: &Telemetry) -> Vec<(String, u64)> {
    let number = |line: String| {
        let (labels, number) = line.rsplit_once(' ')?;
        let (_, reason) = labels.split_once("warploom_reason=\"")?;
        let (reason, _) = reason.split_once('"')?;
        let number: f64 = number.parse().ok()?;
        (number > 0.0).then(|| (reason.to_owned(), number as u64))
    };
    let lines = page(telemetry, "warploom_requests_untraced_total");
    lines.into_iter().filter_map(number).collect()
}

fn measured() -> Telemetry {
    let settings = TelemetrySettings {
        page: true,
        ..TelemetrySettings::off(Role::Tracer, "test")
    };
    Telemetry::start(&settings).expect("the settings are good")
}

/// Time at which requests with kernels of unknown names go.
const LATER: u64 = 10 * NAMES;

#[test]
fn every_request_is_measured_and_those_that_are_kept_are_exported_once() {
    for (share, exports, sent) in [(1.0, true, 1), (0.0, true, 0), (1.0, false, 0)] {
        let (telemetry, mut tracer) = (measured(), tracer(share, exports));
        let meters = telemetry.meters().tracer();
        assert_eq!(tracer.take(request("chat", 1, (1, 4)), 0, 7), None);
        tracer.position(&position("chat", 1, (1, 4), 1_100), meters);
        let dropped = tracer.look(LATER, meters).dropped;
        let later = tracer.look(2 * LATER, meters).dropped;
        let (spans, marks) = tracer.batch();
        assert_eq!(dropped.len() + later.len() + marks.len(), 1, "one mark");
        assert_eq!(marks.len(), sent);
        assert_eq!(spans.is_empty(), sent == 0);
        assert!(tracer.batch().1.is_empty());
        let count = page(&telemetry, "warploom_request_duration_seconds_count");
        assert!(count[0].ends_with(" 1"), "{count:?}");
        let waits = page(&telemetry, "warploom_wait_seconds_total");
        let labels = "{warploom_by=\"other\",warploom_cause=\"priority\",warploom_tenant=\"chat\"";
        assert!(
            waits[0].contains(labels) && waits[0].ends_with(" 0.0000001"),
            "{waits:?}"
        );
        let open = telemetry.openmetrics().expect("it is enabled");
        let trace = spans.first().map(|span| span.trace.to_string());
        let exemplars: Vec<_> = open
            .lines()
            .filter(|it| it.contains(" # {trace_id="))
            .collect();
        assert_eq!(exemplars.len(), sent, "{open}");
        assert!(
            exemplars
                .iter()
                .all(|it| trace.as_ref().is_some_and(|id| it.contains(id)))
        );
    }
}

#[test]
fn a_report_of_what_the_record_does_not_have_is_counted_and_measures_nothing() {
    let (telemetry, mut tracer) = (measured(), tracer(1.0, true));
    let meters = telemetry.meters().tracer();
    assert_eq!(tracer.take(request("chat", 1, (1, 4)), 0, 7), None);
    assert_eq!(tracer.look(1_000_000_000_000, meters).dropped, [7]);
    // Nor does it have this one, and its session is another tenant's.
    tracer.position(&position("chat", 2, (1, 4), 1_100), meters);
    let foreign = tracer.take(request("mallory", 2, (1, 4)), 0, 8);
    assert_eq!(foreign, Some((8, Some(Untraced::Unknown))));
    assert_eq!(untraced(&telemetry), [("unknown".to_owned(), 1)]);
    tracer.note_untold(Untraced::Client, 3, meters);
    tracer.note_untold(Untraced::Client, u64::MAX - 10, meters);
    let told = untraced(&telemetry);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(page(&telemetry, "warploom_request_duration_seconds_count").is_empty());
}

#[test]
fn a_tenant_that_crowds_the_others_out_gets_no_more_than_its_share() {
    let (telemetry, mut tracer) = (measured(), tracer(1.0, true));
    let mut take =
        |tenant: &str, session: u64| tracer.take(request(tenant, session, (1, 4)), 0, session);
    for session in 0..CROWDED as u64 - 1 {
        assert_eq!(take("flood", session), None);
    }
    assert_eq!(take("chat", 1 << 20), None);
    let crowded = Some((1 << 21, Some(Untraced::Crowded)));
    assert_eq!(take("flood", 1 << 21), crowded);
    assert_eq!(take("chat", 1 << 22), None);
    assert!(!tracer.is_full());
    drop(telemetry);
}

#[test]
fn a_tenant_does_not_fill_the_log_with_failed_requests() {
    let (telemetry, mut tracer) = (measured(), tracer(0.0, true));
    let meters = telemetry.meters().tracer();
    let mut fail = |session: u64, now: u64| {
        let mut failed = request("chat", session, (1, 4));
        failed.report.error = Some(bus_schemas::Code::Trap);
        failed.failure = Some("a text of the program".into());
        assert_eq!(tracer.take(failed, 0, session), None);
        tracer.position(&position("chat", session, (1, 4), 1_100), meters);
        tracer.look(now, meters).failed.len()
    };
    let logged: usize = (1..100).map(|session| fail(session, LATER)).sum();
    assert_eq!(logged, LOGGED as usize);
    assert_eq!(fail(100, LATER + 1_000_000_000), 1);
}
