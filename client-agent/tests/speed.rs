//! The cost of a call: `cargo test --release -p client-agent --test speed -- --ignored --nocapture`

mod peer;

use std::time::{Duration, Instant};

use counting_allocator::{CountingAllocator, counted};
use futures_util::StreamExt;
use peer::Cluster;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
#[ignore = "measures"]
fn an_enqueue_costs_little_and_a_sync_little_more_than_its_hops() {
    let cluster = Cluster::start();
    let (_client, session) = cluster.open();
    let image = include_bytes!("../../tests/kernels/empty.ptx");
    let module = session.load(image).expect("a module");
    let empty = module.function("empty").expect("an entry");
    let launch = || {
        session
            .launch(&empty, [1; 3], [32, 1, 1], 0, &[])
            .expect("taken")
    };

    let (mut spent, mut allocated, mut best) = (Duration::ZERO, 0, Duration::MAX);
    let bursts = 100;
    for burst in 0..bursts + 10 {
        let start = Instant::now();
        let ((), seen) = counted(|| (0..1000).for_each(|_| launch()));
        let took = start.elapsed();
        if burst >= 10 {
            spent += took;
            best = best.min(took);
            allocated += seen.allocations;
        }
        session.sync().expect("done");
        cluster.knobs.launches.lock().expect("unpoisoned").clear();
    }
    println!(
        "enqueue: mean {:?}, best {:?}, {:.4} allocations",
        spent / (bursts * 1000),
        best / 1000,
        allocated as f64 / f64::from(bursts * 1000)
    );

    let echo = Echo::start(&cluster);
    let (mut syncs, mut echoes) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let start = Instant::now();
        launch();
        session.sync().expect("done");
        syncs.push(start.elapsed());
        echoes.push(echo.ask());
    }
    syncs.sort();
    echoes.sort();
    println!(
        "launch and sync p50 {:?}, request and reply p50 {:?}",
        syncs[250], echoes[250]
    );
}

/// A bare request through a bare responder.
struct Echo {
    runtime: tokio::runtime::Runtime,
    bus: async_nats::Client,
    _thread: std::thread::JoinHandle<()>,
}

impl Echo {
    fn start(cluster: &Cluster) -> Self {
        let login = cluster
            .broker
            .credentials()
            .cluster_user
            .clone()
            .expect("a login");
        let url = cluster.broker.url().to_owned();
        let connect = move |login: broker::Login, url: String| async move {
            async_nats::ConnectOptions::with_user_and_password(login.user, login.password)
                .connect(url)
                .await
                .expect("a connection")
        };
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().expect("a runtime")
        };
        let (theirs, their_url) = (login.clone(), url.clone());
        let (ready, readied) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let bus = connect(theirs, their_url).await;
                let mut asked = bus.subscribe("wl.v1.test.s.echo").await.expect("heard");
                bus.flush().await.expect("flushed");
                let _ = ready.send(());
                while let Some(message) = asked.next().await {
                    if let Some(reply) = message.reply {
                        let _ = bus.publish(reply, message.payload).await;
                    }
                }
            });
        });
        readied.recv().expect("it is ready");
        std::thread::sleep(Duration::from_millis(50));
        let ours = runtime();
        let bus = ours.block_on(connect(login, url));
        Self {
            runtime: ours,
            bus,
            _thread: thread,
        }
    }

    fn ask(&self) -> Duration {
        let start = Instant::now();
        let asked = self.bus.request("wl.v1.test.s.echo", vec![0; 200].into());
        self.runtime.block_on(asked).expect("an answer");
        start.elapsed()
    }
}
