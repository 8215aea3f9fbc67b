//! The cost of equal weights: ten sessions that copy the same bytes, of one tenant and of ten.

use std::time::Instant;

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::{TenantSettings, limits};
use client_agent::{Client, Session, Settings as Login};

use test_cluster::{Processes, TestCluster};

use super::bench_cluster::cpu_cluster_of;
use super::memory::stored_bytes;
use super::metric::{Goal, Measurement, metrics};

metrics! {
    RESIDENT = "resident_ratio_10", "ratio", Goal::AtMost(1.1),
        "memory of a worker with ten sessions of one tenant that copied the same weights / one copy and the private parts";
    BUS = "bus_bytes_ratio", "ratio", Goal::AtMost(0.02),
        "bytes that the second to tenth program sends, each / that the first sends";
    WARM = "warm_start_speedup", "ratio", Goal::AtLeast(5.0),
        "time from connecting to the last weight on the device: of the first program / of the second to tenth";
    ALL = "resident_ratio_all", "ratio", Goal::AtMost(1.1),
        "as resident_ratio_10, with ten tenants and worker.share = all: every byte is sent";
}

/// Programs that copy the same bytes.
const PROGRAMS: usize = 10;
/// The weights: number of tensors, bytes of each, and bytes that each program has beside.
const TENSORS: usize = 32;
const TENSOR: usize = 8 << 20;
const PRIVATE: usize = 4 << 20;
/// The tenants of the programs.
const TENANTS: [&str; PROGRAMS] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];

/// Bytes in which no two pages are alike.
fn tensor(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let words = (0..bytes / 8).flat_map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).to_le_bytes()
    });
    words.collect()
}

/// A program with its weights in place.
struct Program {
    seconds: f64,
    sent: u64,
    session: Session,
    _client: Client,
}

impl Program {
    fn start(login: Login, weights: &[Vec<u8>], own: &[u8]) -> Result<Self> {
        let began = Instant::now();
        let client = Client::connect(login)?;
        let session = client.open()?;
        for tensor in weights {
            let at = session.alloc(tensor.len() as u64)?;
            session.copy_in(at, tensor)?;
        }
        session.sync()?;
        let (seconds, sent) = (began.elapsed().as_secs_f64(), session.bytes_sent());
        let at = session.alloc(own.len() as u64)?;
        session.copy_in(at, own)?;
        session.sync()?;
        Ok(Self {
            seconds,
            sent,
            session,
            _client: client,
        })
    }
}

/// Cost of ten programs.
struct Cost {
    resident: f64,
    bus: f64,
    warm: f64,
    first: f64,
}

/// Runs ten programs, one after the other, each of a tenant.
fn programs(cluster: &TestCluster<Processes>, tenants: &[&str], seed: u64) -> Result<Cost> {
    let weights: Vec<_> = (0..TENSORS as u64)
        .map(|n| tensor(seed << 32 | n, TENSOR))
        .collect();
    let worker = cluster.workers.first().context("a worker")?.pid();
    let credentials = cluster.broker.credentials();
    let before = stored_bytes(worker)?;
    let mut programs = Vec::new();
    for (n, tenant) in (0_u64..).zip(tenants) {
        let (user, password) = cluster.tenant_login(tenant);
        let login = Login::new(&credentials.url, &credentials.cluster, *tenant);
        let own = tensor(!(seed << 32 | n), PRIVATE);
        programs.push(Program::start(
            login.with_login(&user, &password),
            &weights,
            &own,
        )?);
    }
    let after = stored_bytes(worker)?;
    let copy = (TENSORS * TENSOR + programs.len() * PRIVATE) as f64;
    let (first, later) = programs.split_first().context("ten programs")?;
    let each =
        |of: &dyn Fn(&Program) -> f64| later.iter().map(of).sum::<f64>() / later.len() as f64;
    let cost = Cost {
        resident: (after - before) / copy,
        bus: each(&|program| program.sent as f64) / first.sent as f64,
        warm: first.seconds / each(&|program| program.seconds),
        first: first.seconds,
    };
    for program in programs {
        program.session.close()?;
    }
    Ok(cost)
}

/// Costs on a cluster, one per repetition, each with weights of its own.
async fn costs(
    reps: usize,
    settings: &Settings,
    share: &'static str,
    of: fn(usize) -> &'static str,
) -> Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for rep in 1..=reps {
        eprintln!("ten programs with equal weights, share = {share}: repetition {rep} of {reps}");
        let unlimited = || TenantSettings {
            addresses: limits::ADDRESS_LAST - limits::ADDRESS_FIRST,
            ..TenantSettings::default()
        };
        let tenants = TENANTS.map(|tenant| (tenant, unlimited()));
        let cluster = cpu_cluster_of(settings, tenants, |options| {
            for (key, value) in [("worker.capacity", "4GiB"), ("worker.share", share)] {
                options.settings.push((key.into(), value.into()));
            }
        });
        let cluster = cluster.await?;
        let tenants: Vec<_> = (0..PROGRAMS).map(of).collect();
        costs.push(programs(&cluster, &tenants, rep as u64)?);
    }
    Ok(costs)
}

/// Measures the wanted metrics.
pub(super) async fn weights(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let values = |costs: &[Cost], of: fn(&Cost) -> f64| costs.iter().map(of).collect::<Vec<_>>();
    let bytes = TENSORS * TENSOR;
    if [RESIDENT, BUS, WARM].iter().any(|spec| wanted(spec.name)) {
        let costs = costs(reps, settings, "tenant", |_| "w0").await?;
        let first = values(&costs, |cost| cost.first);
        let values: [(_, Vec<f64>); 3] = [
            (&RESIDENT, values(&costs, |cost| cost.resident)),
            (&BUS, values(&costs, |cost| cost.bus)),
            (&WARM, values(&costs, |cost| cost.warm)),
        ];
        for (spec, values) in values.into_iter().filter(|(spec, _)| wanted(spec.name)) {
            let metric = Measurement::new(spec, &values).against("the first program, s", &first);
            tell(metric.with("weights", bytes).with("programs", PROGRAMS));
        }
    }
    if wanted(ALL.name) {
        let costs = costs(reps, settings, "all", |n| {
            TENANTS.get(n).copied().unwrap_or("w0")
        })
        .await?;
        let metric = Measurement::new(&ALL, &values(&costs, |cost| cost.resident));
        tell(metric.with("weights", bytes).with("programs", PROGRAMS));
    }
    Ok(())
}
