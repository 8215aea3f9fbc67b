//! A cluster of the binary under test with tenants at work, and the checks of the end-to-end tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use admin::evidence::{Evidence, Submitted};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    OpenAnswer, OpenRequest, Opened, Status, Tenant, TenantSettings, WIRE_VERSION, decode, encode,
};
use client_agent::Settings;
use lab::demo::{DemoCluster, Heard, ReplaySummary, TenantPlan};
use test_cluster::within;
use warploom_cli::local::LocalOptions;

/// Time limit of anything that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A cluster of the binary under test with tenants at work.
pub(crate) struct LoadedCluster {
    /// The cluster and its tenants.
    pub(crate) demo: DemoCluster,
}

/// Nonces of hand-made opens.
static NONCES: AtomicU64 = AtomicU64::new(5);

/// A tenant that runs a workload of its own name or of another's.
pub(crate) fn plan(tenant: &str, workload: &str, priority: u8) -> TenantPlan {
    TenantPlan {
        tenant: tenant.parse().expect("a tenant's name"),
        settings: TenantSettings {
            priority,
            ..TenantSettings::default()
        },
        workload: workload.to_owned(),
        think_ms: 0,
    }
}

/// A cluster of the binary under test.
fn under_test(options: &mut LocalOptions, leaders: usize, workers: usize) {
    options.binary = env!("CARGO_BIN_EXE_warploom").into();
    options.leaders = leaders;
    options.workers = workers;
    for (key, value) in [("log.filter", "info"), ("worker.watchdog", "2s")] {
        options.settings.push((key.into(), value.into()));
    }
}

impl LoadedCluster {
    /// Starts a cluster and these tenants; returns when all of them are at work.
    pub(crate) async fn start(leaders: usize, workers: usize, plans: &[TenantPlan]) -> Self {
        Self::start_with(leaders, workers, plans, &[]).await
    }

    /// As `start`, with settings for all roles.
    pub(crate) async fn start_with(
        leaders: usize,
        workers: usize,
        plans: &[TenantPlan],
        settings: &[(&str, &str)],
    ) -> Self {
        let mut loaded = Self::idle(leaders, workers, plans, settings).await;
        loaded.work(plans).await;
        loaded
    }

    /// Starts programs of these tenants; returns once all are at work.
    pub(crate) async fn work(&mut self, plans: &[TenantPlan]) {
        for plan in plans {
            self.demo.add_tenant(plan, 3).expect("a tenant");
        }
        self.demo
            .go()
            .await
            .unwrap_or_else(|error| self.panic(&format!("{error:#}")));
    }

    /// Starts a cluster with these tenants, without work.
    pub(crate) async fn idle(
        leaders: usize,
        workers: usize,
        plans: &[TenantPlan],
        settings: &[(&str, &str)],
    ) -> Self {
        let settings = settings
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        Self::made(leaders, workers, plans, |options| {
            options.settings.extend(settings);
        })
        .await
    }

    /// As `idle`, with any option changed by `adjust`.
    pub(crate) async fn made(
        leaders: usize,
        workers: usize,
        plans: &[TenantPlan],
        adjust: impl FnOnce(&mut LocalOptions),
    ) -> Self {
        let started = DemoCluster::start("test", plans, |options| {
            under_test(options, leaders, workers);
            adjust(options);
        });
        let demo = started.await.expect("a cluster");
        Self { demo }
    }

    /// Fails with the logs of all roles.
    pub(crate) fn panic(&self, why: &str) -> ! {
        panic!("{why}{}", self.demo.cluster.log_tails());
    }

    /// Creates or changes a tenant; returns once the leader applies it.
    pub(crate) async fn set_tenant(&self, tenant: &Tenant, settings: &TenantSettings) {
        let administrator = &self.demo.administrator;
        administrator
            .set_tenant(tenant, settings)
            .await
            .expect("set");
        let patience = Duration::from_secs(60);
        administrator
            .tenant_applies(tenant, settings, patience)
            .await
            .expect("applied");
    }

    /// Adds a tenant with its own login; returns its programs' settings.
    pub(crate) async fn guest(&mut self, name: &str, settings: &TenantSettings) -> Settings {
        let added = self.demo.cluster.broker.add_tenant(name);
        added.expect("a login for it");
        let tenant = name.parse().expect("a tenant's name");
        self.set_tenant(&tenant, settings).await;
        self.login(name)
    }

    /// The settings of a tenant's programs.
    pub(crate) fn login(&self, tenant: &str) -> Settings {
        let credentials = self.demo.cluster.broker.credentials();
        let (user, password) = self.demo.cluster.tenant_login(tenant);
        let joined = Settings::new(&credentials.url, &credentials.cluster, tenant);
        joined.with_login(&user, &password)
    }

    /// Kills the leader of an epoch above this one, and starts another candidate; returns the
    /// epoch.
    pub(crate) async fn replace_leader(&mut self, above: u64, patience: Duration) -> u64 {
        let status = self.epoch_above(above, patience).await;
        let leader = self.demo.cluster.leader(status.leader);
        leader.expect("one of ours").kill().expect("it dies");
        let another = self.demo.cluster.start_leader();
        another.expect("another candidate");
        status.epoch
    }

    /// A bare connection with a tenant's login, and a hand-made session.
    pub(crate) async fn join(&self, tenant: &str) -> (async_nats::Client, Subjects, Opened) {
        let name = format!("client-{tenant}");
        let cluster = &self.demo.cluster;
        let client = cluster.connect_tenant(tenant, Some(&name)).await;
        let subjects = cluster.subjects();
        let tenant = tenant.parse().expect("a tenant");
        let request = OpenRequest {
            v: WIRE_VERSION,
            // A repeated nonce would be answered with the session that it opened before.
            nonce: NONCES.fetch_add(1, Ordering::Relaxed),
            connection: name,
            devices: 1,
        };
        let open = subjects.to_leader(&tenant, ToLeader::Open);
        let answer = client.request(open, encode(&request).into()).await;
        let answer: OpenAnswer =
            decode(&answer.expect("an answer").payload).expect("an open answer");
        (client, subjects, answer.opened.expect("a session"))
    }

    /// Waits until every tenant has got `more` answers, within `patience`.
    pub(crate) async fn progress(&self, more: usize, patience: Duration) {
        for index in 0..self.demo.tenants.len() {
            if let Err(error) = self.demo.requests(index, more, patience).await {
                self.panic(&format!("{error:#}"));
            }
        }
    }

    /// Waits until `look` returns a value.
    pub(crate) async fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let found = within(patience, || look(self)).await;
        found.unwrap_or_else(|| self.panic(&format!("{what}: not after {patience:?}")))
    }

    /// The leader's status.
    pub(crate) async fn status(&self) -> Status {
        let status = self.demo.administrator.status(SOON).await;
        status.unwrap_or_else(|error| self.panic(&format!("{error:#}")))
    }

    /// Waits until the leader's status satisfies a condition.
    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Status) -> bool) -> Status {
        let asked = Instant::now();
        loop {
            let status = self.status().await;
            if is(&status) {
                return status;
            }
            if asked.elapsed() > SOON {
                self.panic(&format!("{what}: not after {SOON:?}: {status:?}"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for a leader of a higher epoch.
    pub(crate) async fn epoch_above(&self, epoch: u64, patience: Duration) -> Status {
        let asked = Instant::now();
        loop {
            match self.demo.administrator.status(patience).await {
                Ok(status) if status.epoch > epoch => return status,
                Ok(_) if asked.elapsed() < patience => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(_) => self.panic(&format!("no leader above epoch {epoch}")),
                Err(error) => self.panic(&format!("{error:#}")),
            }
        }
    }

    /// Stops everything and replays. Checks that all results were verified, that no work was lost,
    /// repeated or reordered, and that the record replays to the workers' accepted positions.
    pub(crate) async fn settle(self) -> Vec<Heard> {
        self.replayed().await.0
    }

    /// As [`Self::settle`], with the result of the replay.
    pub(crate) async fn replayed(mut self) -> (Vec<Heard>, ReplaySummary) {
        let heard = match self.demo.stop().await {
            Ok(heard) => heard,
            Err(error) => self.panic(&format!("{error:#}")),
        };
        for heard in &heard {
            let all = heard.latencies.len() as u64;
            if !heard.stopped || heard.verified != all || all == 0 {
                self.panic(&format!(
                    "{} of {all}: {:?}",
                    heard.verified, heard.complaints
                ));
            }
        }
        if let Err(error) = self.demo.cluster.drain() {
            self.panic(&format!("{error:#}"));
        }
        let (replayed, mut evidence) = match self.demo.collect(&[]).await {
            Ok(collected) => collected,
            Err(error) => self.panic(&format!("{error:#}")),
        };
        submitted_by_guests(&mut evidence);
        let mut check = evidence.verify();
        // The test itself killed processes, which is no disagreement.
        check
            .disagreements
            .retain(|what| !what.contains("no leader was killed"));
        if !check.is_clean() {
            self.panic(&format!("{check:#?}"));
        }
        let chains = evidence.chains();
        if chains.digest != chains.replay_digest || replayed.skipped > 0 {
            self.panic(&format!("{chains:#?}, the replay {replayed:?}"));
        }
        (heard, replayed)
    }
}

/// Guests keep no log: their work that ran counts as submitted.
fn submitted_by_guests(evidence: &mut Evidence) {
    let mut through = BTreeMap::new();
    for line in evidence
        .started
        .iter()
        .filter(|line| line.tenant == "guest")
    {
        let runs = matches!(&*line.kind, "run" | "standing") && line.first <= line.last;
        if runs && matches!(&*line.outcome, "ran" | "failed") {
            through.insert((line.session.clone(), line.ordinal), line.last);
        }
    }
    for ((session, ordinal), last) in through {
        let tenant = "guest".to_owned();
        evidence.submitted.push(Submitted {
            session,
            tenant,
            ordinal,
            first: 1,
            last,
        });
    }
    evidence.sort();
}
