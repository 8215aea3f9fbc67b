//! What the end-to-end tests share: a cluster of real processes with tenants at work.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use broker::Credentials;
use broker::testing::TempDir;
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    OpenAnswer, OpenRequest, Opened, Tenant, TenantSettings, WIRE_VERSION, decode, encode,
};
use client_agent::Settings;
use lab::demo::{Heard, ReplaySummary, Stage, TenantPlan};
use warploom_cli::evidence::{Evidence, Submitted};
use warploom_cli::local::LocalOptions;

/// A directory that outlives the cluster in it.
pub(crate) struct Scene {
    /// The cluster and its tenants.
    pub(crate) stage: Stage,
    dir: TempDir,
}

/// A tenant running a workload of its own name or another's.
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

/// Options for a cluster of the binary under test.
pub(crate) fn options(dir: &TempDir, leaders: usize, workers: usize) -> LocalOptions {
    let mut options = LocalOptions::new(dir.path(), "test").expect("options");
    options.binary = env!("CARGO_BIN_EXE_warploom").into();
    options.leaders = leaders;
    options.workers = workers;
    options.settings.push(("log.filter".into(), "info".into()));
    options
        .settings
        .push(("worker.watchdog".into(), "2s".into()));
    options
}

impl Scene {
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
        let mut scene = Self::idle(leaders, workers, plans, settings).await;
        scene.work(plans).await;
        scene
    }

    /// Sets these tenants to work; returns when all of them are.
    pub(crate) async fn work(&mut self, plans: &[TenantPlan]) {
        for plan in plans {
            self.stage.add_tenant(plan, 3).expect("a tenant");
        }
        self.stage
            .go()
            .await
            .unwrap_or_else(|error| self.panic(&format!("{error:#}")));
    }

    /// Starts a cluster that knows these tenants, none of which is at work.
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
        let dir = TempDir::new().expect("a directory");
        let mut options = options(&dir, leaders, workers);
        adjust(&mut options);
        let stage = Stage::start(options, plans).await.expect("a cluster");
        Self { stage, dir }
    }

    /// Fails with the logs of all roles.
    pub(crate) fn panic(&self, why: &str) -> ! {
        let mut logs = String::new();
        for entry in std::fs::read_dir(self.dir.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(25)..].join("\n  ");
                logs += &format!("\n{}:\n  {tail}", path.display());
            }
        }
        panic!("{why}{logs}");
    }

    /// Makes a tenant, or changes it; returns when the leader orders by it.
    pub(crate) async fn set_tenant(&self, tenant: &Tenant, settings: &TenantSettings) {
        let administrator = &self.stage.administrator;
        administrator
            .set_tenant(tenant, settings)
            .await
            .expect("set");
        let patience = Duration::from_secs(10);
        administrator
            .tenant_applies(tenant, settings, patience)
            .await
            .expect("applied");
    }

    /// A tenant more, with a login of its own, and how its programs connect.
    pub(crate) async fn guest(&mut self, name: &str, settings: &TenantSettings) -> Settings {
        let added = self.stage.cluster.broker.add_tenant(name);
        added.expect("a login for it");
        let tenant = name.parse().expect("a tenant's name");
        self.set_tenant(&tenant, settings).await;
        self.login(name)
    }

    /// How a tenant's programs connect.
    pub(crate) fn login(&self, tenant: &str) -> Settings {
        let credentials = self.stage.cluster.broker.credentials();
        let login = &credentials.tenant(tenant).expect("a login").login;
        let joined = Settings::new(&credentials.url, &credentials.cluster, tenant);
        joined.with_login(&login.user, &login.password)
    }

    /// Kills whoever leads in an epoch above this one, and starts another candidate; the epoch.
    pub(crate) async fn replace_leader(&mut self, above: u64, patience: Duration) -> u64 {
        let status = self.epoch_above(above, patience).await;
        let leader = self.stage.cluster.leader(status.leader);
        leader.expect("one of ours").kill().expect("it dies");
        let another = self.stage.cluster.start_leader();
        another.expect("another candidate");
        status.epoch
    }

    /// A bare connection with a tenant's login, and a session opened by hand.
    pub(crate) async fn join(&self, tenant: &str) -> (async_nats::Client, Subjects, Opened) {
        let credentials = Credentials::load(&self.stage.cluster.credentials()).expect("a file");
        let login = credentials.tenant(tenant).expect("a login").login.clone();
        let name = format!("client-{tenant}");
        let tenant = tenant.parse().expect("a tenant");
        let subjects = self.stage.administrator.subjects().clone();
        let client = async_nats::ConnectOptions::new()
            .user_and_password(login.user, login.password)
            .custom_inbox_prefix(subjects.tenant_inbox(&tenant))
            .name(&name)
            .connect(credentials.urls())
            .await
            .expect("a connection");
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce: 5,
            connection: name,
            devices: 1,
        };
        let open = subjects.to_leader(&tenant, ToLeader::Open);
        let answer = client.request(open, encode(&request).into()).await;
        let answer: OpenAnswer =
            decode(&answer.expect("an answer").payload).expect("an open answer");
        (client, subjects, answer.opened.expect("a session"))
    }

    /// Every tenant gets `more` answers within `patience`.
    pub(crate) async fn progress(&self, more: usize, patience: Duration) {
        for index in 0..self.stage.tenants.len() {
            if let Err(error) = self.stage.requests(index, more, patience).await {
                self.panic(&format!("{error:#}"));
            }
        }
    }

    /// Waits until `look` gives something.
    pub(crate) async fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let asked = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if asked.elapsed() > patience {
                self.panic(&format!("{what}: not after {patience:?}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for a leader of a higher epoch.
    pub(crate) async fn epoch_above(&self, epoch: u64, patience: Duration) -> bus_schemas::Status {
        let asked = Instant::now();
        loop {
            match self.stage.administrator.status(patience).await {
                Ok(status) if status.epoch > epoch => return status,
                Ok(_) if asked.elapsed() < patience => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(_) => self.panic(&format!("no leader above epoch {epoch}")),
                Err(error) => self.panic(&format!("{error:#}")),
            }
        }
    }

    /// Stops all, replays, and checks that everything verified, nothing was lost, run twice or
    /// reordered, and that the record replays to what the workers accepted.
    pub(crate) async fn settle(self) -> Vec<Heard> {
        self.replayed().await.0
    }

    /// As [`Self::settle`], and what the replay found.
    pub(crate) async fn replayed(mut self) -> (Vec<Heard>, ReplaySummary) {
        let heard = match self.stage.stop().await {
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
        if let Err(error) = self.stage.cluster.drain() {
            self.panic(&format!("{error:#}"));
        }
        let (replayed, mut evidence) = match self.stage.collect(&[]).await {
            Ok(collected) => collected,
            Err(error) => self.panic(&format!("{error:#}")),
        };
        submitted_by_guests(&mut evidence);
        let mut verdict = evidence.verify();
        // Whom we killed is our own affair.
        verdict
            .disagreements
            .retain(|what| !what.contains("nobody was killed"));
        if !verdict.is_clean() {
            self.panic(&format!("{verdict:#?}"));
        }
        let chains = evidence.chains();
        if chains.digest != chains.replay_digest || replayed.skipped > 0 {
            self.panic(&format!("{chains:#?}, the replay {replayed:?}"));
        }
        (heard, replayed)
    }
}

/// Guests keep no log: what ran of theirs counts as what they submitted.
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
