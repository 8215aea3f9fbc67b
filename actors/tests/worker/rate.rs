//! The shell's cost, measured by hand: `cargo test --release -p actors --test worker rate
//! -- --ignored --nocapture --test-threads 1`.

use std::time::{Duration, Instant};

use bus_schemas::{GrantKind, Op, WorkerAck, decode};
use futures_util::StreamExt;

use crate::driven::{DrivenWorker, Program, grant};
use crate::tour::{IMAGE, result, stage_module};

const BATCH: u64 = 64;

fn load() -> Program {
    Program::default().plain(Op::LoadModule {
        slot: 0,
        hash: bus_schemas::ModuleHash::of(IMAGE),
    })
}

async fn loaded() -> DrivenWorker {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    stage_module(&mut driven, 1, 1).await;
    driven.run(1, 1, &load()).await;
    driven.ack(|ack| ack.done == 1).await;
    driven
}

#[tokio::test]
#[ignore = "a measurement"]
async fn rate_of_empty_launches() {
    let mut driven = loaded().await;
    let program = (0..BATCH).fold(Program::default(), |p, _| p.launch(IMAGE, 0, "run"));
    let (mut sent, mut granted, mut done, mut credit) = (1, 1, 1, 1_024);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        while sent + BATCH <= credit && sent < done + 8_192 {
            driven.batch(1, sent + 1, &program).await;
            sent += BATCH;
        }
        let heard = driven.client_heard(".worker").await;
        let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
        assert_eq!(ack.failure, None);
        (done, credit) = (ack.done.max(done), ack.send_through.max(credit));
        // Granting what is received keeps this driver, which never rewinds, free of voids.
        let mut slices = Vec::new();
        while granted + BATCH <= ack.received {
            let (first, last) = (granted + 1, granted + BATCH);
            slices.push(grant(GrantKind::Run, 1, first, last, program.declared));
            granted = last;
        }
        driven.reports = driven.reports.max(done / BATCH);
        if !slices.is_empty() {
            driven.order(&slices).await;
        }
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    println!("{rate:.0} launches/s in batches and slices of {BATCH}");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn rate_of_synchronous_launches() {
    let mut driven = loaded().await;
    // A bare responder on a thread of its own, for comparison.
    let url = driven.cluster.url().to_owned();
    let cluster = driven.cluster.credentials().cluster_user.clone().unwrap();
    let echo = driven.subjects.grants(bus_schemas::Incarnation(99));
    let subject = echo.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let options =
                async_nats::ConnectOptions::with_user_and_password(cluster.user, cluster.password);
            let client = options.connect(url).await.unwrap();
            let mut heard = client.subscribe(subject).await.unwrap();
            while let Some(message) = heard.next().await {
                let reply = message.reply.unwrap();
                client.publish(reply, message.payload).await.unwrap();
            }
        });
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let program = || Program::default().launch(IMAGE, 0, "run").plain(Op::Sync);
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..3_000_u64 {
        let began = Instant::now();
        let first = 2 + 2 * round;
        driven.batch(1, first, &program()).await;
        let slice = grant(GrantKind::Run, 1, first, first + 1, program().declared);
        driven.reports = driven.reports.max(round);
        driven.order(&[slice]).await;
        assert_eq!(result(&mut driven).await.0, first + 1);
        ours.push(began.elapsed());
        let began = Instant::now();
        let payload = program().batch(first);
        driven
            .leader
            .request(echo.clone(), payload.into())
            .await
            .unwrap();
        bare.push(began.elapsed());
        if round % 16 == 0 {
            driven.state(1, round + 1).await;
        }
    }
    let middle = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    println!(
        "sync launch p50 {:?}, bare request p50 {:?}",
        middle(&mut ours),
        middle(&mut bare)
    );
}
