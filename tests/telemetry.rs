//! The telemetry of a cluster of real processes, as an OTLP receiver gets it. There is one trace
//! for each request, from the client through leader and worker and back, and the metrics of each
//! role.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{ClusterSettings, TenantSettings};
use client_agent::telemetry::{Role, TelemetrySettings};
use client_agent::{Client, Settings, Telemetry};
use serde_json::Value;
use test_cluster::Receiver;
use test_cluster::TempDir;
use warploom_cli::local::{LocalCluster, LocalOptions};

const TENANT: &str = "chat";
const REQUESTS: usize = 20;
const LAUNCHES: u64 = 3;
const ELEMENTS: u32 = 4_096;

#[tokio::test]
async fn a_request_is_one_trace_and_every_role_has_its_metrics() {
    let receiver = Receiver::start(0, None);
    let dir = TempDir::new().expect("a directory");
    let mut options = LocalOptions::new(dir.path(), "test").expect("options");
    options.binary = env!("CARGO_BIN_EXE_warploom").into();
    options.tenants = vec![(TENANT.parse().expect("a name"), TenantSettings::default())];
    options.settings = vec![
        ("telemetry.otlp".into(), receiver.endpoint()),
        ("worker.device".into(), "cpu".into()),
    ];
    // Under a standing grant many slices have one position.
    options.order = Some(ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    });
    let mut cluster = LocalCluster::start(options).await.expect("a cluster");

    let endpoint = receiver.endpoint();
    let settings = client_settings(&cluster, &endpoint);
    let work = tokio::task::spawn_blocking(move || work(settings));
    let session = work.await.expect("the client's thread");
    cluster.drain().expect("every role ends by itself");

    let received = receiver.received();
    let traces = Traces::new(&received);
    let requests = traces.check(&session);
    assert!(requests >= REQUESTS, "{requests} requests");
    check_metrics(&received, requests);
}

fn client_settings(cluster: &LocalCluster, endpoint: &str) -> Settings {
    let credentials = cluster.broker.credentials();
    let login = &credentials.tenant(TENANT).expect("a tenant").login;
    let settings = Settings::new(&credentials.url, &credentials.cluster, TENANT);
    let mut settings = settings.with_login(&login.user, &login.password);
    let chosen = TelemetrySettings::from_environment(Role::Client, "test", endpoint);
    settings.telemetry = Telemetry::start(&chosen).expect("an endpoint");
    settings
}

/// Adds vectors a few times per request, checks the last result, and returns the session's id.
fn work(settings: Settings) -> String {
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let image = include_bytes!("kernels/vector_add.ptx");
    let module = session.load(image).expect("a module");
    let add = module.function("vector_add").expect("a kernel");
    let bytes = u64::from(ELEMENTS) * 4;
    let [a, b, c] = [(); 3].map(|()| session.alloc(bytes).expect("memory"));
    let ones: Vec<u8> = (0..ELEMENTS).flat_map(|_| 1f32.to_le_bytes()).collect();
    for to in [a, b] {
        session.copy_in(to, &ones).expect("a copy");
    }
    let mut params = Vec::new();
    for address in [a, b, c] {
        params.extend(address.to_le_bytes());
    }
    params.extend(ELEMENTS.to_le_bytes());
    for _ in 0..REQUESTS {
        for _ in 0..LAUNCHES {
            let (grid, block) = ([ELEMENTS / 256, 1, 1], [256, 1, 1]);
            session
                .launch(&add, grid, block, 0, &params)
                .expect("a launch");
        }
        session.sync().expect("it ran");
    }
    let mut sums = vec![0; bytes as usize];
    session.copy_out(c, &mut sums).expect("a copy");
    assert!(sums.chunks_exact(4).all(|sum| sum == 2f32.to_le_bytes()));
    let id = session.id().to_string();
    session.close().expect("closed");
    // The last handle on the client's telemetry is dropped here, and sends the pending data.
    drop(client);
    id
}

/// The received spans, by trace and name.
struct Traces<'a>(BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Value>>>);

impl<'a> Traces<'a> {
    fn new(received: &'a [Value]) -> Self {
        let mut traces = BTreeMap::<_, BTreeMap<_, Vec<_>>>::new();
        for span in received.iter().filter(|line| line["kind"] == "span") {
            let trace = traces.entry(text(span, "trace")).or_default();
            trace.entry(text(span, "name")).or_default().push(span);
        }
        Self(traces)
    }

    /// Checks every trace against the documentation; returns their number.
    fn check(&self, session: &str) -> usize {
        let mut positions = BTreeSet::new();
        let mut launched = 0;
        for (id, spans) in &self.0 {
            let [request] = spans["request"][..] else {
                panic!("trace {id} has not one request: {spans:#?}");
            };
            assert_eq!(text(request, "service"), "warploom-client");
            assert_eq!(text(request, "parent"), "");
            // A value of 0 is left out.
            let launches = request["attributes"]["warploom.launches"].as_u64();
            let launches = launches.unwrap_or(0);
            let mut ran = 0;
            for (name, service) in [("queue", "warploom-leader"), ("execute", "warploom-worker")] {
                let children = spans.get(name);
                let children = children.unwrap_or_else(|| panic!("{id} has no {name}: {spans:#?}"));
                for child in children {
                    assert_eq!(text(child, "service"), service);
                    assert_eq!(child["parent"], request["span"], "{name} of {id}");
                    assert!(number(&child["end"]) > number(&child["start"]), "{child}");
                    assert!(
                        number(&child["start"]) >= number(&request["start"]),
                        "{child}"
                    );
                    assert!(
                        number(&child["attributes"]["warploom.epoch"]) >= 1,
                        "{child}"
                    );
                    ran += child["attributes"]["warploom.launches"]
                        .as_u64()
                        .unwrap_or(0);
                }
            }
            for slice in &spans["execute"] {
                let position = number(&slice["attributes"]["warploom.position"]);
                assert!(positions.insert(position), "position {position} ran twice");
                assert!(number(&slice["end"]) <= number(&request["end"]), "{slice}");
            }
            if launches > 0 {
                let times = spans["execute"]
                    .iter()
                    .map(|it| &it["attributes"]["warploom.device_ns"]);
                assert!(
                    times.map(number).sum::<u64>() > 0,
                    "{id} took no device time"
                );
            }
            assert_eq!(ran, launches, "launches of {id}");
            launched += launches;
            for span in spans.values().flatten() {
                assert_eq!(text(&span["attributes"], "warploom.tenant"), TENANT);
                assert_eq!(text(&span["attributes"], "warploom.session"), session);
                assert_eq!(span["error"], "");
            }
        }
        assert_eq!(launched, REQUESTS as u64 * LAUNCHES);
        self.0.len()
    }
}

/// Checks the last metrics of every role, at its end.
fn check_metrics(received: &[Value], requests: usize) {
    let last = |name: &str| {
        let mut points = received
            .iter()
            .filter(|it| it["kind"] == "metric" && it["name"] == name);
        points
            .next_back()
            .unwrap_or_else(|| panic!("no {name} was received"))
    };
    let value = |name: &str| last(name)["value"].as_f64().expect("a number");
    for (name, at_least) in [
        ("request", requests),
        ("queue", requests),
        ("execute", requests),
    ] {
        let times = last(&format!("warploom.{name}.duration"));
        assert_eq!(text(&times["attributes"], "warploom.tenant"), TENANT);
        assert!(number(&times["count"]) >= at_least as u64, "{times}");
        assert!(times["sum"].as_f64().expect("a sum") > 0.0, "{times}");
    }
    assert_eq!(
        number(&last("warploom.request.duration")["count"]),
        requests as u64
    );
    assert_eq!(
        value("warploom.launches"),
        (REQUESTS as u64 * LAUNCHES) as f64
    );
    assert_eq!(
        text(&last("warploom.launches")["attributes"], "warploom.tenant"),
        TENANT
    );
    for name in ["core.credits", "vram.credits", "gpu.active"] {
        assert!(
            value(&format!("warploom.{name}")) > 0.0,
            "{}",
            last(&format!("warploom.{name}"))
        );
    }
    assert!(value("warploom.gpu.starvation") <= value("warploom.gpu.active"));
    for name in [
        "warploom.window",
        "warploom.outstanding",
        "warploom.record.lag",
        "warploom.epoch",
    ] {
        assert!(value(name) >= 0.0);
    }
    assert!(number(&last("warploom.takeover.duration")["count"]) >= 1);
    assert!(value("warploom.grants") >= requests as f64);
}

fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {line}"))
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}
