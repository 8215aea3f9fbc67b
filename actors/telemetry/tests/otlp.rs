//! The exported telemetry, as an OTLP receiver decodes it with opentelemetry-proto.

mod measured;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus_schemas::{SpanId, TraceId};
use measured::measures;
use serde_json::{Value, json};
use telemetry::catalogue::METRICS;
use telemetry::catalogue::traces::SpanKind;
use telemetry::{
    Attribute, FinishedSpan, ResourceSettings, Role, SendError, SpanEvent, SpanExport, Telemetry,
    TelemetryError, TelemetrySettings,
};
use test_cluster::Receiver;
use test_cluster::TempDir;

fn start(role: Role, endpoint: &str) -> Telemetry {
    let settings = TelemetrySettings::from_environment(role, "test", endpoint);
    Telemetry::start(&settings).expect("the settings are good")
}

fn exporter(settings: &TelemetrySettings) -> Result<SpanExport, TelemetryError> {
    Ok(SpanExport::start(settings)?.expect("spans are on"))
}

fn span(role: Role, name: &str, id: u8) -> FinishedSpan {
    let number = |name: &'static str, value| (name.into(), Attribute::Number(value));
    FinishedSpan {
        role,
        kind: SpanKind::of(role),
        name: name.to_owned(),
        trace: TraceId([7; 16]),
        span: SpanId([id; 8]),
        parent: None,
        is_remote: false,
        start: 1_764_500_000_000_000_001,
        end: 1_764_500_000_003_000_001,
        attributes: vec![
            ("warploom.tenant".into(), Attribute::Text("chat".into())),
            number("warploom.gpu", 1),
            number("warploom.device_ns", u64::MAX),
            ("warploom.incomplete".into(), Attribute::Flag(true)),
        ],
        events: vec![SpanEvent {
            name: "kernel",
            at: 1_764_500_000_001_000_000,
            attributes: vec![number("warploom.launches", 3)],
        }],
        links: Vec::new(),
        error: None,
    }
}

fn of_kind<'a>(received: &'a [Value], kind: &str) -> Vec<&'a Value> {
    received
        .iter()
        .filter(|line| line["kind"] == kind)
        .collect()
}

fn named<'a>(received: &'a [Value], name: &str) -> &'a Value {
    let found = received.iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {received:#?}"))
}

#[test]
fn spans_of_all_roles_arrive_with_their_parents_times_and_attributes() {
    let receiver = Receiver::start(0, None);
    let settings = TelemetrySettings::from_environment(Role::Tracer, "test", &receiver.endpoint());
    let export = exporter(&settings).expect("the settings are good");
    let root = FinishedSpan {
        error: Some(("E-KERNEL-WATCHDOG", "too long".into())),
        ..span(Role::Client, "request", 1)
    };
    let child = FinishedSpan {
        parent: Some(root.span),
        ..span(Role::Worker, "gpu launch add", 2)
    };
    let message = |kind, name, id| FinishedSpan {
        kind,
        ..span(Role::Client, name, id)
    };
    let sent = message(SpanKind::Producer, "submit", 3);
    let heard = message(SpanKind::Consumer, "answer", 4);
    let spans = [root.clone(), child, sent, heard];
    export.send(&spans).expect("taken");

    let received = receiver.received();
    assert_eq!(of_kind(&received, "span").len(), 4, "{received:#?}");
    assert_eq!(named(&received, "submit")["span_kind"], "PRODUCER");
    assert_eq!(named(&received, "answer")["span_kind"], "CONSUMER");
    let (root, child) = (
        named(&received, "request"),
        named(&received, "gpu launch add"),
    );
    assert_eq!(root["parent"], "");
    assert_eq!(child["parent"], root["span"]);
    assert_eq!(child["trace"], root["trace"]);
    assert_eq!(root["trace"], "07".repeat(16));
    assert_eq!(
        (&root["error"], &child["error"]),
        (&json!("too long"), &json!(""))
    );
    assert_eq!(
        (&root["span_kind"], &child["span_kind"]),
        (&json!("CLIENT"), &json!("SERVER"))
    );
    assert_eq!(
        (&root["service"], &child["service"]),
        (&json!("warploom-client"), &json!("warploom-worker"))
    );
    assert_eq!(child["resource"]["warploom.cluster"], "test");
    assert_eq!(child["start"], 1_764_500_000_000_000_001_u64);
    assert_eq!(child["end"], 1_764_500_000_003_000_001_u64);
    let attributes = json!({
        "warploom.tenant": "chat", "warploom.gpu": 1, "warploom.device_ns": i64::MAX,
        "warploom.incomplete": true,
    });
    assert_eq!(child["attributes"], attributes);
    let event = json!([{
        "name": "kernel", "at": 1_764_500_000_001_000_000_u64,
        "attributes": {"warploom.launches": 3},
    }]);
    assert_eq!(child["events"], event);
}

#[test]
fn the_environment_describes_the_process_that_exports_and_no_other() {
    let receiver = Receiver::start(0, None);
    let given = "k8s.pod.name=tracer-1,k8s.namespace.name=gpu,k8s.cluster.name=east%2Cwest,team=a,\
                 service.version=9,warploom.cluster=other";
    let settings = TelemetrySettings {
        resource: ResourceSettings::new(given, "mine"),
        ..TelemetrySettings::from_environment(Role::Tracer, "test", &receiver.endpoint())
    };
    let export = exporter(&settings).expect("the settings are good");
    let spans = [
        span(Role::Client, "of a client", 1),
        span(Role::Worker, "of a worker", 2),
        span(Role::Tracer, "of the tracer", 3),
    ];
    export.send(&spans).expect("taken");
    let telemetry = Telemetry::start(&settings).expect("the settings are good");
    measures(Role::Tracer, &telemetry);
    drop(telemetry);

    let received = receiver.received();
    let keys = [
        "service.name",
        "service.version",
        "k8s.namespace.name",
        "k8s.pod.name",
    ];
    let version = env!("CARGO_PKG_VERSION");
    for (name, expected) in [
        (
            "of a client",
            json!(["warploom-client", version, null, null]),
        ),
        (
            "of a worker",
            json!(["warploom-worker", version, "gpu", null]),
        ),
        ("of the tracer", json!(["mine", "9", "gpu", "tracer-1"])),
        (
            "warploom.request.duration",
            json!(["mine", "9", "gpu", "tracer-1"]),
        ),
    ] {
        let resource = &named(&received, name)["resource"];
        let told: Vec<_> = keys.iter().map(|key| resource[*key].clone()).collect();
        assert_eq!(Value::Array(told), expected, "{name}");
        assert_eq!(resource["k8s.cluster.name"], "east,west", "{name}");
        assert_eq!(resource["team"], "a", "{name}");
        assert_eq!(resource["warploom.cluster"], "test", "{name}");
    }
}

#[test]
fn metrics_arrive_with_units_and_as_the_table_defines_them() {
    let receiver = Receiver::start(0, None);
    for role in [Role::Tracer, Role::Leader, Role::Worker, Role::Controller] {
        let telemetry = start(role, &receiver.endpoint());
        measures(role, &telemetry);
        // Dropping the last handle suffices, also for values that are read only on export.
        drop(telemetry);
    }

    let received = receiver.received();
    let value = |name: &str| named(&received, name)["value"].as_f64().expect("a number");
    assert_eq!(value("warploom.launches"), 5.0);
    assert_eq!(value("warploom.core.credits"), 2.5);
    assert_eq!(value("warploom.vram.credits"), 0.5);
    assert_eq!(value("warploom.gpu.active"), 6.0);
    assert_eq!(value("warploom.gpu.starvation"), 1.0);
    assert_eq!(value("warploom.window"), 0.002);
    assert_eq!(value("warploom.outstanding"), 0.000_5);
    assert_eq!(value("warploom.epoch"), 3.0);
    assert_eq!(value("warploom.record.lag"), 6.0);
    assert_eq!(value("warploom.grants"), 7.0);
    assert_eq!(value("warploom.voids"), 1.0);
    assert_eq!(value("warploom.workers.lost"), 2.0);
    assert_eq!(value("warploom.invariant.violations"), 0.0);
    let of_chat = json!({"warploom.tenant": "chat", "warploom.gpu": 1});
    for (name, bytes) in [
        ("total", 8 << 30),
        ("held", (3 << 30) + 256),
        ("free", 2 << 30),
    ] {
        let memory = named(&received, &format!("warploom.vram.{name}"));
        assert_eq!(memory["value"].as_u64(), Some(bytes), "{memory}");
        assert_eq!(memory["attributes"], of_chat);
    }
    for (name, amount) in [
        ("swap.waited", 0.25),
        ("swap.credits", 1.5),
        ("saved.credits", 0.75),
        ("copies.unsent", f64::from(3 << 20)),
    ] {
        let moves = named(&received, &format!("warploom.{name}"));
        assert_eq!(moves["value"].as_f64(), Some(amount), "{moves}");
        assert_eq!(moves["attributes"], of_chat);
    }
    let launches = &named(&received, "warploom.launches")["attributes"];
    assert_eq!(*launches, of_chat);
    for (kind, seconds) in [
        ("request", 0.004),
        ("queue", 3e-5),
        ("execute", 3e-4),
        ("takeover", 0.02),
    ] {
        let times = named(&received, &format!("warploom.{kind}.duration"));
        assert_eq!(
            (&times["type"], &times["count"]),
            (&json!("histogram"), &json!(1))
        );
        assert!(
            (times["sum"].as_f64().expect("a sum") - seconds).abs() < 1e-9,
            "{times}"
        );
    }
    check_table(&received);
}

/// Checks that each metric that is sent is in the table with its unit, and the reverse.
fn check_table(received: &[Value]) {
    let table = METRICS.iter().filter(|metric| !metric.is_nvidia());
    let told = table.map(|metric| (metric.name.to_owned(), metric.unit.to_owned()));
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let sent = of_kind(received, "metric")
        .into_iter()
        .map(|it| (text(it, "name"), text(it, "unit")));
    assert_eq!(sent.collect::<BTreeSet<_>>(), told.collect());
}

#[test]
fn a_collector_that_does_not_take_spans_is_reported() {
    let spans = [span(Role::Client, "request", 1)];
    let settings =
        |endpoint: &str| TelemetrySettings::from_environment(Role::Tracer, "test", endpoint);
    let busy = Receiver::start(1, None);
    let export = exporter(&settings(&busy.endpoint())).expect("the settings are good");
    let refused = export.send(&spans).expect_err("it is busy");
    assert!(
        matches!(&refused, SendError::Later(why) if why.contains("503")),
        "{refused}"
    );
    assert_eq!(of_kind(&busy.received(), "span").len(), 0);
    export.send(&spans).expect("taken");
    assert_eq!(of_kind(&busy.received(), "span").len(), 1);
    let dead = exporter(&settings("http://127.0.0.1:9")).expect("the settings are good");
    dead.send(&spans).expect_err("nothing listens there");
    let wrong = TelemetrySettings {
        traces: Some(format!("{}/nowhere", busy.endpoint())),
        ..settings(&busy.endpoint())
    };
    let refused = exporter(&wrong).expect("a URL").send(&spans);
    assert!(
        matches!(&refused, Err(SendError::Later(why)) if why.contains("404")),
        "{refused:?}"
    );
}

#[test]
fn a_collector_of_https_is_asked_for_its_certificate() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    subscriber.init();
    let dir = TempDir::new().expect("a directory");
    let (trusted, identity) = certificate(&dir, "trusted.pem");
    let (other, _) = certificate(&dir, "other.pem");
    let receiver = Receiver::start(0, Some(&identity));
    let send = |certificate: &Path| {
        let settings = TelemetrySettings {
            certificate: Some(certificate.to_owned()),
            ..TelemetrySettings::from_environment(Role::Client, "test", &receiver.endpoint())
        };
        // The reason is logged.
        let _ = exporter(&settings)?.send(&[span(Role::Client, "request", 1)]);
        Ok::<_, TelemetryError>(of_kind(&receiver.received(), "span").len())
    };

    assert_eq!(send(&other).expect("settings"), 0);
    let text = log.text();
    assert!(
        text.contains("the OTLP collector cannot be reached"),
        "{text}"
    );
    assert!(text.contains("invalid peer certificate"), "{text}");
    assert_eq!(send(&trusted).expect("settings"), 1);

    let missing = send(&dir.path().join("missing.pem")).expect_err("there is none");
    assert!(missing.to_string().contains("missing.pem"), "{missing}");
}

/// Log output of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Creates a self-signed certificate for this host: its file, and its text with its key.
fn certificate(dir: &TempDir, name: &str) -> (PathBuf, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let (file, text) = (dir.path().join(name), made.cert.pem());
    std::fs::write(&file, &text).expect("written");
    (file, text + &made.signing_key.serialize_pem())
}

#[test]
fn off_is_off() {
    let off = start(Role::Client, "");
    assert!(!off.tracing());
    off.shutdown(Duration::from_secs(1));
    let bad = TelemetrySettings::from_environment(Role::Client, "test", "ftp://127.0.0.1:9");
    let error = Telemetry::start(&bad).expect_err("ftp is refused");
    assert!(error.to_string().contains("ftp://127.0.0.1:9"), "{error}");
    let login = TelemetrySettings::from_environment(Role::Client, "test", "http://me:secret@a:1");
    let error = Telemetry::start(&login).expect_err("a login is refused");
    assert!(!error.to_string().contains("secret"), "{error}");
}
