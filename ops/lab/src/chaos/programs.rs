//! The programs of a run, as the run sees them: processes that are killed and started again, and their
//! reports.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::evidence::{KILLED, SessionFailure};
use anyhow::Result;
use bus_schemas::{Incarnation, SessionId, Tenant};

use super::hostile::phases::Request;
use super::kinds::Kind;
use super::pulse::Pulse;
use super::said::Said;
use super::word::Lived;
use warploom_cli::local::{LocalCluster, RoleProcess};

/// A program that is silent for this long beyond its deadline hangs, and so does its watch.
const SILENCE: Duration = Duration::from_secs(30);
/// Time before an ended program is started again.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of complaints; the first are kept.
const COMPLAINTS: usize = 20;

/// Start parameters of one life of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    /// Seed of its numbers.
    pub(super) seed: u64,
    /// Maximum duration of a call.
    pub(super) deadline: Duration,
}

/// Reports of a program, added up over all its lives.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// Sessions that are open, with their ordinals.
    open: BTreeMap<String, u64>,
    /// The name of its connection.
    connection: Option<String>,
    /// Requests that were answered.
    requests: Vec<Request>,
    /// All sessions: their workers, and the time at which the program first knew that the session had
    /// ended.
    lived: BTreeMap<String, (Incarnation, Option<Instant>)>,
    /// Sessions that were not closed in good order.
    pub(super) failures: Vec<SessionFailure>,
    /// Sessions opened.
    pub(super) sessions: u64,
    /// Results that are right.
    pub(super) right: u64,
    /// Results that are wrong.
    pub(super) wrong: u64,
    /// Calls that did not end within the deadline.
    pub(super) hung: u64,
    /// Refused requests for a session, by code.
    pub(super) refused: BTreeMap<String, u64>,
    /// Failures, in words.
    pub(super) complaints: Vec<String>,
    stopped: bool,
}

impl Heard {
    fn note(&mut self, tenant: &Tenant, said: Said) {
        match said {
            Said::Opened {
                session,
                ordinal,
                worker,
                connection,
            } => {
                self.sessions += 1;
                self.connection = Some(connection);
                self.lived.insert(session.clone(), (worker, None));
                self.open.insert(session, ordinal);
            }
            Said::Request { ns } => self.requests.push(Request {
                answered: Instant::now(),
                took: Duration::from_nanos(ns),
            }),
            Said::Noticed { session } => self.word(&session),
            Said::Round { right, wrong } => {
                self.right += right;
                self.wrong += wrong;
                if wrong > 0 {
                    let open: Vec<_> = self.open.keys().cloned().collect();
                    self.complain(format!("{tenant}: wrong results in session {open:?}"));
                }
            }
            Said::Closed { session } => {
                self.word(&session);
                self.open.remove(&session);
            }
            Said::Failed { session, code, why } => {
                if code != "E-DEVICE-LOST" {
                    self.complain(format!("{tenant}: session {session} failed: {why}"));
                }
                self.end(tenant, session, code);
            }
            Said::Refused { code, why } => {
                self.complain(format!("{tenant}: refused: {why}"));
                *self.refused.entry(code).or_default() += 1;
            }
            Said::Hung { call } => {
                self.hung += 1;
                let open: Vec<_> = self.open.keys().cloned().collect();
                self.complain(format!("{tenant}: {call} hung, sessions {open:?}"));
            }
            Said::Idle => {}
            Said::Stopped => self.stopped = true,
        }
    }

    /// Notes that the program knows of a session's end.
    fn word(&mut self, session: &str) {
        if let Some((_, word)) = self.lived.get_mut(session) {
            word.get_or_insert_with(Instant::now);
        }
    }

    fn end(&mut self, tenant: &Tenant, session: String, code: String) {
        self.word(&session);
        let ordinal = self.open.remove(&session).unwrap_or_default();
        self.failures.push(SessionFailure {
            session,
            tenant: tenant.to_string(),
            ordinal,
            code,
        });
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < COMPLAINTS {
            self.complaints.push(complaint);
        }
    }
}

/// One program.
pub(super) struct Program {
    kind: Kind,
    name: String,
    log: PathBuf,
    life: Life,
    lives: u64,
    role: RoleProcess,
    reader: Option<JoinHandle<()>>,
    heard: Arc<Mutex<Heard>>,
    /// Time of its last report.
    spoke: Arc<Mutex<Instant>>,
    pulse: Pulse,
    /// Time at which an ended program is to be started again.
    due: Option<Instant>,
}

impl Program {
    /// Starts a program.
    pub(super) fn start(
        cluster: &LocalCluster,
        index: usize,
        kind: Kind,
        life: Life,
        pulse: &Pulse,
    ) -> Result<Self> {
        let name = name(index);
        let log = cluster
            .options()
            .state_dir
            .join(format!("submitted-{index}.jsonl"));
        let role = begin(cluster, &name, &kind, &log, life)?;
        let mut program = Self {
            kind,
            name,
            log,
            life,
            lives: 1,
            role,
            reader: None,
            heard: Arc::default(),
            spoke: Arc::new(Mutex::new(Instant::now())),
            pulse: pulse.clone(),
            due: None,
        };
        program.listen();
        Ok(program)
    }

    /// Its process.
    pub(super) fn role(&self) -> &RoleProcess {
        &self.role
    }

    /// True if the program runs.
    pub(super) fn is_up(&self) -> bool {
        self.due.is_none()
    }

    /// Path of the log of its submitted ops.
    pub(super) fn log(&self) -> &PathBuf {
        &self.log
    }

    /// Returns its reports so far.
    pub(super) fn heard(&self) -> Heard {
        self.see(|heard| heard.clone())
    }

    /// Sessions that it has open.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.see(|heard| heard.open.keys().flat_map(|id| id.parse()).collect())
    }

    /// The name of its connection.
    pub(super) fn connection(&self) -> Option<String> {
        self.see(|heard| heard.connection.clone())
    }

    /// Its requests so far.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.see(|heard| heard.requests.clone())
    }

    /// Its sessions, as program number `program`.
    pub(super) fn lived(&self, program: usize) -> Vec<Lived> {
        let idle = self.kind.idle > 0;
        let lived = |(worker, word): &(Incarnation, Option<Instant>)| Lived {
            worker: *worker,
            program,
            idle,
            word: *word,
        };
        self.see(|heard| heard.lived.values().map(lived).collect())
    }

    fn see<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn listen(&mut self) {
        let Some(stdout) = self.role.take_stdout() else {
            return;
        };
        let (heard, spoke) = (Arc::clone(&self.heard), Arc::clone(&self.spoke));
        let pulse = self.pulse.clone();
        let tenant = self.kind.tenant.clone();
        self.reader = Some(std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            for line in lines.map_while(std::io::Result::ok) {
                if let Ok(said) = serde_json::from_str(&line) {
                    *spoke.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    if matches!(said, Said::Round { .. }) {
                        pulse.beat();
                    }
                    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    heard.note(&tenant, said);
                }
            }
        }));
    }

    /// Reads the ended program's reports to their end, and ends the sessions that died with it.
    fn over(&mut self) {
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        let tenant = self.kind.tenant.clone();
        self.see(|heard| {
            while let Some((session, _)) = heard.open.first_key_value() {
                heard.end(&tenant, session.clone(), KILLED.into());
            }
        });
    }

    /// Starts an ended program again, and kills a hanging one.
    pub(super) fn tend(&mut self, cluster: &LocalCluster) -> Result<()> {
        if let Some(due) = self.due {
            if Instant::now() >= due {
                self.due = None;
                self.lives += 1;
                let life = Life {
                    seed: self.life.seed ^ (self.lives << 32),
                    ..self.life
                };
                self.role = begin(cluster, &self.name, &self.kind, &self.log, life)?;
                *self.spoke.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                self.listen();
            }
            return Ok(());
        }
        let spoke = *self.spoke.lock().unwrap_or_else(PoisonError::into_inner);
        if spoke.elapsed() > self.life.deadline + SILENCE {
            self.role.kill()?;
            let name = self.name.clone();
            self.see(|heard| {
                heard.hung += 1;
                heard.complain(format!("{name} said nothing any more"));
            });
        }
        if !self.role.is_running() {
            self.over();
            self.due = Some(Instant::now() + PAUSE);
        }
        Ok(())
    }

    /// Asks the program to close its session and end.
    pub(super) fn ask_to_stop(&mut self) {
        if self.due.is_none() {
            // A program that has just been killed cannot be asked.
            let _ = self.role.say("stop");
        }
    }

    /// Waits for its end. A program that does not end is killed and counts as hung.
    pub(super) async fn stopped(&mut self) -> Result<()> {
        let ended = self.role.finished(self.life.deadline + SILENCE).await;
        if ended.is_err() {
            self.role.kill()?;
        }
        self.over();
        let (name, killed) = (self.name.clone(), self.due.is_some());
        self.see(|heard| {
            if !heard.stopped && !killed {
                heard.hung += u64::from(ended.is_err());
                heard.complain(format!("{name} did not stop in good order: {ended:?}"));
            }
        });
        Ok(())
    }
}

/// Name of a program among the roles.
pub(super) fn name(index: usize) -> String {
    format!("program-{index}")
}

fn begin(
    cluster: &LocalCluster,
    name: &str,
    kind: &Kind,
    log: &std::path::Path,
    life: Life,
) -> Result<RoleProcess> {
    let mut arguments = vec![
        format!("--tenant={}", kind.tenant),
        format!("--seed={}", life.seed),
        format!("--deadline={}", life.deadline.as_secs()),
        format!("--holds={}", kind.holds),
        format!("--idle={}", kind.idle),
        format!("--evidence={}", log.display()),
    ];
    arguments.extend(kind.requests.map(|seed| format!("--requests={seed}")));
    if kind.long {
        arguments.push("--long".into());
    }
    cluster.role("chaos-program", name, &arguments)
}
