//! Three servers: messages cross between them, logins are the same on each, and stored data is
//! replicated and survives the loss of any one server.

mod support;

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use broker::{Broker, BrokerConfig, Credentials, Lifetime, Routes};
use bus_schemas::subject::Subjects;
use futures_util::StreamExt;
use support::{Connection, connect_cluster, connect_tenant, settle, soon, try_connect};
use test_cluster::TestBroker;

fn three() -> TestBroker {
    TestBroker::with("test", &["a", "b"], |config| config.servers = 3)
}

/// A connection of the cluster's user to one server, without failover.
async fn at(credentials: &Credentials, url: &str, name: &str) -> Connection {
    connect_cluster(&only(credentials, url), name).await
}

/// Credentials with the address of one server only.
fn only(credentials: &Credentials, url: &str) -> Credentials {
    Credentials {
        url: url.into(),
        ..credentials.clone()
    }
}

fn subjects(credentials: &Credentials) -> Subjects {
    credentials.subjects().expect("a cluster")
}

/// A stream with three replicas, created as soon as the servers have elected a leader.
async fn replicated(jetstream: &jetstream::Context, subjects: &Subjects) -> stream::Stream {
    let config = || stream::Config {
        name: "kept".into(),
        subjects: vec![format!("{}.kept", subjects.cluster_inbox())],
        num_replicas: 3,
        ..stream::Config::default()
    };
    let asked = Instant::now();
    loop {
        match jetstream.get_or_create_stream(config()).await {
            Ok(stream) => return stream,
            Err(error) if asked.elapsed() > Duration::from_secs(30) => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Appends until it is acknowledged. The message id makes repeated attempts idempotent.
async fn append(jetstream: &jetstream::Context, subject: &str, number: u64) {
    let asked = Instant::now();
    loop {
        let message = jetstream::message::PublishMessage::build()
            .message_id(format!("{number}"))
            .payload(number.to_be_bytes().to_vec().into());
        let sent = jetstream.send_publish(subject.to_owned(), message).await;
        let acknowledged = match sent {
            Ok(sent) => tokio::time::timeout(Duration::from_millis(500), sent).await,
            Err(error) => panic!("{error}"),
        };
        if matches!(acknowledged, Ok(Ok(_))) {
            return;
        }
        assert!(
            asked.elapsed() < Duration::from_secs(40),
            "{number}: {acknowledged:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// All stored numbers, in order.
async fn stored(stream: &stream::Stream) -> Vec<u64> {
    let last = stream.get_info().await.expect("its state").state;
    let mut numbers = Vec::new();
    for sequence in last.first_sequence..=last.last_sequence {
        let message = stream.get_raw_message(sequence).await.expect("a message");
        numbers.push(u64::from_be_bytes(
            message.payload[..].try_into().expect("a number"),
        ));
    }
    numbers
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    for servers in [0, 2, 4] {
        let refused = TestBroker::try_with("test", &[], |config| config.servers = servers);
        let error = refused.err().expect("it is refused");
        assert_eq!(error.code(), "E-BROKER-SERVERS", "{servers}");
    }
}

#[test]
fn a_state_directory_keeps_its_number_of_servers() {
    let dir = test_cluster::TempDir::new().unwrap();
    let mut config = BrokerConfig::new(dir.path(), "test");
    config.lifetime = Lifetime::Ephemeral;
    drop(Broker::start(&config).unwrap());
    config.servers = 3;
    let error = Broker::start(&config).err().expect("it is refused");
    assert_eq!(error.code(), "E-BROKER-SERVERS-OTHER");
    let said = error.to_string();
    for remedy in [
        "up --brokers 1",
        "anew with 3 in another",
        "docs/howto/broker.md",
    ] {
        assert!(said.contains(remedy), "{said}");
    }
}

#[tokio::test]
async fn messages_cross_and_logins_are_the_same_on_every_server() {
    let mut broker = three();
    broker.add_tenant("late").unwrap();
    let credentials = broker.credentials().clone();
    let subjects = subjects(&credentials);
    let urls = credentials.urls();
    assert_eq!(urls.len(), 3);
    let mut leader = at(&credentials, urls[0], "one").await;
    let heard = format!("{}.>", subjects.tenant_outbound(&"late".parse().unwrap()));
    let mut messages = leader
        .client
        .subscribe(heard.replace(".>.>", ".>"))
        .await
        .unwrap();
    settle(&leader.client).await;
    let login = &credentials.tenant("late").unwrap().login;
    let inbox = credentials.tenant_inbox("late").unwrap();
    for url in &urls {
        let mut tenant = connect_tenant(&only(&credentials, url), "late").await;
        let subject = subjects
            .tenant_outbound(&"late".parse().unwrap())
            .replace('>', "x");
        // Subscriptions propagate between servers asynchronously.
        let crossed = async {
            loop {
                tenant
                    .client
                    .publish(subject.clone(), "x".into())
                    .await
                    .unwrap();
                let next = tokio::time::timeout(Duration::from_millis(50), messages.next());
                if let Ok(Some(_)) = next.await {
                    return;
                }
            }
        };
        soon("a message over a route", crossed).await;
        tenant
            .client
            .publish("wl.v1.test.x", "x".into())
            .await
            .unwrap();
        tenant.refusal("publish", "wl.v1.test.x").await;
        while let Ok(Some(_)) =
            tokio::time::timeout(Duration::from_millis(100), messages.next()).await
        {}
    }
    broker.remove_tenant("late").unwrap();
    for url in &urls {
        let refused = try_connect(url, login, "late", &inbox).await;
        assert!(refused.is_err(), "{url} knows nobody of that name any more");
    }
    drop(leader.events.try_recv());
}

#[tokio::test]
async fn a_route_wants_the_secret() {
    let broker = three();
    let config = std::fs::read_to_string(
        broker
            .credentials_path()
            .with_file_name("server-1")
            .join("nats-server.conf"),
    )
    .unwrap();
    let port: u16 = config
        .split("cluster {")
        .nth(1)
        .and_then(|block| block.split("port: ").nth(1))
        .and_then(|rest| rest.lines().next())
        .and_then(|port| port.parse().ok())
        .expect("the routes' port");
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stranger = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    let hello =
        "CONNECT {\"verbose\":false,\"name\":\"stranger\",\"cluster\":\"test\"}\r\nPING\r\n";
    stranger.write_all(hello.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    soon("it is shown the door", stranger.read_to_end(&mut heard))
        .await
        .unwrap();
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("Authorization Violation"), "{heard}");
}

#[tokio::test]
async fn what_is_stored_survives_each_server_in_turn() {
    let mut broker = three();
    let credentials = broker.credentials().clone();
    let subjects = subjects(&credentials);
    let subject = format!("{}.kept", subjects.cluster_inbox());
    let login = credentials.cluster_user.clone().unwrap();
    let client = async_nats::ConnectOptions::with_user_and_password(login.user, login.password)
        .custom_inbox_prefix(subjects.cluster_inbox())
        .ping_interval(Duration::from_secs(1))
        .connection_timeout(Duration::from_secs(1))
        .connect(credentials.urls())
        .await
        .unwrap();
    let mut jetstream = jetstream::new(client);
    jetstream.set_timeout(Duration::from_secs(2));
    let stream = replicated(&jetstream, &subjects).await;
    let mut number = 0;
    let mut more = async || {
        for _ in 0..20 {
            number += 1;
            append(&jetstream, &subject, number).await;
        }
    };
    more().await;
    for victim in 0..3 {
        broker.servers_mut()[victim].kill().unwrap();
        more().await;
        broker.servers_mut()[victim].restart().unwrap();
        more().await;
        broker.servers()[victim].pause().unwrap();
        more().await;
        broker.servers()[victim].resume().unwrap();
        more().await;
        in_step(&stream).await;
        broker.servers_mut()[victim].restart_empty().unwrap();
        more().await;
        in_step(&stream).await;
    }
    let all: Vec<u64> = (1..=number).collect();
    assert_eq!(stored(&stream).await, all);
}

/// Waits until all three replicas are equal: with one behind, the loss of another would be too
/// much.
async fn in_step(stream: &stream::Stream) {
    let asked = Instant::now();
    loop {
        let cluster = match stream.get_info().await {
            Ok(info) => info.cluster,
            Err(_) => None,
        };
        let current = cluster.as_ref().is_some_and(|cluster| {
            let replicas = &cluster.replicas;
            let equal = |peer: &stream::PeerInfo| peer.current && peer.lag.unwrap_or(0) == 0;
            cluster.leader.is_some() && replicas.len() == 2 && replicas.iter().all(equal)
        });
        if current {
            return;
        }
        assert!(asked.elapsed() < Duration::from_secs(40), "{cluster:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn servers_go_through_the_proxies_they_are_told_of() {
    let mut routes = Routes::free(3).unwrap();
    let direct = routes.listen.clone();
    // The address for the third server has no listener, and the third dials ports without
    // listeners.
    for row in 0..3 {
        for column in 0..3 {
            if (row == 2) != (column == 2) {
                routes.dial[row][column] = 1;
            }
        }
    }
    let broker = TestBroker::with("test", &["a"], |config| {
        config.servers = 3;
        config.routes = Some(routes);
    });
    let credentials = broker.credentials().clone();
    let subjects = subjects(&credentials);
    let urls = credentials.urls();
    let first = at(&credentials, urls[0], "first").await;
    let subject = format!("{}.x", subjects.cluster_inbox());
    let mut connections = Vec::new();
    for url in &urls[1..] {
        let other = at(&credentials, url, "other").await;
        let heard = other.client.subscribe(subject.clone()).await.unwrap();
        settle(&other.client).await;
        connections.push((other, heard));
    }
    let crossed = async {
        loop {
            first
                .client
                .publish(subject.clone(), "x".into())
                .await
                .unwrap();
            let next = tokio::time::timeout(Duration::from_millis(50), connections[0].1.next());
            if let Ok(Some(_)) = next.await {
                return;
            }
        }
    };
    soon("a message over the one route there is", crossed).await;
    // Enough time for servers to have exchanged their ports, if they did.
    tokio::time::sleep(Duration::from_secs(2)).await;
    first.client.publish(subject, "x".into()).await.unwrap();
    settle(&first.client).await;
    let cut = tokio::time::timeout(Duration::from_millis(500), connections[1].1.next()).await;
    assert!(cut.is_err(), "{cut:?} went past {direct:?}");
}

/// Clients that are told of other servers connect to them past the proxies.
#[tokio::test]
async fn clients_are_told_of_the_other_servers_unless_they_are_not_to_be() {
    for told in [true, false] {
        let mut routes = Routes::free(3).unwrap();
        routes.told_to_clients = told;
        let broker = TestBroker::with("test", &[], |config| {
            config.servers = 3;
            config.routes = Some(routes);
        });
        let credentials = broker.credentials().clone();
        let url = credentials.urls()[0].to_owned();
        // Servers first tell one another.
        let asked = Instant::now();
        let heard = loop {
            let connection = at(&credentials, &url, "one").await;
            let others = connection.client.server_info().connect_urls;
            let patience = Duration::from_secs(if told { 20 } else { 2 });
            if (told && others.len() >= 3) || asked.elapsed() > patience {
                break others;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        match told {
            true => assert!(heard.len() >= 3, "{heard:?}"),
            false => assert!(heard.is_empty(), "{heard:?}"),
        }
    }
}
