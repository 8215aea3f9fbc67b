//! The start-up time of a broker, compared with a bare nats-server.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker::{Broker, BrokerConfig, NatsServer};

use super::bench_cluster::{Bench, TIMEOUT};
use super::goals;
use super::metric::Measurement;
use warploom_cli::local::Scratch;

/// Starts both, one after the other in every repetition.
pub(super) fn broker_start(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let given = bench.settings.given("broker.server").map(Path::new);
    let server = NatsServer::find(given, None)?;
    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for rep in 1..=bench.reps {
        eprintln!("broker_start: repetition {rep} of {}", bench.reps);
        let directory = Scratch::new()?;
        let mut config = BrokerConfig::new(directory.path().join("broker"), "bench");
        config.server = Some(server.path.clone());
        let began = Instant::now();
        let broker = Broker::start(&config)?;
        ours.push(milliseconds(began));
        drop(broker);
        bare.push(bare_start(&server.path, &directory.path().join("bare"))?);
        ratios.push(ours[rep - 1] / bare[rep - 1]);
    }
    let baseline = "bare nats-server with JetStream, ms";
    Ok(vec![
        Measurement::new(&goals::BROKER_START, &ours).against(baseline, &bare),
        Measurement::new(&goals::BROKER_START_RATIO, &ratios).against(baseline, &bare),
    ])
}

/// Milliseconds until a bare server accepts a connection.
fn bare_start(server: &Path, store: &Path) -> Result<f64> {
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let began = Instant::now();
    let mut command = Command::new(server);
    command.args(["--addr", "127.0.0.1", "--port"]);
    command.arg(free.port().to_string());
    command.arg("--jetstream").arg("--store_dir").arg(store);
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting a bare nats-server")?;
    let taken = loop {
        match TcpStream::connect(free) {
            Ok(_) => break true,
            Err(_) if began.elapsed() > TIMEOUT => break false,
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    };
    let took = milliseconds(began);
    process.kill()?;
    process.wait()?;
    if !taken {
        bail!("a bare nats-server takes no connection on {free}");
    }
    Ok(took)
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
