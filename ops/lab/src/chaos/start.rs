//! The start of a run: a cluster of its own, the links of its roles, and the programs on it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admin::output;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use broker::Routes;
use test_cluster::{Link, Links};

use super::args::ChaosArgs;
use super::kinds;
use super::programs::{self, Life, Program};
use super::strikes::Strikes;
use super::watch::Watch;
use crate::demo::RunObserver;
use warploom_cli::local::{LocalCluster, LocalOptions};

/// Leader candidates.
pub(super) const LEADERS: usize = 3;
/// Workers.
pub(super) const WORKERS: usize = 2;
/// Capacity of a worker's device with overcommitted memory, and the bytes that each session holds on it. No
/// two sessions fit, but all of them do at 300 percent.
const CAPACITY: u64 = 4 << 20;
const HELD: u64 = 9 << 18;

/// The first of `count` free ports in a row.
fn free_ports(count: usize) -> Result<u16> {
    let bound = |port| TcpListener::bind(("127.0.0.1", port));
    for _ in 0..100 {
        let first = bound(0)?;
        let port = first.local_addr()?.port();
        let others = (port..=u16::MAX).skip(1).take(count - 1);
        let others: Vec<_> = others.map_while(|port| bound(port).ok()).collect();
        if others.len() == count - 1 {
            return Ok(port);
        }
    }
    bail!("no {count} ports in a row are free")
}

/// Starts a cluster, its links, and the programs on it.
pub(super) async fn start(args: &ChaosArgs, settings: &Settings, dir: &Path) -> Result<Strikes> {
    output::note("starting broker, leaders, workers and programs");
    let kinds = kinds::kinds((args.overcommit > 100).then_some(HELD));
    let mut options = LocalOptions::new(dir, "chaos")?;
    options.leaders = LEADERS;
    options.workers = WORKERS;
    options.evidence = true;
    options.configure(settings);
    options.tenants = kinds
        .iter()
        .map(|kind| (kind.tenant.clone(), kind.settings()))
        .collect();
    if args.overcommit > 100 {
        options.settings.extend([
            ("worker.capacity".to_owned(), format!("{CAPACITY}B")),
            ("worker.overcommit".to_owned(), args.overcommit.to_string()),
        ]);
    }
    options.brokers = args.brokers;
    // Links are made before the servers behind them, on ports that were free a moment ago.
    let port = free_ports(args.brokers)?;
    options.port = Some(port);
    let routes = match args.brokers {
        1 => None,
        several => {
            let mut routes = Routes::free(several)?;
            // Keeps roles on their links.
            routes.told_to_clients = false;
            let between = Links::before(&mut routes)?;
            options.routes = Some(routes);
            Some(between)
        }
    };
    let leaders = (0..LEADERS).map(|index| format!("leader-{index}"));
    let workers = (0..WORKERS).map(|index| format!("worker-{index}"));
    let names = leaders.chain(workers);
    let names = names.chain((0..kinds.len()).map(programs::name));
    let mut links = BTreeMap::new();
    for name in names {
        let ports = (port..).take(args.brokers);
        let made = ports.map(|port| Ok(Arc::new(Link::to(port).context("making a link")?)));
        let made: Vec<Arc<Link>> = made.collect::<Result<_>>()?;
        let urls = made
            .iter()
            .map(|link| format!("nats://127.0.0.1:{}", link.port()));
        let urls: Vec<String> = urls.collect();
        options.links.insert(name.clone(), urls.join(","));
        links.insert(name, made);
    }
    let cluster = LocalCluster::start(options).await?;
    let administrator = cluster.administrator().await?;
    let observer = RunObserver::start(&administrator).await?;
    let watch = Watch::start(&administrator).await?;
    let mut strikes = Strikes::new(cluster, administrator, (observer, watch), links, routes);
    for (index, kind) in kinds.into_iter().enumerate() {
        let life = Life {
            seed: args.seed.wrapping_mul(31).wrapping_add(index as u64),
            deadline: Duration::from_secs(args.deadline),
        };
        let program = Program::start(&strikes.cluster, index, kind, life, &strikes.pulse)?;
        strikes.programs.push(program);
    }
    Ok(strikes)
}
