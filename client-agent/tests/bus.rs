//! The client on a real broker, with a leader and a worker driven by hand.

mod peer;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{Code, Failure, OpenAnswer, RequestReport, SessionId, encode};
use client_agent::{Client, Error, Settings, SpanId, TraceContext, TraceId};
use futures_util::StreamExt as _;
use peer::Cluster;

const EMPTY: &[u8] = include_bytes!("../../tests/kernels/empty.ptx");
const SAXPY: &[u8] = include_bytes!("../../tests/kernels/saxpy.ptx");

/// Time after which a call counts as stuck, long enough for a busy machine.
const HANGS: Duration = Duration::from_secs(30);

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_of_any_size_come_back() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    for length in [1, 16 << 10, (16 << 10) + 1, 64 << 10, 300_000, 9 << 20] {
        let sent = pattern(length);
        let address = session.alloc(length as u64).unwrap();
        session.copy_in(address, &sent).unwrap();
        let mut back = vec![0; length];
        session.copy_out(address, &mut back).unwrap();
        assert!(sent == back, "{length} bytes differ");
        session.free(address).unwrap();
    }
    session.close().unwrap();
}

#[test]
fn a_sync_behind_a_copy_to_the_host_asks_again_only_for_what_kernels_print() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    let address = session.alloc(9 << 20).unwrap();
    let mut back = vec![0; 9 << 20];
    session.copy_in(address, &pattern(100)).unwrap();
    session.copy_out(address, &mut back).unwrap();
    assert!(!session.sync_through(session.channel().last()).unwrap());
    // After more work it asks.
    session.copy_in(address, &pattern(100)).unwrap();
    assert!(session.sync_through(session.channel().last()).unwrap());
    let printing = "\n.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n";
    let mut image = String::from_utf8(EMPTY.to_vec()).unwrap();
    let entry = image.find(".visible").unwrap();
    image.insert_str(entry, printing);
    session.load(image.as_bytes()).unwrap();
    session.copy_out(address, &mut back).unwrap();
    assert!(session.sync_through(session.channel().last()).unwrap());
    session.close().unwrap();
}

#[test]
fn lost_messages_cost_time_only() {
    let cluster = Cluster::start();
    cluster.knobs.lose.store(3, Ordering::Relaxed);
    let (_client, session) = cluster.open();
    let sent = pattern(700_000);
    let address = session.alloc(700_000).unwrap();
    session.copy_in(address, &sent).unwrap();
    for _ in 0..5 {
        session.sync().unwrap();
    }
    let mut back = vec![0; 700_000];
    session.copy_out(address, &mut back).unwrap();
    assert!(sent == back);
    session.close().unwrap();
}

#[test]
fn modules_travel_once_and_launches_arrive_as_called() {
    let cluster = Cluster::start();
    let (client, session) = cluster.open();
    let module = session.load(SAXPY).unwrap();
    assert_eq!(module.functions().collect::<Vec<_>>(), ["saxpy"]);
    let saxpy = module.function("saxpy").unwrap();
    let params = pattern(24);
    for blocks in 1..=600 {
        session
            .launch(&saxpy, [blocks, 1, 1], [128, 1, 1], 0, &params)
            .unwrap();
    }
    session.sync().unwrap();
    let launches = cluster.knobs.launches.lock().unwrap().clone();
    let expected: Vec<_> = (1..=600)
        .map(|blocks| (0, blocks, params.clone()))
        .collect();
    assert_eq!(launches, expected);
    // On a busy machine, each launch may find the previous batch already sent.
    let batches = cluster.knobs.batches.load(Ordering::Relaxed);
    assert!(batches < 300, "launches are batched: {batches}");

    let other = client.open().unwrap();
    let again = other.load(SAXPY).unwrap();
    other.unload(again).unwrap();
    other.load(SAXPY).unwrap();
    other.sync().unwrap();
    let bytes = cluster.knobs.image_bytes.load(Ordering::Relaxed);
    assert!(bytes <= 2 * SAXPY.len() as u64, "{bytes}");
    session.close().unwrap();
    other.close().unwrap();
}

#[test]
fn mistakes_are_told_at_once_and_end_nothing() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    let code = |error: Error| {
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        error.code()
    };
    let error = session
        .load(b".version 8.0\n.target sm_75\nnonsense\n")
        .unwrap_err();
    assert!(error.to_string().contains("line 3, column 1"), "{error}");
    assert_eq!(code(error), Code::BadModule);
    // It parses; the worker's device reports the error.
    let unknown = b".version 8.0\n.target sm_75\n.address_size 64\n.entry f() {\nfrobnicate;\n}\n";
    for _ in 0..2 {
        let error = session.load(unknown).unwrap_err();
        assert!(error.to_string().contains("line 5"), "{error}");
        assert_eq!(code(error), Code::BadModule);
    }
    let module = session.load(SAXPY).unwrap();
    let error = module.function("sxapy").unwrap_err();
    assert!(error.to_string().contains("saxpy"), "{error}");
    assert_eq!(code(error), Code::UnknownFunction);
    let saxpy = module.function("saxpy").unwrap();
    let launch = |grid, block, shared, params: &[u8]| {
        code(
            session
                .launch(&saxpy, grid, block, shared, params)
                .unwrap_err(),
        )
    };
    let params = [0; 24];
    assert_eq!(
        launch([1, 1, 1], [1, 1, 1], 0, &params[1..]),
        Code::BadLaunch
    );
    assert_eq!(launch([0, 1, 1], [1, 1, 1], 0, &params), Code::BadLaunch);
    assert_eq!(
        launch([1, 65_536, 1], [1, 1, 1], 0, &params),
        Code::BadLaunch
    );
    assert_eq!(launch([1, 1, 1], [32, 33, 1], 0, &params), Code::BadLaunch);
    assert_eq!(
        launch([1, 1, 1], [1, 1, 1], 1 << 20, &params),
        Code::LaunchResources
    );
    assert_eq!(code(session.alloc(2 << 30).unwrap_err()), Code::Quota);
    assert_eq!(code(session.alloc(0).unwrap_err()), Code::BadAddress);
    let address = session.alloc(100).unwrap();
    assert_eq!(
        code(session.copy_in(address + 90, &[0; 11]).unwrap_err()),
        Code::BadAddress
    );
    assert_eq!(
        code(session.copy_out(5, &mut [0]).unwrap_err()),
        Code::BadAddress
    );
    assert_eq!(
        code(session.free(address + 1).unwrap_err()),
        Code::BadAddress
    );
    assert_eq!(
        code(session.set(address + 1, 1, 0, 4).unwrap_err()),
        Code::BadAddress
    );
    session.sync().unwrap();
    session.close().unwrap();
}

#[test]
fn a_fault_is_the_error_of_everything_after_it_and_nobody_elses() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let faulty = client.open().unwrap();
    cluster.knobs.fault.store(2, Ordering::Relaxed);
    faulty.sync().unwrap();
    let error = faulty.sync().unwrap_err();
    assert!(matches!(&error, Error::Session(_)), "{error:?}");
    assert_eq!(error.code(), Code::IllegalAddress);
    assert_eq!(faulty.alloc(1).unwrap_err().code(), Code::IllegalAddress);
    assert_eq!(
        faulty.failure().map(|failure| failure.code),
        Some(Code::IllegalAddress)
    );
    cluster.knobs.fault.store(0, Ordering::Relaxed);
    let other = client.open().unwrap();
    other.sync().unwrap();
    other.sync().unwrap();
    assert_eq!(faulty.close().unwrap_err().code(), Code::IllegalAddress);
    other.close().unwrap();
}

#[test]
fn a_restarted_broker_is_survived() {
    let mut cluster = Cluster::start();
    let (_client, session) = cluster.open();
    session.sync().unwrap();
    cluster.broker.kill().unwrap();
    let address = session.alloc(4).unwrap();
    session.copy_in(address, b"kept").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    cluster.broker.restart().unwrap();
    let mut back = [0; 4];
    session.copy_out(address, &mut back).unwrap();
    assert_eq!(&back, b"kept");
    session.close().unwrap();
}

#[test]
fn every_submitted_op_is_in_the_log_once() {
    let cluster = Cluster::start();
    cluster.knobs.lose.store(4, Ordering::Relaxed);
    let path = cluster.broker.dir().join("submitted.jsonl");
    let mut settings = cluster.settings();
    settings.submitted = Some(path.clone());
    let client = Client::connect(settings).unwrap();
    let session = client.open().unwrap();
    for _ in 0..20 {
        session.sync().unwrap();
    }
    session.close().unwrap();
    drop(client);
    let log = std::fs::read_to_string(path).unwrap();
    let mut next = 1;
    for line in log.lines() {
        let number = |key: &str| -> u64 {
            let rest = line.split_once(&format!("\"{key}\":")).unwrap().1;
            let digits = rest.split([',', '}']).next().unwrap();
            digits.parse().unwrap()
        };
        assert!(
            line.starts_with("{\"session\":\"0000000000000001\",\"tenant\":\"a\""),
            "{line}"
        );
        assert_eq!((number("ordinal"), number("first")), (1, next));
        next = number("last") + 1;
    }
    assert_eq!(next, 21);
}

#[test]
fn requests_are_reported_with_the_programs_span_and_none_is_lost_at_the_end() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    session.sync().unwrap();
    let context = |trace: u8| TraceContext {
        trace: TraceId([trace; 16]),
        span: SpanId([0xab; 8]),
        sampled: true,
    };
    session.set_trace(Some(&context(1).traceparent()));
    let address = session.alloc(1000).unwrap();
    session.copy_in(address, &[7; 1000]).unwrap();
    session.sync().unwrap();
    client_agent::set_traceparent(Some(&context(2).traceparent())).unwrap();
    session.sync().unwrap();
    client_agent::set_traceparent(None).unwrap();
    session.set_trace(None);
    session.sync().unwrap();
    let id = session.id();
    session.close().unwrap();
    let reports = cluster.knobs.reports.lock().unwrap().clone();
    let parent = |(session, report): &(SessionId, RequestReport)| {
        assert_eq!(*session, id);
        assert!(report.began <= report.waited && report.waited <= report.ended);
        (report.first, report.last, report.parent)
    };
    let parents: Vec<_> = reports.iter().map(parent).collect();
    let (one, two) = (Some(context(1)), Some(context(2)));
    assert_eq!(
        parents,
        [(1, 1, None), (2, 4, one), (5, 5, two), (6, 6, None)]
    );
}

#[test]
fn many_threads_share_a_session() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let session = &session;
            scope.spawn(move || {
                let address = session.alloc(1000).unwrap();
                for round in 0..30 {
                    let bytes = [thread * 30 + round; 1000];
                    session.copy_in(address, &bytes).unwrap();
                    let mut back = [0; 1000];
                    session.copy_out(address, &mut back).unwrap();
                    assert_eq!(bytes, back);
                }
            });
        }
    });
    session.close().unwrap();
}

#[test]
fn launches_leave_though_nobody_waits() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    let empty = session.load(EMPTY).unwrap().function("empty").unwrap();
    let ran = || cluster.knobs.launches.lock().unwrap().len();
    // Right after a wait no thread may drive the connection; after a pause its own thread does.
    for round in 1..=20 {
        session.sync().unwrap();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        session.launch(&empty, [1; 3], [1; 3], 0, &[]).unwrap();
        let start = Instant::now();
        while ran() < round {
            assert!(start.elapsed() < HANGS, "round {round}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    session.close().unwrap();
}

#[test]
fn waits_within_a_runtime_and_without_share_a_connection() {
    let cluster = Cluster::start();
    let client = cluster.client();
    std::thread::scope(|scope| {
        for within in [false, true, false, true] {
            let client = &client;
            scope.spawn(move || {
                let session = client.open().unwrap();
                let syncs = || (0..200).for_each(|_| session.sync().unwrap());
                match within {
                    false => syncs(),
                    true => tokio::runtime::Builder::new_current_thread()
                        .build()
                        .unwrap()
                        .block_on(async { syncs() }),
                }
                session.close().unwrap();
            });
        }
    });
}

#[test]
fn dropped_clients_close_their_sessions() {
    let cluster = Cluster::start();
    let (client, session) = cluster.open();
    session.sync().unwrap();
    drop(client);
    assert_eq!(session.sync().unwrap_err().code(), Code::SessionGone);
}

#[test]
fn without_a_broker_a_login_or_a_leader_the_reason_is_told() {
    let mut settings = Settings::new("nats://127.0.0.1:1", "test", "a");
    settings.patience = Duration::from_millis(100);
    assert!(matches!(Client::connect(settings), Err(Error::Connect(_))));

    let broker = test_cluster::TestBroker::start();
    let wrong = Settings::new(broker.url(), "test", "a").with_login("tenant-a", "wrong");
    let error = Client::connect(wrong).unwrap_err().to_string();
    assert!(error.contains("refuses the login"), "{error}");

    let login = &broker.credentials().tenant("a").unwrap().login;
    let mut settings =
        Settings::new(broker.url(), "test", "a").with_login(&login.user, &login.password);
    settings.patience = Duration::from_millis(200);
    let client = Client::connect(settings).unwrap();
    assert_eq!(client.open().unwrap_err().code(), Code::NoLeader);
    let bad = Settings::new(broker.url(), "test", "A.b");
    assert_eq!(Client::connect(bad).unwrap_err().code(), Code::BadSettings);
}

#[test]
fn a_leader_that_is_late_is_waited_for_longer_than_none() {
    let broker = test_cluster::TestBroker::start();
    let login = &broker.credentials().tenant("a").unwrap().login;
    let mut settings =
        Settings::new(broker.url(), "test", "a").with_login(&login.user, &login.password);
    settings.patience = Duration::from_secs(1);
    let client = Client::connect(settings).unwrap();
    let cluster = broker.credentials().cluster_user.clone().unwrap();
    let (hears, heard) = std::sync::mpsc::channel();
    let url = broker.url().to_owned();
    // A leader that receives requests for two patiences without an answer, and then refuses.
    let leader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let options =
                async_nats::ConnectOptions::with_user_and_password(cluster.user, cluster.password);
            let bus = options.connect(url).await.unwrap();
            let subjects = Subjects::new(&"test".parse().unwrap());
            let subject = subjects.to_leader(&"a".parse().unwrap(), ToLeader::Open);
            let mut asked = bus.subscribe(subject).await.unwrap();
            bus.flush().await.unwrap();
            hears.send(()).unwrap();
            let begun = Instant::now();
            while let Some(request) = asked.next().await {
                if begun.elapsed() > Duration::from_secs(2) {
                    let failure = Failure::new(Code::BadSettings, "late, and not dead");
                    let answer = OpenAnswer::refusal(failure);
                    bus.publish(request.reply.unwrap(), encode(&answer).into())
                        .await
                        .unwrap();
                    bus.flush().await.unwrap();
                    break;
                }
            }
        });
    });
    heard.recv().unwrap();
    assert_eq!(client.open().unwrap_err().code(), Code::BadSettings);
    leader.join().unwrap();
}

#[test]
fn futures_run_on_any_executor() {
    let cluster = Cluster::start();
    let client = cluster.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = client.open_async().await.unwrap();
        let address = session.alloc(8).unwrap();
        session.copy_in(address, &[5; 8]).unwrap();
        let mut back = [0; 8];
        session.copy_out_async(address, &mut back).await.unwrap();
        assert_eq!(back, [5; 8]);
        session.sync_async().await.unwrap();
        session.close_async().await.unwrap();
    });
}
