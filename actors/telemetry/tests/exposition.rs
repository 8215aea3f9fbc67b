//! Metrics in Prometheus's format over HTTP, for every role.

mod measured;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use measured::measures;
use telemetry::catalogue::{Kind, METRICS};
use telemetry::{
    METRICS_TYPE, MetricsServer, OPENMETRICS_TYPE, Role, Telemetry, TelemetrySettings,
};
use test_cluster::Receiver;

const ROLES: [Role; 5] = [
    Role::Client,
    Role::Leader,
    Role::Worker,
    Role::Controller,
    Role::Tracer,
];

fn scraped(role: Role) -> TelemetrySettings {
    TelemetrySettings {
        page: true,
        nvidia_names: true,
        ..TelemetrySettings::off(role, "test")
    }
}

fn served(settings: &TelemetrySettings) -> (Telemetry, MetricsServer) {
    let telemetry = Telemetry::start(settings).expect("the settings are good");
    measures(settings.role, &telemetry);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = MetricsServer::start(telemetry.clone(), any).expect("a port");
    (telemetry, server)
}

/// Sends a request verbatim, and reads the whole answer.
fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a time");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    answer
}

fn get(at: SocketAddr, method: &str, path: &str, host: &str) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    ask(at, &head)
}

/// Kinds of the metrics on a page, by name.
fn kinds(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds = lines.filter_map(|line| line.split_once(' '));
    kinds.collect()
}

#[test]
fn every_metric_of_the_table_is_on_the_page_of_its_role_and_no_other_is() {
    for role in ROLES {
        let (_telemetry, server) = served(&scraped(role));
        let answer = get(server.address(), "GET", "/metrics", "localhost");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains(METRICS_TYPE), "{head}");
        let of_role = METRICS.iter().filter(|it| it.roles.contains(&role));
        let mut expected: BTreeMap<_, _> = of_role
            .map(|metric| (metric.prometheus(), metric.kind.name()))
            .collect();
        expected.insert("target_info".into(), "gauge");
        let found = kinds(page);
        let found: BTreeMap<_, _> = found.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        assert_eq!(found, expected, "{role}");
        for metric in METRICS.iter().filter(|it| it.roles.contains(&role)) {
            let name = metric.prometheus();
            let help = format!("# HELP {name} {}\n", metric.help);
            assert!(page.contains(&help), "{help}: {page}");
            let series = match metric.kind {
                Kind::Histogram => format!("{name}_count{{"),
                Kind::Counter | Kind::Gauge | Kind::UpDownCounter => format!("{name}{{"),
            };
            let line = page.lines().find(|line| line.starts_with(&series));
            let line = line.unwrap_or_else(|| panic!("{series}: {page}"));
            let labels: BTreeSet<_> = metric
                .labels
                .iter()
                .map(|label| metric.prometheus_label(label))
                .chain(["warploom_cluster".to_owned()])
                .collect();
            let told = line
                .split(['{', ','])
                .filter_map(|part| part.split_once("=\""));
            let told: BTreeSet<_> = told.map(|(label, _)| label.to_owned()).collect();
            assert_eq!(told, labels, "{line}");
        }
    }
}

#[test]
fn a_reader_that_prefers_openmetrics_gets_it_with_exemplars() {
    let (_telemetry, server) = served(&scraped(Role::Tracer));
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
    let answer = ask(server.address(), head);
    assert!(answer.contains(OPENMETRICS_TYPE), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let (trace, span) = ("01".repeat(16), "02".repeat(8));
    let exemplar = format!(
        "le=\"0.005\"}} 1 # {{trace_id=\"{trace}\",span_id=\"{span}\"}} 0.004 1764500000.250\n"
    );
    assert!(answer.contains(&exemplar), "{answer}");
    assert_eq!(
        answer.matches(" # {").count(),
        1,
        "only its own bucket has it"
    );
    let counter = "# TYPE warploom_requests_untraced counter\n";
    assert!(answer.contains(counter), "{answer}");
    for (reason, requests) in [("unknown", 2), ("client", 0)] {
        let labels = format!("warploom_reason=\"{reason}\",warploom_cluster=\"test\"");
        let total = format!("warploom_requests_untraced_total{{{labels}}} {requests}\n");
        assert!(answer.contains(&total), "{answer}");
    }
}

#[test]
fn a_tenants_page_has_its_own_series_and_nothing_of_others() {
    let telemetry = Telemetry::start(&scraped(Role::Worker)).expect("the settings are good");
    measures(Role::Worker, &telemetry);
    let of = |name: &str| telemetry.exposition_of(&name.parse().expect("a name"));
    let page = of("chat").expect("there is a page");
    let mut series = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .peekable();
    assert!(series.peek().is_some());
    assert!(
        series.all(|line| line.contains("warploom_tenant=\"chat\"")),
        "{page}"
    );
    assert_eq!(of("cha").as_deref(), Some(""));
}

#[test]
fn a_collector_and_prometheus_read_the_same_instruments() {
    let receiver = Receiver::start(0, None);
    let mut settings =
        TelemetrySettings::from_environment(Role::Worker, "test", &receiver.endpoint());
    settings.page = true;
    let (telemetry, server) = served(&settings);
    let answer = get(server.address(), "GET", "/metrics", "127.0.0.1:1");
    let told = "warploom_launches_total{warploom_gpu=\"1\",warploom_tenant=\"chat\",warploom_cluster=\"test\"} 5\n";
    assert!(answer.contains(told), "{answer}");
    assert!(!answer.contains("DCGM_"), "they were not asked for");
    drop((server, telemetry));
    let received = receiver.received();
    let launches = received
        .iter()
        .find(|line| line["name"] == "warploom.launches");
    assert_eq!(launches.expect("it was posted")["value"], 5);
}

#[test]
fn what_is_no_question_for_metrics_is_refused_and_leaves_them_readable() {
    let (_telemetry, server) = served(&scraped(Role::Worker));
    let at = server.address();
    for (method, path, host, status) in [
        ("GET", "/", "localhost", 404),
        ("GET", "/metrics/..", "localhost", 404),
        ("POST", "/metrics", "localhost", 405),
        ("GET", "/metrics", "evil.example", 403),
        ("GET", "/metrics", "", 403),
        ("GET", "/metrics?name=x", "[::1]:9", 200),
        ("HEAD", "/metrics", "localhost", 200),
    ] {
        let answer = get(at, method, path, host);
        let expected = format!("HTTP/1.1 {status} ");
        assert!(
            answer.starts_with(&expected),
            "{method} {path} {host}: {answer}"
        );
    }
    for noise in ["\r\n\r\n\r\n", "GET\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n"] {
        assert!(!ask(at, noise).starts_with("HTTP/1.1 200 "), "{noise:?}");
    }
    let long = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n",
        "x".repeat(1 << 16)
    );
    let mut stream = TcpStream::connect(at).expect("it listens");
    // The connection may be closed before all of it is sent.
    let _ = stream.write_all(long.as_bytes());
    let _ = stream.read_to_string(&mut String::new());
    assert!(get(at, "GET", "/metrics", "localhost").contains("warploom_launches_total"));
}

/// Sends requests without reading answers, until the server takes no more.
fn stuffed(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let moment = Some(Duration::from_millis(500));
    stream.set_write_timeout(moment).expect("a time");
    let many = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    while stream.write_all(many.as_bytes()).is_ok() {}
    stream
}

#[test]
fn connections_that_say_nothing_or_read_nothing_keep_nobody_out() {
    let (_telemetry, server) = served(&scraped(Role::Worker));
    let at = server.address();
    // More connections than one address may have.
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(at)).collect();
    assert!(silent.iter().all(Result::is_ok));
    let answer = get(at, "GET", "/metrics", "localhost");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let threads: Vec<_> = (0..20)
        .map(|_| std::thread::spawn(move || stuffed(at)))
        .collect();
    let deaf: Vec<_> = threads.into_iter().map(|it| it.join()).collect();
    let answer = get(at, "GET", "/metrics", "localhost");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop((silent, deaf));
}

#[test]
fn metrics_are_on_no_page_unless_it_is_asked_for() {
    assert_eq!(Telemetry::off().exposition(), None);
    let settings = TelemetrySettings {
        page: false,
        ..scraped(Role::Worker)
    };
    assert!(settings.is_off());
    let telemetry = Telemetry::start(&settings).expect("the settings are good");
    assert_eq!(telemetry.exposition(), None);
}
