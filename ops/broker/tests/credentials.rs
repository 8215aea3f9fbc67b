//! The permissions of a tenant's login against the real server: its own subjects, nothing else.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use broker::Credentials;
use futures_util::StreamExt;
use support::{Connection, connect_cluster, connect_tenant, soon};
use test_cluster::TestBroker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A marker in everything that tenant `b` sends or receives, and in nothing that tenant `a` sends.
const SECRET: &str = "b-secret-4f1d";

/// Subjects to which tenant `a` must not subscribe: all, inboxes, b's, the cluster's, JetStream's,
/// the system's.
const FORBIDDEN_TO_HEAR: [&str; 15] = [
    ">",
    "*",
    "*.>",
    "_INBOX.>",
    "wl.>",
    "wl.v1.c.>",
    "wl.v1.c.t.>",
    "wl.v1.c.t.*.dn.>",
    "wl.v1.c.t.b.dn.>",
    "wl.v1.c.t.b.up.>",
    "wl.v1.c.t.a.up.>",
    "wl.v1.c.s.>",
    "$JS.>",
    "$SYS.>",
    "$O.>",
];

/// Subjects to which tenant `a` must not publish: as b, to b, to itself, as a worker, as the
/// leader, in JetStream, to an inbox, in another cluster.
const FORBIDDEN_TO_SAY: [&str; 12] = [
    "wl.v1.c.t.b.up.submit",
    "wl.v1.c.t.b.dn.result",
    "wl.v1.c.t.a.dn.result",
    "wl.v1.c.s.worker.77.done",
    "wl.v1.c.s.leader.heartbeat",
    "wl.v1.other.t.a.up.submit",
    "_INBOX.x.y",
    "$JS.API.STREAM.LIST",
    "$KV.state.lease",
    "$O.wl-c-weights.C.part",
    "$SYS.REQ.SERVER.PING",
    "plain",
];

/// Numbers of answers to b, and of pongs to the spy, after which the spy has listened for long
/// enough.
const ANSWERS: usize = 50;
const PONGS: usize = 10;
/// A timeout against a hang; not part of the test.
const HANGS: Duration = Duration::from_secs(60);

/// Lets b exchange messages with the cluster, both ways and with replies, until told to stop.
/// Counts the answers b receives.
async fn talk(credentials: Credentials, mut stop: watch::Receiver<bool>, answers: &AtomicUsize) {
    let worker = connect_cluster(&credentials, "worker-77").await;
    let b = connect_tenant(&credentials, "b").await;
    let mut requests = worker.client.subscribe("wl.v1.c.t.b.up.>").await.unwrap();
    // Not `dn.>`: the server would send "no responders" to that subscription and not to the inbox.
    let mut results = b.client.subscribe("wl.v1.c.t.b.dn.result").await.unwrap();
    let serve = async {
        while let Some(message) = requests.next().await {
            for subject in [
                message.reply.expect("a reply").as_str(),
                "wl.v1.c.t.b.dn.result",
            ] {
                worker
                    .client
                    .publish(subject.to_owned(), SECRET.into())
                    .await
                    .unwrap();
            }
            worker
                .client
                .publish("wl.v1.c.s.worker.77.done", SECRET.into())
                .await
                .unwrap();
        }
    };
    let ask = async {
        while !*stop.borrow_and_update() {
            let reply = b.client.request("wl.v1.c.t.b.up.submit", SECRET.into());
            // The worker's subscription may be late; then there are no responders.
            if let Ok(reply) = reply.await {
                assert_eq!(reply.payload, SECRET);
                let result = soon("b's own result", results.next()).await.unwrap();
                assert_eq!(result.payload, SECRET);
                answers.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = serve => unreachable!("the worker's subscription ended"),
        () = ask => {}
    }
}

fn start() -> TestBroker {
    TestBroker::with("c", &["a", "b"], |_| ())
}

#[tokio::test]
async fn a_tenant_speaks_and_hears_under_its_own_prefix() {
    let broker = start();
    let worker = connect_cluster(broker.credentials(), "worker-77").await;
    let a = connect_tenant(broker.credentials(), "a").await;
    let mut requests = worker.client.subscribe("wl.v1.c.t.*.up.>").await.unwrap();
    let serve = async {
        let message = requests.next().await.unwrap();
        let reply = message.reply.unwrap();
        assert!(reply.starts_with("wl.v1.c.t.a.dn.inbox."), "{reply}");
        worker.client.publish(reply, "pong".into()).await.unwrap();
        worker.client.flush().await.unwrap();
    };
    let ask = async {
        loop {
            if let Ok(answer) = a.client.request("wl.v1.c.t.a.up.ping", "ping".into()).await {
                return answer;
            }
        }
    };
    let ((), answer) = soon("the answer", async { tokio::join!(serve, ask) }).await;
    assert_eq!(answer.payload, "pong");
}

#[tokio::test]
async fn a_tenant_is_refused_everything_else_and_is_told() {
    let broker = start();
    let mut a: Connection = connect_tenant(broker.credentials(), "a").await;
    for subject in FORBIDDEN_TO_HEAR {
        let _subscription = a.client.subscribe(subject).await.unwrap();
        a.refusal("subscription", subject).await;
        let _subscription = a.client.queue_subscribe(subject, "q".into()).await.unwrap();
        a.refusal("subscription", subject).await;
    }
    // Subscribes everywhere: no forbidden message of a may arrive anywhere.
    let cluster = connect_cluster(broker.credentials(), "leader-1").await;
    let mut heard = cluster.client.subscribe("wl.v1.c.>").await.unwrap();
    let mut inboxes = cluster.client.subscribe("_INBOX.x.>").await.unwrap();
    let mut buckets = cluster.client.subscribe("$KV.>").await.unwrap();
    let mut objects = cluster.client.subscribe("$O.>").await.unwrap();
    cluster
        .client
        .publish("wl.v1.c.s.ready", "".into())
        .await
        .unwrap();
    assert_eq!(
        soon("its own message", heard.next())
            .await
            .unwrap()
            .subject
            .as_str(),
        "wl.v1.c.s.ready"
    );
    for subject in FORBIDDEN_TO_SAY {
        a.client.publish(subject, "forged".into()).await.unwrap();
        a.refusal("publish", subject).await;
    }
    // The allowed message arrives after all refused ones, so a refused one would have arrived
    // before it.
    a.client
        .publish("wl.v1.c.t.a.up.allowed", "".into())
        .await
        .unwrap();
    let next = soon("the allowed message", heard.next()).await.unwrap();
    assert_eq!(next.subject.as_str(), "wl.v1.c.t.a.up.allowed");
    for ears in [&mut inboxes, &mut buckets, &mut objects] {
        assert!(
            tokio::time::timeout(Duration::from_millis(20), ears.next())
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn not_one_byte_of_another_tenants_traffic_arrives() {
    let broker = start();
    let credentials = broker.credentials().clone();
    let (stop, stopped) = watch::channel(false);
    let answers = AtomicUsize::new(0);
    let traffic = talk(credentials.clone(), stopped, &answers);
    let spying = async {
        let login = &credentials.tenant("a").unwrap().login;
        let address = credentials
            .url
            .with_login()
            .strip_prefix("nats://")
            .unwrap();
        let mut spy = TcpStream::connect(address).await.unwrap();
        let mut script = format!(
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"user\":\"{}\",\"pass\":\"{}\"}}\r\n",
            login.user, login.password
        );
        for (number, subject) in FORBIDDEN_TO_HEAR.iter().enumerate() {
            script += &format!(
                "SUB {subject} {number}\r\nSUB {subject} q {}\r\n",
                number + 100
            );
        }
        script += "SUB wl.v1.c.t.a.dn.> 999\r\nPING\r\n";
        spy.write_all(script.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        // The spy listens while b talks; the pings prove that its connection is alive throughout.
        let begun = Instant::now();
        let mut buffer = vec![0; 64 << 10];
        let mut pongs = 0;
        while answers.load(Ordering::Relaxed) < ANSWERS || pongs < PONGS {
            assert!(
                begun.elapsed() < HANGS,
                "b's traffic, or the spy's, stands still"
            );
            spy.write_all(b"PING\r\n").await.unwrap();
            let read = soon("a pong", spy.read(&mut buffer)).await.unwrap();
            assert_ne!(read, 0, "the spy was disconnected");
            received.extend_from_slice(&buffer[..read]);
            pongs = received.windows(4).filter(|word| word == b"PONG").count();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.send(true).unwrap();
        String::from_utf8(received).unwrap()
    };
    let ((), received) = tokio::join!(traffic, spying);
    let refused = received
        .to_lowercase()
        .matches("permissions violation for subscription")
        .count();
    assert_eq!(refused, 2 * FORBIDDEN_TO_HEAR.len(), "{received}");
    assert_eq!(received.matches("MSG").count(), 0, "{received}");
    assert!(!received.contains(SECRET));
}

#[tokio::test]
async fn nobody_connects_without_a_login() {
    let broker = start();
    assert!(async_nats::connect(broker.url()).await.is_err());
    let mut wrong = broker.credentials().tenant("a").unwrap().login.clone();
    wrong.password = broker
        .credentials()
        .tenant("b")
        .unwrap()
        .login
        .password
        .clone();
    assert!(
        support::try_connect(broker.url(), &wrong, "a", "_INBOX")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn the_server_lets_any_reply_subject_pass_so_responders_must_check_it() {
    // A fact on which callers depend: permissions cover the destination of a message, but not its
    // reply subject. A responder must refuse a reply subject outside the asking tenant's prefix.
    let broker = start();
    let worker = connect_cluster(broker.credentials(), "worker-77").await;
    let a = connect_tenant(broker.credentials(), "a").await;
    let mut requests = worker.client.subscribe("wl.v1.c.t.a.up.>").await.unwrap();
    support::settle(&worker.client).await;
    let sent = async {
        loop {
            let (subject, reply) = ("wl.v1.c.t.a.up.x", "wl.v1.c.t.b.dn.inbox.victim");
            a.client
                .publish_with_reply(subject, reply, "".into())
                .await
                .unwrap();
            let wait = tokio::time::timeout(Duration::from_millis(20), requests.next()).await;
            if let Ok(message) = wait {
                return message.unwrap();
            }
        }
    };
    let message = soon("the request", sent).await;
    assert_eq!(
        message.reply.unwrap().as_str(),
        "wl.v1.c.t.b.dn.inbox.victim"
    );
}
