//! The exported telemetry, as an OTLP receiver decodes it with opentelemetry-proto.

mod measured;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bus_schemas::SessionId;
use measured::measures;
use serde_json::{Value, json};
use telemetry::catalogue::METRICS;
use telemetry::{Role, Span, SpanName, Telemetry, TelemetryError, TelemetrySettings, TraceContext};
use test_cluster::Receiver;
use test_cluster::TempDir;

fn start(role: Role, endpoint: &str) -> Telemetry {
    let settings = TelemetrySettings::from_environment(role, "test", endpoint);
    Telemetry::start(&settings).expect("the settings are good")
}

fn span(name: SpanName, context: TraceContext, start: Instant) -> Span<'static> {
    Span {
        name,
        context,
        parent: None,
        start,
        end: start + Duration::from_millis(3),
        tenant: "chat",
        session: SessionId(0x0100_0001),
        gpu: Some(1),
        epoch: 2,
        position: 17,
        ops: 4,
        launches: 3,
        device_ns: 1_234,
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
fn spans_arrive_with_their_parents_times_and_attributes() {
    let receiver = Receiver::start(0, None);
    let client = start(Role::Client, &receiver.endpoint());
    let worker = start(Role::Worker, &receiver.endpoint());
    let began = Instant::now() - Duration::from_millis(10);
    let request = client.request(None).expect("spans are on");
    let carried = TraceContext::extract(Some(&request.headers())).expect("it is sampled");
    worker.finish_child(carried, span(SpanName::Execute, carried, began));
    client.finish(&Span {
        error: Some("E-KERNEL-WATCHDOG"),
        gpu: None,
        ..span(SpanName::Request, request, began)
    });
    worker.shutdown(Duration::from_secs(5));
    client.shutdown(Duration::from_secs(5));

    let received = receiver.received();
    assert_eq!(of_kind(&received, "span").len(), 2, "{received:#?}");
    let (root, child) = (named(&received, "request"), named(&received, "execute"));
    assert_eq!(root["parent"], "");
    assert_eq!(child["parent"], root["span"]);
    assert_eq!(child["trace"], root["trace"]);
    assert_eq!(root["trace"], request.trace.to_string());
    assert_eq!(root["error"], "E-KERNEL-WATCHDOG");
    assert_eq!(
        (&root["span_kind"], &child["span_kind"]),
        (&json!("CLIENT"), &json!("SERVER"))
    );
    assert_eq!(
        (&root["service"], &child["service"]),
        (&json!("warploom-client"), &json!("warploom-worker"))
    );
    assert_eq!(child["resource"]["warploom.cluster"], "test");
    let nanos = |line: &Value, field: &str| line[field].as_u64().expect("a time");
    assert_eq!(nanos(child, "end") - nanos(child, "start"), 3_000_000);
    let attributes = json!({
        "warploom.tenant": "chat", "warploom.session": "0000000001000001", "warploom.gpu": 1,
        "warploom.epoch": 2, "warploom.position": 17, "warploom.ops": 4,
        "warploom.launches": 3, "warploom.device_ns": 1_234,
    });
    assert_eq!(child["attributes"], attributes);
}

#[test]
fn metrics_arrive_with_units_and_as_the_table_defines_them() {
    let receiver = Receiver::start(0, None);
    for role in [Role::Client, Role::Leader, Role::Worker, Role::Controller] {
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
fn a_busy_collector_is_asked_again_and_a_dead_one_holds_nothing_up() {
    let busy = Receiver::start(2, None);
    let client = start(Role::Client, &busy.endpoint());
    let request = client.request(None).expect("spans are on");
    client.finish(&span(SpanName::Request, request, Instant::now()));
    client.flush();
    let received = busy.received();
    assert_eq!(of_kind(&received, "span").len(), 1);
    client.shutdown(Duration::from_secs(5));

    // No test waits this long; the guard stops one that would hang.
    let hangs = Duration::from_secs(60);
    let dead = start(Role::Client, "http://127.0.0.1:9");
    let began = Instant::now();
    for _ in 0..20_000 {
        let request = dead.request(None).expect("spans are on");
        dead.finish(&span(SpanName::Request, request, Instant::now()));
    }
    dead.shutdown(Duration::from_secs(1));
    assert!(began.elapsed() < hangs, "{:?}", began.elapsed());
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
        let client = Telemetry::start(&settings)?;
        let request = client.request(None).expect("spans are on");
        client.finish(&span(SpanName::Request, request, Instant::now()));
        client.shutdown(Duration::from_secs(10));
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
    assert_eq!(off.request(None), None);
    off.shutdown(Duration::from_secs(1));
    let never = TelemetrySettings {
        sample: 0.0,
        ..TelemetrySettings::from_environment(Role::Client, "test", "http://127.0.0.1:9")
    };
    let never = Telemetry::start(&never).expect("the settings are good");
    assert!((0..1_000).all(|_| never.request(None).is_none()));
    let bad = TelemetrySettings::from_environment(Role::Client, "test", "ftp://127.0.0.1:9");
    let error = Telemetry::start(&bad).expect_err("ftp is refused");
    assert!(error.to_string().contains("ftp://127.0.0.1:9"), "{error}");
    let login = TelemetrySettings::from_environment(Role::Client, "test", "http://me:secret@a:1");
    let error = Telemetry::start(&login).expect_err("a login is refused");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_share_of_the_requests_is_sampled() {
    let settings = TelemetrySettings {
        sample: 0.25,
        ..TelemetrySettings::from_environment(Role::Client, "test", "http://127.0.0.1:9")
    };
    let telemetry = Telemetry::start(&settings).expect("the settings are good");
    let kept = (0..20_000)
        .filter(|_| telemetry.request(None).is_some())
        .count();
    assert!((4_600..5_400).contains(&kept), "{kept} of 20000");
    let parent = TraceContext {
        sampled: true,
        ..loop_until_sampled(&telemetry)
    };
    let child = telemetry
        .request(Some(parent))
        .expect("a sampled parent decides");
    assert_eq!(child.trace, parent.trace);
    assert_ne!(child.span, parent.span);
    let quiet = TraceContext {
        sampled: false,
        ..parent
    };
    assert_eq!(telemetry.request(Some(quiet)), None);
}

fn loop_until_sampled(telemetry: &Telemetry) -> TraceContext {
    let mut requests = std::iter::repeat_with(|| telemetry.request(None)).flatten();
    requests.next().expect("endless")
}
