//! Runs areas in processes, and distinguishes crashes and hangs from results.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::areas;
use crate::check::{Check, Place};
use crate::report::{CheckResult, Report, Verdict};
use crate::serve::{MARK, Said};

/// Timeout of a check; a check that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum bytes of a line read at once: the driver's own output is unbounded.
const LINE: u64 = 64 << 10;
/// Maximum time for a process to exit by itself.
const GRACE: Duration = Duration::from_secs(10);

/// Parameters of a run.
pub struct Plan<'a> {
    /// The areas.
    pub areas: Vec<&'static str>,
    /// Maximum number of concurrent processes.
    pub at_once: usize,
    /// Returns the command that serves an area's checks from a number on ([`fn@crate::serve`]).
    pub process: &'a (dyn Fn(&str, usize) -> Result<Command> + Sync),
    /// Called with each result.
    pub tell: &'a (dyn Fn(&CheckResult) + Sync),
}

/// Runs the checks.
///
/// # Errors
/// If a process cannot be started or the driver does not initialise.
pub fn run(plan: &Plan<'_>) -> Result<Report> {
    let began = Instant::now();
    let next = Mutex::new(plan.areas.iter().copied().enumerate());
    let found = Mutex::new(Vec::new());
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.at_once.max(1))
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let taken = next.lock().expect("no thread panics").next();
                        let Some((at, area)) = taken else {
                            return Ok(());
                        };
                        let results = run_area(plan, area)?;
                        found.lock().expect("no thread panics").push((at, results));
                    }
                })
            })
            .collect();
        let ends = workers
            .into_iter()
            .map(|it| it.join().expect("no thread panics"));
        ends.filter_map(Result::err).next()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let mut found = found.into_inner().expect("no thread panics");
    found.sort_by_key(|(at, _)| *at);
    Ok(Report {
        results: found.into_iter().flat_map(|(_, results)| results).collect(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn run_area(plan: &Plan<'_>, area: &'static str) -> Result<Vec<CheckResult>> {
    let checks = areas::checks(area).with_context(|| format!("there is no area {area}"))?;
    let mut seen: Vec<Option<CheckResult>> = checks.iter().map(|_| None).collect();
    let shared = |place: Place, from: usize| {
        let mut places = checks.iter().enumerate().skip(from);
        places.find(|(_, it)| it.place == place).map(|it| it.0)
    };
    let mut tell = |number: usize, saw: Option<String>| {
        let result = judged(area, &checks[number], saw);
        (plan.tell)(&result);
        seen[number] = Some(result);
    };
    for place in [Place::Uninitialised, Place::Shared] {
        let mut next = shared(place, 0);
        while let Some(from) = next {
            let stopped = Process::start(plan, area, from)?.follow(&mut tell)?;
            next = stopped.and_then(|at| shared(place, at + 1));
        }
    }
    let alone = checks
        .iter()
        .enumerate()
        .filter(|(_, it)| it.place == Place::Alone);
    for (number, _) in alone {
        Process::start(plan, area, number)?.follow(&mut tell)?;
    }
    let missing = |(number, it): (usize, Option<CheckResult>)| {
        it.unwrap_or_else(|| {
            let result = judged(area, &checks[number], Some("it was not run".into()));
            (plan.tell)(&result);
            result
        })
    };
    Ok(seen.into_iter().enumerate().map(missing).collect())
}

fn judged(area: &str, check: &Check, saw: Option<String>) -> CheckResult {
    let verdict = match &saw {
        None => Verdict::Passed,
        Some(saw) if saw.starts_with("the driver has no ") => Verdict::Absent,
        Some(_) => Verdict::Failed,
    };
    CheckResult {
        area: area.into(),
        function: check.function.into(),
        check: check.claim.clone(),
        section: check.section.into(),
        certain: check.certain,
        verdict,
        saw: saw.unwrap_or_default(),
    }
}

/// A process that runs checks.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(plan: &Plan<'_>, area: &str, from: usize) -> Result<Self> {
        let mut command = (plan.process)(area, from)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("a process of checks")?;
        let stdout = child.stdout.take().context("its output")?;
        let (to, lines) = sync_channel(64);
        thread::spawn(move || {
            let mut read = BufReader::new(stdout);
            let mut line = Vec::new();
            while (&mut read)
                .take(LINE)
                .read_until(b'\n', &mut line)
                .is_ok_and(|it| it > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if to.send(text).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok(Self { child, lines })
    }

    /// Receives results until the process ends. If a check crashed or hung, or the process did
    /// behind it, reports it and returns its number.
    fn follow(mut self, tell: &mut impl FnMut(usize, Option<String>)) -> Result<Option<usize>> {
        let (mut running, mut until) = (None, Instant::now() + PATIENCE);
        // The last check that has ended. It fails if its process cannot go on or end.
        let mut last: Option<(usize, Option<String>)> = None;
        loop {
            // Output of the driver does not extend a check's time.
            let left = until.saturating_duration_since(Instant::now());
            let heard = self.lines.recv_timeout(left);
            let said = match &heard {
                Ok(line) => line.strip_prefix(MARK).map(serde_json::from_str::<Said>),
                Err(_) => None,
            };
            match (heard, said) {
                (Ok(_), Some(Ok(Said::Begun(number)))) => {
                    if let Some((before, saw)) = last.take() {
                        tell(before, saw);
                    }
                    (running, until) = (Some(number), Instant::now() + PATIENCE);
                }
                (Ok(_), Some(Ok(Said::Ended(number, saw)))) => {
                    (running, until) = (None, Instant::now() + PATIENCE);
                    last = Some((number, saw));
                }
                // Output of the driver.
                (Ok(_), _) => {}
                (Err(RecvTimeoutError::Timeout), _) => {
                    let (number, saw) = match (running, last) {
                        (Some(number), _) => (number, None),
                        (None, last) => last.context("a process of checks does not end")?,
                    };
                    let hung = || Some(format!("it has not returned in {PATIENCE:?}"));
                    tell(number, saw.or_else(hung));
                    return Ok(Some(number));
                }
                (Err(RecvTimeoutError::Disconnected), _) => break,
            }
        }
        match (running, last, self.ended()) {
            (Some(number), _, ended) => {
                tell(number, Some(format!("the process ended: {}", ended?)));
                Ok(Some(number))
            }
            (None, Some((number, saw)), Ok(ended)) if ended.success() => {
                tell(number, saw);
                Ok(None)
            }
            (None, Some((number, saw)), ended) => {
                let why = ended.map_or_else(|error| error.to_string(), |it| it.to_string());
                tell(
                    number,
                    saw.or(Some(format!("behind it the process ended: {why}"))),
                );
                Ok(Some(number))
            }
            (None, None, Ok(ended)) if ended.success() => Ok(None),
            (None, None, ended) => {
                let ended = ended?;
                anyhow::bail!("a process of checks cannot go on, and says why above: {ended}")
            }
        }
    }

    fn ended(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        anyhow::bail!("a process of checks closed its output and does not end")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has usually exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
