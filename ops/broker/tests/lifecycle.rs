//! Starting, stopping, restarting and reloading a real server.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use broker::{Broker, BrokerConfig, Credentials, Lifetime, SyncInterval};
use futures_util::StreamExt;
use support::{connect, connect_cluster, connect_tenant, soon, try_connect};
use test_cluster::{TempDir, TestBroker};

fn alive(pid: u32) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_broker_starts_stops_and_leaves_nothing_behind() {
    let first = TestBroker::start();
    let second = TestBroker::start();
    assert_ne!(first.url(), second.url());
    assert!(first.url().starts_with("nats://127.0.0.1:"));
    let (pid, dir) = (first.pid(), first.dir().to_owned());
    assert!(alive(pid) && first.is_running());
    let path = first.credentials_path();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(&Credentials::load(&path).unwrap(), first.credentials());
    let users = path.with_file_name("users.conf");
    assert_eq!(fs::metadata(users).unwrap().permissions().mode() & 0o077, 0);
    drop(first);
    assert!(!alive(pid));
    assert!(!dir.exists());
    assert!(second.is_running());
}

/// A connection of another process could take an ephemeral port while its server is restarted.
#[test]
fn a_free_port_is_not_an_ephemeral_one() {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first = range.split_whitespace().next().unwrap();
    let first: u16 = first.parse().unwrap();
    let running = TestBroker::start();
    let port: u16 = running.url().rsplit_once(':').unwrap().1.parse().unwrap();
    // A system may have another range than the usual one.
    assert!(port < first.max(32_000), "{port}, ephemeral from {first}");
}

#[test]
fn a_server_that_cannot_start_is_reported_with_its_log() {
    let running = TestBroker::start();
    let port = running.url().rsplit_once(':').unwrap().1.parse().unwrap();
    let error = TestBroker::try_with("test", &[], |config| config.port = Some(port));
    let error = error.err().expect("the port is taken");
    assert_eq!(error.code(), "E-BROKER-START");
    assert!(
        error.to_string().contains("address already in use"),
        "{error}"
    );
}

#[test]
fn a_state_directory_is_one_cluster_and_one_server() {
    let dir = TempDir::new().unwrap();
    let config = BrokerConfig::new(dir.path().join("state"), "one");
    let broker = Broker::start(&config).unwrap();
    let error = Broker::start(&config).err().expect("it runs already");
    assert_eq!(error.code(), "E-BROKER-RUNNING");
    assert!(
        error.to_string().contains(&broker.pid().to_string()),
        "{error}"
    );
    drop(broker);
    let other = BrokerConfig::new(dir.path().join("state"), "two");
    assert_eq!(
        Broker::start(&other).err().unwrap().code(),
        "E-BROKER-CLUSTER"
    );
    let bad = BrokerConfig::new(dir.path().join("state"), "a.b");
    assert_eq!(Broker::start(&bad).err().unwrap().code(), "E-BROKER-NAME");
}

#[tokio::test]
async fn logins_and_data_outlive_a_stop() {
    let dir = TempDir::new().unwrap();
    let mut config = BrokerConfig::new(dir.path().join("state"), "test");
    config.tenants = vec!["a".into()];
    config.sync = SyncInterval::Always;
    let mut broker = Broker::start(&config).unwrap();
    let before = broker.credentials().clone();
    let stored = put_and_get(broker.credentials(), "kept").await;
    assert_eq!(stored, "kept");
    broker.stop().unwrap();
    assert!(!broker.is_running());
    broker.stop().unwrap();
    drop(broker);

    config.tenants = vec!["b".into()];
    let broker = Broker::start(&config).unwrap();
    let after = broker.credentials();
    assert_eq!(after.cluster_user, before.cluster_user);
    assert_eq!(after.tenant("a"), before.tenant("a"));
    assert!(after.tenant("b").is_some());
    let connection = connect_cluster(after, "reader").await;
    let kv = jetstream::new(connection.client)
        .get_key_value("state")
        .await
        .unwrap();
    assert_eq!(kv.get("key").await.unwrap().unwrap(), "kept");
}

async fn put_and_get(credentials: &Credentials, value: &'static str) -> String {
    let connection = connect_cluster(credentials, "leader-1").await;
    let context = jetstream::new(connection.client);
    let bucket = jetstream::kv::Config {
        bucket: "state".into(),
        ..Default::default()
    };
    let kv = context.create_key_value(bucket).await.unwrap();
    let mut watch = kv.watch_all().await.unwrap();
    let revision = kv.put("key", "first".into()).await.unwrap();
    kv.update("key", value.into(), revision).await.unwrap();
    let stale = kv.update("key", "stale".into(), revision).await;
    assert!(stale.is_err(), "a compare-and-set on an old revision fails");
    // The bucket keeps one value per key: a late watch sees only the second.
    while soon("a watch event", watch.next())
        .await
        .unwrap()
        .unwrap()
        .value
        != value
    {}
    String::from_utf8(kv.get("key").await.unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn key_value_streams_and_large_messages_serve_the_cluster_user() {
    let broker = TestBroker::start();
    assert_eq!(put_and_get(broker.credentials(), "x").await, "x");
    let mut connection = connect_cluster(broker.credentials(), "leader-1").await;
    let client = connection.client.clone();
    assert_eq!(client.server_info().max_payload, 8 << 20);
    let context = jetstream::new(client.clone());
    let stream = jetstream::stream::Config {
        name: "RECORD".into(),
        subjects: vec!["wl.v1.test.s.record.>".into()],
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    let payload = vec![7u8; (8 << 20) - 1024];
    let ack = context
        .publish("wl.v1.test.s.record.1", payload.into())
        .await
        .unwrap();
    assert_eq!(ack.await.unwrap().sequence, 1);
    // The cluster's subjects are its own; another cluster's are refused.
    client.publish("wl.v1.other.s.x", "".into()).await.unwrap();
    connection.refusal("publish", "wl.v1.other.s.x").await;
}

#[tokio::test]
async fn a_killed_broker_comes_back_on_its_port_and_clients_reconnect() {
    let mut broker = TestBroker::start();
    let url = broker.url().to_owned();
    let mut connection = connect_cluster(broker.credentials(), "worker-7").await;
    assert_eq!(put_and_get(broker.credentials(), "kept").await, "kept");
    let pid = broker.pid();
    broker.kill().unwrap();
    assert!(!broker.is_running() && !alive(pid));
    assert_eq!(broker.reload().unwrap_err().code(), "E-BROKER-NOT-RUNNING");
    connection
        .event(|event| matches!(event, async_nats::Event::Disconnected).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    broker.restart().unwrap();
    assert_eq!(broker.url(), url);
    assert_ne!(broker.pid(), pid);
    connection
        .event(|event| matches!(event, async_nats::Event::Connected).then_some(()))
        .await;
    let kv = jetstream::new(connection.client)
        .get_key_value("state")
        .await
        .unwrap();
    assert_eq!(kv.get("key").await.unwrap().unwrap(), "kept");
    // A running server is stopped first by restart.
    broker.restart().unwrap();
    assert!(broker.is_running());
}

/// Checks that a connection receives what the cluster publishes to its tenant.
async fn hears(connection: &support::Connection, cluster: &support::Connection, tenant: &str) {
    let subject = format!("wl.v1.test.t.{tenant}.dn.news");
    let mut news = connection.client.subscribe(subject.clone()).await.unwrap();
    support::settle(&connection.client).await;
    let hear = async {
        // A subscription written to the socket may not be active yet: repeat until a message
        // arrives.
        loop {
            let published = cluster.client.publish(subject.clone(), "hello".into());
            published.await.unwrap();
            let wait = tokio::time::timeout(Duration::from_millis(20), news.next()).await;
            if let Ok(message) = wait {
                return message.unwrap();
            }
        }
    };
    assert_eq!(soon("news", hear).await.payload, "hello");
}

#[tokio::test]
async fn tenants_come_and_go_while_others_stay_connected() {
    let mut broker = TestBroker::with("test", &["a"], |_| ());
    let mut a = connect_tenant(broker.credentials(), "a").await;
    let mut cluster = connect_cluster(broker.credentials(), "leader-1").await;
    let mut watch = {
        let context = jetstream::new(cluster.client.clone());
        let bucket = jetstream::kv::Config {
            bucket: "state".into(),
            ..Default::default()
        };
        context
            .create_key_value(bucket)
            .await
            .unwrap()
            .watch_all()
            .await
            .unwrap()
    };
    let added = broker.add_tenant("late").unwrap();
    assert_eq!(broker.add_tenant("late").unwrap(), added);
    let saved = Credentials::load(&broker.credentials_path()).unwrap();
    assert_eq!(saved.tenant("late"), Some(&added));
    let mut late = connect_tenant(broker.credentials(), "late").await;

    // Both connections receive their messages; that of a is the one from before.
    hears(&a, &cluster, "a").await;
    hears(&late, &cluster, "late").await;
    let disconnected = |connection: &mut support::Connection| {
        std::iter::from_fn(|| connection.events.try_recv().ok())
            .any(|event| matches!(event, async_nats::Event::Disconnected))
    };
    assert!(!disconnected(&mut a) && !disconnected(&mut cluster));
    // JetStream and an open watch continue across the reload.
    let kv = jetstream::new(cluster.client.clone())
        .get_key_value("state")
        .await
        .unwrap();
    kv.put("key", "after".into()).await.unwrap();
    let entry = soon("a watch event", watch.next()).await.unwrap().unwrap();
    assert_eq!(entry.value, "after");

    // After a renewal, the connection with the old password is closed and cannot return.
    let renewed = broker.renew_tenant("late").unwrap();
    assert_eq!(renewed.login.user, added.login.user);
    assert_ne!(renewed.login.password, added.login.password);
    late.event(|event| matches!(event, async_nats::Event::Disconnected).then_some(()))
        .await;
    let refused = try_connect(broker.url(), &added.login, "late", "_INBOX").await;
    assert!(refused.is_err(), "the password of before is refused");
    let mut late = connect_tenant(broker.credentials(), "late").await;

    broker.remove_tenant("late").unwrap();
    late.event(|event| matches!(event, async_nats::Event::Disconnected).then_some(()))
        .await;
    let refused = try_connect(broker.url(), &renewed.login, "late", "_INBOX").await;
    assert!(refused.is_err(), "a removed login is refused");
    assert_eq!(
        broker.renew_tenant("late").unwrap_err().code(),
        "E-BROKER-TENANT"
    );
    assert_eq!(
        broker.remove_tenant("late").unwrap_err().code(),
        "E-BROKER-TENANT"
    );
    broker.set_users(&["a", "c"]).unwrap();
    connect_tenant(broker.credentials(), "c").await;
    assert!(!disconnected(&mut a) && !disconnected(&mut cluster));
}

#[tokio::test]
async fn the_system_user_hears_who_disconnected() {
    let broker = TestBroker::start();
    let login = broker
        .credentials()
        .system_user
        .clone()
        .expect("a system user");
    let system = connect(broker.url(), &login, "system", "_INBOX").await;
    let subject = broker.credentials().disconnect_subject();
    let mut events = system.client.subscribe(subject).await.unwrap();
    // The answer to the system user's own request comes only after its subscription was handled.
    let ping = system
        .client
        .request("$SYS.REQ.SERVER.PING", "".into())
        .await
        .unwrap();
    assert!(!ping.payload.is_empty());
    for name in ["leader-0af3", "worker-77"] {
        drop(connect_cluster(broker.credentials(), name).await);
        let heard = async {
            loop {
                let message = events.next().await.expect("the subscription lives");
                let event: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
                if event["client"]["name"] == name {
                    return event;
                }
            }
        };
        let event = soon("the disconnect event", heard).await;
        assert_eq!(event["client"]["user"], "cluster");
    }
}

#[tokio::test]
async fn without_a_system_account_the_cluster_works_and_there_is_no_system_user() {
    let broker = TestBroker::with("test", &["a"], |config| config.system_account = false);
    assert!(broker.credentials().system_user.is_none());
    assert_eq!(put_and_get(broker.credentials(), "x").await, "x");
    connect_tenant(broker.credentials(), "a").await;
}

#[tokio::test]
async fn a_detached_broker_outlives_its_starter_and_can_be_attached_to() {
    let dir = TempDir::new().unwrap();
    let state = dir.path().join("state");
    let error = Broker::attach(&state).err().expect("nothing runs there");
    assert_eq!(error.code(), "E-BROKER-NOT-RUNNING");
    let mut config = BrokerConfig::new(&state, "test");
    config.lifetime = Lifetime::Detached;
    let started = Broker::start(&config).unwrap();
    let pid = started.pid();
    drop(started);
    assert!(alive(pid));
    let mut broker = Broker::attach(&state).unwrap();
    assert_eq!(broker.pid(), pid);
    broker.add_tenant("new").unwrap();
    connect_tenant(broker.credentials(), "new").await;
    drop(Broker::attach(&state).unwrap());
    assert!(alive(pid));
    broker.stop().unwrap();
    assert!(!alive(pid));
    assert_eq!(broker.restart().unwrap_err().code(), "E-BROKER-NOT-RUNNING");
}

/// Set for the child process of the next test: it starts a broker here and waits to be killed.
const CHILD: &str = "WARPLOOM_TEST_START_IN";

/// Not a test by itself: the next test runs it.
#[test]
fn child_starts_a_broker_and_waits() {
    let Some(state) = std::env::var_os(CHILD) else {
        return;
    };
    let mut config = BrokerConfig::new(state, "test");
    config.lifetime = match std::env::var_os("WARPLOOM_TEST_EPHEMERAL") {
        Some(_) => Lifetime::Ephemeral,
        None => Lifetime::Owned,
    };
    // Started by a thread that ends at once: the server must survive that thread.
    let broker = std::thread::spawn(move || Broker::start(&config).unwrap())
        .join()
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(broker.is_running());
    fs::write(broker.credentials_path().with_file_name("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_broker_does_not_outlive_a_killed_starter() {
    for ephemeral in [false, true] {
        let dir = TempDir::new().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child_starts_a_broker_and_waits"])
            .env(CHILD, dir.path());
        if ephemeral {
            command.env("WARPLOOM_TEST_EPHEMERAL", "1");
        }
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_until("the child's broker runs", || {
            dir.path().join("ready").exists()
        });
        let broker = Broker::attach(dir.path()).unwrap();
        assert!(alive(broker.pid()));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("the broker ends with its starter", || !alive(broker.pid()));
    }
}

#[test]
fn a_server_computes_on_more_threads_than_a_flood_keeps_busy() {
    let broker = TestBroker::start();
    let environment = std::fs::read(format!("/proc/{}/environ", broker.pid())).expect("a process");
    let mut variables = environment.split(|byte| *byte == 0);
    let threads = variables.find_map(|it| it.strip_prefix(b"GOMAXPROCS="));
    let threads = std::str::from_utf8(threads.expect("it is set")).expect("text");
    assert!(
        threads.parse::<usize>().expect("a number") >= 16,
        "{threads}"
    );
}
