//! A program beside this one that runs kernels of the suite on request, with one line of text each way.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use workloads::suite::{Case, Data};

/// Time for which a kernel is repeated within one repetition. The fastest launch counts, because the others
/// were disturbed.
pub(super) const STRETCH: Duration = Duration::from_millis(25);

/// Repeats `run` for a stretch. Returns the nanoseconds of the fastest.
///
/// # Errors
/// The first error of `run`.
pub(super) fn fastest(mut run: impl FnMut() -> Result<Duration>) -> Result<f64> {
    let began = Instant::now();
    let mut best = Duration::MAX;
    let mut times = 0;
    while times < 2 || began.elapsed() < STRETCH {
        best = best.min(run()?);
        times += 1;
    }
    Ok(best.as_secs_f64() * 1e9)
}

/// The other program. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting the other program")?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            to: to.context("its input")?,
            from: BufReader::new(from.context("its output")?),
        })
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// The failure that the program reports.
    pub(super) fn ask(&mut self, what: &str, about: &str) -> Result<String> {
        writeln!(self.to, "{what} {about}").and_then(|()| self.to.flush())?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            Some((_, why)) => Err(anyhow!("{why}")),
            None => bail!("the other program ended"),
        }
    }

    /// Asks for nanoseconds.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub(super) fn time(&mut self, what: &str, about: &str) -> Result<f64> {
        let answer = self.ask(what, about)?;
        answer
            .parse()
            .with_context(|| format!("a time: {answer:?}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Describes the difference between a result and the native loop's over the same input, if any.
pub(super) fn difference(case: &Case, mut input: Vec<Data>, actual: &Data) -> Option<String> {
    case.native(&mut input);
    case.difference(actual, &input[case.output])
}
