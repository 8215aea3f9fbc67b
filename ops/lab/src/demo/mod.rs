//! The demo: three tenants share two devices, the elected leader is killed half-way, and every claim is
//! checked. Everything runs in processes of its own.

mod args;
mod cluster_settings;
mod demo_cluster;
mod judge;
mod observer;
mod plan;
mod report;
mod run;
mod tenant;

use std::time::{Duration, Instant};

use admin::evidence::{Chains, EvidenceCheck, EvidenceKey, Kill};
use admin::output;
use admin::process;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use bus_schemas::Usage;
use rustix::process::Signal;

pub use demo_cluster::DemoCluster;
use judge::{complaints, grown, tenant_reports};
pub use observer::{RunObserver, Seen};
pub use plan::{TenantPlan, standard};
pub use report::{ClusterReport, DemoReport, Gone, TenantReport, UsageByWorker};
pub use run::run_tenant;
use tenant::machine_load;
pub use tenant::{Heard, TenantProcess};

pub use args::{DemoArgs, DemoTenantArgs};

use crate::logs;
use admin::errors::{ErrorCode, UsageError};
pub use warploom_cli::commands::replay::ReplaySummary;
use warploom_cli::display::ProgressLine;
use warploom_cli::local::LocalOptions;

/// Time that a busy machine may need for a moment's work.
const SOON: Duration = Duration::from_secs(30);

/// Runs the demo and prints its result.
///
/// # Errors
/// If the cluster does not start, or a check fails.
pub async fn demo(args: &DemoArgs, settings: &Settings, json: bool) -> Result<()> {
    check(args)?;
    let options = options(args, settings, json)?;
    let plans = args
        .tenants
        .as_deref()
        .map_or_else(|| Ok(standard()), plan::read)?;
    let work = async {
        let mut demo = Demo::start(args, options, plans).await?;
        let ended = demo.run().await;
        if let Some(dir) = &args.evidence
            && !ended.as_ref().is_ok_and(|report| report.ok)
        {
            logs::keep(&demo.cluster.cluster.options().state_dir, dir);
        }
        ended
    };
    let report = process::unless_stopped(work).await?;
    if json {
        output::line(serde_json::to_string(&report)?)?;
    } else {
        output::line(report.table())?;
    }
    if !report.ok {
        bail!(ErrorCode::DemoFailed.failed(report.complaints.join("; ")));
    }
    Ok(())
}

/// Refuses arguments that cannot succeed.
fn check(args: &DemoArgs) -> Result<()> {
    let (leaders, kills) = (args.leaders, args.kills);
    if leaders == 0 || args.workers == 0 {
        bail!(UsageError(
            "the demo needs a leader and a worker at least".into()
        ));
    }
    if kills as u64 > args.seconds {
        bail!(UsageError(format!(
            "--kills {kills} in {} seconds: one a second at most",
            args.seconds
        )));
    }
    if kills > 0 && leaders < 2 {
        bail!(UsageError(format!(
            "--kills {kills} needs --leaders 2 at least, for another to take over; or --kills 0"
        )));
    }
    if let Some(dir) = &args.evidence {
        // Checked now, rather than when there is something to write.
        let probe = dir.join(format!(".writable-{}", std::process::id()));
        std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&probe, ""))
            .and_then(|()| std::fs::remove_file(&probe))
            .with_context(|| {
                ErrorCode::EvidenceFile.failed(format!("writing into {}", dir.display()))
            })?;
    }
    Ok(())
}

/// The options of the demo's cluster. Folder, name and tenants are set at its start.
fn options(args: &DemoArgs, settings: &Settings, json: bool) -> Result<LocalOptions> {
    let mut options = LocalOptions::new("", "demo")?;
    options.leaders = args.leaders;
    options.workers = args.workers;
    // The control room is for people.
    options.controllers = usize::from(!json);
    options = cluster_settings::obeying(options, settings)?;
    options.configure(settings);
    Ok(options)
}

struct Demo<'a> {
    args: &'a DemoArgs,
    plans: Vec<TenantPlan>,
    cluster: DemoCluster,
    progress: ProgressLine,
    kills: Vec<Kill>,
}

impl<'a> Demo<'a> {
    async fn start(
        args: &'a DemoArgs,
        wanted: LocalOptions,
        plans: Vec<TenantPlan>,
    ) -> Result<Self> {
        let progress =
            ProgressLine::new(args.seconds, plans.iter().map(|plan| plan.tenant.as_str()));
        progress.says("starting broker, leaders and workers");
        let started = DemoCluster::start("demo", &plans, |options| {
            *options = LocalOptions {
                state_dir: options.state_dir.clone(),
                tenants: std::mem::take(&mut options.tenants),
                evidence: options.evidence,
                ..wanted
            };
        });
        let cluster = started.await?;
        for controller in &cluster.cluster.controllers {
            let link = &controller.said.link;
            output::note(format_args!("control room  {link}  (until the demo ends)"));
        }
        Ok(Self {
            args,
            plans,
            cluster,
            progress,
            kills: Vec::new(),
        })
    }

    /// Starts the tenants. Returns when all are ready.
    async fn prepare(&mut self) -> Result<()> {
        let progress = &self.progress;
        progress.says("tenants prepare their weights and references");
        for plan in &self.plans {
            self.cluster.add_tenant(plan, self.args.seed)?;
        }
        self.cluster.ready().await?;
        for (plan, tenant) in self.plans.iter().zip(&self.cluster.tenants) {
            for why in tenant.heard().begun_again {
                let (tenant, load) = (&plan.tenant, machine_load());
                progress.says(&format!("tenant {tenant} began again: {why}; {load}"));
            }
        }
        Ok(())
    }

    async fn run(&mut self) -> Result<DemoReport> {
        self.prepare().await?;
        let before = self.cluster.usage().await?;
        self.cluster.go().await?;
        self.progress.says("tenants at work");
        let began = Instant::now();
        let whole = Duration::from_secs(self.args.seconds);
        for kill in 1..=self.args.kills {
            let at = whole.mul_f64(kill as f64 / (self.args.kills + 1) as f64);
            self.watch(began, at).await?;
            self.kill_leader(kill, began).await?;
        }
        self.watch(began, whole).await?;
        self.progress.says("tenants finish");
        let heard = self.cluster.stop().await?;
        let after = self.cluster.usage().await?;
        self.progress
            .says("workers drain, a fresh process replays the record");
        let devices = self.devices().await?;
        // From here on leaders leave because they are told to.
        let gone = self.gone(&heard);
        let cluster = &mut self.cluster.cluster;
        cluster.drain_unless(std::future::pending()).await?;
        let (replayed, evidence) = self.cluster.collect(&self.kills).await?;
        if let Some(dir) = &self.args.evidence {
            let key = EvidenceKey::of(&self.cluster.cluster.options().state_dir)?;
            // The other files come first, because the manifest names them.
            self.cluster.export_record(dir).await?;
            evidence.write(dir, &key)?;
            output::note(format_args!("evidence is signed with {}", key.public()));
        }
        self.progress.finish();
        Ok(self.report(
            &heard,
            (&before, &after),
            &replayed,
            (&evidence.verify(), evidence.chains()),
            gone,
            devices,
        ))
    }

    /// Changes of leader, lost workers and lost sessions without a kill.
    fn gone(&self, heard: &[Heard]) -> Gone {
        self.cluster.observer.see(|seen| Gone {
            leader_changes: seen.changes_without(&self.kills),
            workers_lost: seen.lost.len(),
            sessions_lost: heard.iter().map(|heard| heard.begun_again.len()).sum(),
        })
    }

    async fn watch(&mut self, began: Instant, until: Duration) -> Result<()> {
        while began.elapsed() < until {
            self.progress.advance(began.elapsed());
            for (index, tenant) in self.cluster.tenants.iter_mut().enumerate() {
                tenant.is_at_work()?;
                let heard = tenant.heard();
                let (done, p99) = (heard.latencies.len(), heard.quantile_ms(0.99));
                self.progress
                    .tenant(index, heard.launches, done as u64, heard.verified, p99);
            }
            self.tend();
            let left = until.saturating_sub(began.elapsed());
            tokio::time::sleep(left.min(Duration::from_millis(100))).await;
        }
        Ok(())
    }

    /// Looks after the cluster's processes and reports what happened to them.
    fn tend(&mut self) {
        for line in self.cluster.cluster.tend() {
            self.progress.note(&line);
        }
    }

    /// Kills the elected leader (SIGKILL), and measures the time to the successor's first grant.
    async fn kill_leader(&mut self, kill: usize, began: Instant) -> Result<()> {
        let status = self.cluster.administrator.status(SOON).await?;
        let leader = self
            .cluster
            .cluster
            .leader(status.leader)
            .context("the leader is not ours")?;
        let pid = leader.pid();
        self.progress
            .says(&format!("leader {} killed", status.leader));
        let at = Instant::now();
        leader.signal(Signal::KILL)?;
        leader.wait(SOON)?;
        let (successor, first) = loop {
            let next = self.cluster.observer.see(|seen| {
                let mut later = seen.first_grant.range(status.epoch + 1..);
                later.next().map(|(epoch, at)| (*epoch, *at))
            });
            match next {
                Some(next) => break next,
                None if at.elapsed() > SOON => {
                    bail!(ErrorCode::DemoFailed.failed(format!(
                        "no successor has granted anything {SOON:?} after the leader's death"
                    )))
                }
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
            self.tend();
        };
        let takeover = first.saturating_duration_since(at);
        self.progress
            .says(&format!("epoch {successor} grants after {takeover:.1?}"));
        self.kills.push(Kill {
            kill,
            of: self.args.kills,
            at_ms: at.duration_since(began).as_millis() as u64,
            pid,
            leader: status.leader.to_string(),
            epoch: status.epoch,
            takeover_ms: takeover.as_secs_f64() * 1e3,
            successor,
        });
        Ok(())
    }

    async fn devices(&self) -> Result<Vec<String>> {
        let status = self.cluster.administrator.status(SOON).await?;
        Ok(status
            .workers
            .into_iter()
            .map(|worker| worker.device)
            .collect())
    }

    fn report(
        &self,
        heard: &[Heard],
        used: (&UsageByWorker, &UsageByWorker),
        replayed: &ReplaySummary,
        (check, chains): (&EvidenceCheck, Chains),
        gone: Gone,
        devices: Vec<String>,
    ) -> DemoReport {
        let tenants = tenant_reports(&self.plans, heard, used);
        let mut takeovers: Vec<f64> = self.kills.iter().map(|kill| kill.takeover_ms).collect();
        takeovers.sort_by(f64::total_cmp);
        let wall: u64 = grown(used, |usage| usage.elapsed_ns).max(1);
        let share = |of: fn(&Usage) -> u64| grown(used, of) as f64 / wall as f64;
        let cluster = ClusterReport {
            takeover_ms: takeovers.get(takeovers.len() / 2).copied(),
            kills: self.kills.len(),
            gone,
            lost: check.lost,
            duplicated: check.duplicated,
            reordered: check.reordered,
            adopted: replayed.adopted,
            gpu_active: share(|usage| usage.active_ns),
            starvation: share(|usage| usage.starved_ns),
            skipped: replayed.skipped,
            digest: chains.digest,
            replay_digest: chains.replay_digest,
            workers: chains.workers,
            ops: check.submitted,
            positions: check.positions,
            devices,
        };
        let mut complaints = complaints(&tenants, heard, &cluster, check);
        if replayed.skipped > 0 {
            complaints.push(format!(
                "{} positions were accepted that neither the record nor a seal's tail tells",
                replayed.skipped
            ));
        }
        DemoReport {
            tenants,
            cluster,
            ok: complaints.is_empty(),
            complaints,
        }
    }
}
