//! A hostile run: its cluster, its programs, and one phase after the other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use admin::output;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use broker::{Broker, BrokerConfig, Lifetime};
use bus_schemas::{Tenant, TenantSettings};

use super::attacker::Attacked;
use super::effects::{Effects, LATE};
use super::eyes::{Eyes, Kept, changed, kept, kept_whole};
use super::forger::Facts;
use super::obey::Order;
use super::phases::{Phase, p99_ms, schedule};
use crate::bench::Measurement;
use crate::chaos::args::ChaosArgs;
use crate::chaos::conduct::LOOK;
use crate::chaos::kinds;
use crate::chaos::programs::{Life, Program};
use crate::chaos::start::{LEADERS, WORKERS};
use crate::chaos::strikes::Strikes;
use crate::chaos::watch::{Span, Watch};
use crate::demo::RunObserver;
use warploom_cli::local::{LocalCluster, LocalOptions, RoleProcess};

/// The tenants: the hostile one, its neighbour, and one that does nothing.
const HOSTILE: &str = "hostile";
const NEIGHBOUR: &str = "neighbour";
const SILENT: &str = "silent";
/// Time that an order may take beyond its own duration: connections and probes are slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time within which the cluster has to have stored its state, and each of the neighbour's programs has to
/// have a session.
const READY: Duration = Duration::from_secs(60);

/// A hostile run.
pub(in crate::chaos) struct Run {
    pub(in crate::chaos) strikes: Strikes,
    eyes: Eyes,
    before: Kept,
    attacker: RoleProcess,
    answers: Receiver<Attacked>,
    /// Dropped after the process that floods it.
    _other: Broker,
    attacked: Attacked,
    here: Vec<f64>,
    there: Vec<f64>,
}

fn tenant(name: &str) -> Tenant {
    name.parse().expect("a tenant's name")
}

impl Run {
    /// Starts the cluster, the other broker, the neighbour and the hostile tenant.
    pub(in crate::chaos) async fn start(
        args: &ChaosArgs,
        settings: &Settings,
        dir: &Path,
    ) -> Result<Self> {
        output::note("starting brokers, leaders, workers, the neighbour and the hostile tenant");
        let kinds = kinds::neighbours(&tenant(NEIGHBOUR), args.seed);
        let mut options = LocalOptions::new(dir, "chaos")?;
        options.leaders = LEADERS;
        options.workers = WORKERS;
        options.evidence = true;
        options.configure(settings);
        options.tenants = [HOSTILE, NEIGHBOUR, SILENT]
            .map(|name| (tenant(name), TenantSettings::default()))
            .into();
        let server = options.server.clone();
        let cluster = LocalCluster::start(options).await?;
        let administrator = cluster.administrator().await?;
        let observer = RunObserver::start(&administrator).await?;
        let watch = Watch::start(&administrator).await?;
        let eyes = Eyes::open(&administrator, &tenant(SILENT), &tenant(NEIGHBOUR)).await?;
        let before = kept_whole(&administrator, READY).await?;
        let links = std::collections::BTreeMap::new();
        let mut strikes = Strikes::new(cluster, administrator, (observer, watch), links, None);
        for (index, kind) in kinds.into_iter().enumerate() {
            let life = Life {
                seed: args.seed.wrapping_mul(31).wrapping_add(index as u64),
                deadline: Duration::from_secs(args.deadline),
            };
            let program = Program::start(&strikes.cluster, index, kind, life, &strikes.pulse)?;
            strikes.programs.push(program);
        }
        let other = other_broker(dir, server)?;
        let (attacker, answers) = start_attacker(&strikes.cluster, &other, args, dir)?;
        Ok(Self {
            strikes,
            eyes,
            before,
            attacker,
            answers,
            _other: other,
            attacked: Attacked::default(),
            here: Vec::new(),
            there: Vec::new(),
        })
    }

    /// Runs all phases.
    pub(in crate::chaos) async fn carry_out(&mut self, seed: u64, whole: Duration) -> Result<()> {
        self.neighbour_is_there().await?;
        self.strikes.began = Instant::now();
        let phases = schedule(seed, whole);
        output::note(format_args!(
            "{} phases in {whole:?}, seed {seed}",
            phases.len()
        ));
        for (phase, time) in phases {
            let span = self.phase(phase, time).await?;
            let requests = self.strikes.programs.iter().flat_map(Program::requests);
            let requests: Vec<_> = requests.collect();
            match phase {
                Phase::Here => self.here.push(p99_ms(span, &requests)),
                Phase::There => self.there.push(p99_ms(span, &requests)),
                Phase::Forge | Phase::Rest => {}
            }
        }
        Ok(())
    }

    /// Waits until the neighbour's programs have their sessions.
    async fn neighbour_is_there(&mut self) -> Result<()> {
        let asked = Instant::now();
        while self
            .strikes
            .programs
            .iter()
            .any(|it| it.sessions().is_empty())
        {
            if asked.elapsed() > READY {
                bail!("the neighbour has no sessions after {READY:?}");
            }
            self.strikes.tend().await?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Runs one phase and waits for its answer. Returns its span.
    async fn phase(&mut self, phase: Phase, time: Duration) -> Result<Span> {
        let facts = self.facts();
        let order = Order {
            phase,
            ms: u64::try_from(time.as_millis())?,
            facts,
        };
        let from = Instant::now();
        self.attacker.say(&serde_json::to_string(&order)?)?;
        loop {
            self.strikes.tend().await?;
            match self.answers.try_recv() {
                Ok(attacked) => {
                    self.attacked.add(attacked);
                    break;
                }
                Err(TryRecvError::Disconnected) => {
                    let said = std::fs::read_to_string(self.attacker.log()).unwrap_or_default();
                    let last = said.lines().last().unwrap_or_default();
                    bail!("the hostile tenant's process ended: {last}");
                }
                Err(TryRecvError::Empty) if from.elapsed() > time + PATIENCE => {
                    bail!("the hostile tenant does not end {phase:?}");
                }
                Err(TryRecvError::Empty) => tokio::time::sleep(LOOK).await,
            }
        }
        Ok(Span {
            from,
            until: Instant::now(),
        })
    }

    /// Facts that the hostile tenant may know by now.
    fn facts(&mut self) -> Facts {
        let heard = self.strikes.watch.heard();
        let leaders = self.strikes.cluster.leaders.iter();
        let programs = &self.strikes.programs;
        Facts {
            leaders: leaders.map(|(id, _)| *id).collect(),
            workers: heard.workers.keys().copied().collect(),
            sessions: programs.iter().flat_map(Program::sessions).collect(),
            connections: programs.iter().filter_map(Program::connection).collect(),
        }
    }

    /// Judges the effects on others once the neighbour's programs have ended. Returns metrics and
    /// complaints.
    pub(in crate::chaos) async fn judge(&mut self) -> Result<(Vec<Measurement>, Vec<String>)> {
        let (astray, heard) = (self.eyes.seen(), self.strikes.watch.heard());
        let after = kept(&self.strikes.administrator).await?;
        let changed = changed(&self.before, &after);
        let programs = &self.strikes.programs;
        let heard_of: Vec<_> = programs.iter().map(Program::heard).collect();
        let late = programs.iter().flat_map(Program::requests);
        let late = late.filter(|request| request.took > LATE).count();
        let hung = heard_of.iter().map(|heard| heard.hung).sum::<u64>();
        let effects = Effects {
            epochs: heard.terms.len().saturating_sub(1),
            workers: heard.lost.len(),
            sessions: heard_of.iter().map(|heard| heard.failures.len()).sum(),
            wrong: heard_of.iter().map(|heard| heard.wrong).sum(),
            late: late + usize::try_from(hung)?,
            astray: astray.answers,
            changed: changed.len(),
        };
        let mut said = Vec::new();
        said.extend(
            astray
                .first
                .map(|first| format!("an answer went to {first}")),
        );
        said.extend(
            changed
                .first()
                .map(|first| format!("{first} is not as it was")),
        );
        said.extend(
            self.attacked
                .first
                .take()
                .map(|it| format!("the hostile tenant: {it}")),
        );
        let metrics = effects.metrics(&self.attacked, &self.here, &self.there);
        Ok((metrics, said))
    }

    /// Ends the hostile tenant.
    pub(in crate::chaos) fn disarm(&mut self) -> Result<()> {
        self.attacker.kill()
    }

    /// Path of the hostile tenant's log of submitted ops.
    pub(in crate::chaos) fn submitted(dir: &Path) -> PathBuf {
        dir.join("submitted-hostile.jsonl")
    }
}

/// Starts a broker like the cluster's, without clients.
fn other_broker(dir: &Path, server: Option<PathBuf>) -> Result<Broker> {
    let mut config = BrokerConfig::new(dir.join("other"), "chaos");
    config.tenants = vec![HOSTILE.into()];
    config.server = server;
    config.lifetime = Lifetime::Owned;
    Ok(Broker::start(&config)?)
}

/// Starts the hostile tenant's process with its own logins. Returns it and its answers.
fn start_attacker(
    cluster: &LocalCluster,
    other: &Broker,
    args: &ChaosArgs,
    dir: &Path,
) -> Result<(RoleProcess, Receiver<Attacked>)> {
    let logins = [
        ("own", cluster.broker.credentials()),
        ("other", other.credentials()),
    ];
    let [own, other] = logins.map(|(name, credentials)| {
        let path = dir.join(format!("hostile-{name}.toml"));
        let saved = credentials
            .for_tenant(HOSTILE)
            .and_then(|it| it.save(&path));
        saved.map(|()| path)
    });
    let arguments = [
        "chaos-hostile".to_owned(),
        format!("--set=broker.credentials={}", own?.display()),
        // Set although the credentials contain it: the environment may name another URL.
        format!("--set=broker.url={}", cluster.broker.url()),
        "--set=cluster.name=chaos".to_owned(),
        format!("--tenant={HOSTILE}"),
        format!("--others={NEIGHBOUR},{SILENT}"),
        format!("--other={}", other?.display()),
        format!("--seed={}", args.seed),
        format!("--secret={}", args.seed),
        format!("--evidence={}", Run::submitted(dir).display()),
    ];
    let options = cluster.options();
    let log = cluster.log("hostile");
    let mut role = RoleProcess::start("hostile", &options.binary, &arguments, &log)?;
    let stdout = role.take_stdout().context("its output")?;
    let (answer, answers) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let answered = serde_json::from_str(&line).map(|attacked| answer.send(attacked));
            if !matches!(answered, Ok(Ok(()))) {
                return;
            }
        }
    });
    Ok((role, answers))
}
