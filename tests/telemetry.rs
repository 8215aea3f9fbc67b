//! The telemetry of a cluster of real processes, as an OTLP receiver gets it: one trace for each request of a Rust
//! client, and the metrics of each role.

use bus_schemas::TenantSettings;
use client_agent::telemetry::{Role, TelemetrySettings};
use client_agent::{Client, Settings, Telemetry};
use serde_json::{Value, json};
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
    let mut cluster = LocalCluster::start(options).await.expect("a cluster");

    let endpoint = receiver.endpoint();
    let settings = client_settings(&cluster, &endpoint);
    let work = tokio::task::spawn_blocking(move || work(settings));
    let session = work.await.expect("the client's thread");
    cluster.drain().expect("every role ends by itself");

    // The tracer ends last, when all requests are exported.
    let said = receiver.traces(Some(TENANT), 0).expect("the rules hold");
    let count = |name: &str| number(&said[name]);
    assert!(count("requests") >= REQUESTS as u64, "{said}");
    let launches = REQUESTS as u64 * LAUNCHES;
    assert_eq!(count("launches"), launches, "{said}");
    assert_eq!(count("executed"), launches, "{said}");
    assert_eq!(said["sessions"], json!([session]), "{said}");
    assert_eq!(count("incomplete"), 0, "{said}");
    assert!(said["cover_p50"].as_f64() >= Some(0.98), "{said}");
    assert_eq!(said["names"]["compile"], 1, "{said}");
    check_metrics(&receiver.received());
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

/// Checks the last metrics of every role, at its end.
fn check_metrics(received: &[Value]) {
    let last = |name: &str| {
        let mut points = received
            .iter()
            .filter(|it| it["kind"] == "metric" && it["name"] == name);
        points
            .next_back()
            .unwrap_or_else(|| panic!("no {name} was received"))
    };
    let value = |name: &str| last(name)["value"].as_f64().expect("a number");
    // Several intents are one of them, and under a standing grant several slices.
    for (name, at_least) in [("request", REQUESTS), ("queue", 1), ("execute", 1)] {
        let times = last(&format!("warploom.{name}.duration"));
        assert_eq!(text(&times["attributes"], "warploom.tenant"), TENANT);
        assert!(number(&times["count"]) >= at_least as u64, "{times}");
        assert!(times["sum"].as_f64().expect("a sum") > 0.0, "{times}");
    }
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
    let limit = last("hw.gpu.memory.limit");
    assert_eq!(limit["attributes"]["hw.id"], "0");
    assert_eq!(limit["attributes"]["hw.type"], "gpu");
    assert!(limit["attributes"]["hw.model"].is_string());
    assert!(value("hw.gpu.memory.usage") <= value("hw.gpu.memory.limit"));
    let utilization = last("hw.gpu.utilization");
    assert_eq!(utilization["attributes"]["hw.gpu.task"], "general");
    assert!((0.0..=1.0).contains(&value("hw.gpu.utilization")));
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
    assert!(value("warploom.grants") >= 1.0);
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
