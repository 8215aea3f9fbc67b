//! A tenant with everything queued before anything is granted. It is a process of its own that obeys
//! commands line by line, and reports each as done.

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bus_schemas::{FunctionFingerprint, KernelKey, ModuleHash, Op, OpNumber};
use client_agent::{Client, Session};
use workloads::kernels::EMPTY;

use warploom_cli::local::{LocalCluster, RoleProcess};

/// Prefix of a tenant's process; the tenant's name follows.
pub(in crate::bench) const PROCESS: &str = "backlog.";
/// Sessions of one tenant.
pub(super) const SESSIONS: usize = 2;
/// Ops of one session, including its module's load and its last sync.
pub(super) const OPS: u64 = 2_610;
/// Number of distinct launches, each with an estimate of its own.
const SHAPES: u32 = 7;
/// Bytes of each copy among the ops.
const COPY: u64 = 4 << 10;
/// Timeout of a command; a tenant that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The profile of its launches: from 4 to 61 microseconds.
pub(super) fn profile() -> Vec<(KernelKey, u64)> {
    let empty = FunctionFingerprint::new(&ModuleHash::of(EMPTY.bytes()), "empty");
    let estimate = |shape: u32| {
        let ns = 4_000 + 9_500 * u64::from(shape);
        (empty.key([1 + shape, 1, 1], [32, 1, 1], 0), ns)
    };
    (0..SHAPES).map(estimate).collect()
}

/// Plays a tenant. `open` opens its next session. `submit` queues all ops of all sessions and waits until
/// leader and worker have them. `finish` waits for their end, and `close` ends its first session.
pub(in crate::bench) fn play(client: &Client) -> Result<()> {
    let mut sessions: Vec<(Session, OpNumber)> = Vec::new();
    let mut said = std::io::stdout();
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "open" => sessions.push((client.open()?, 0)),
            "submit" => {
                for (number, (session, last)) in (0..).zip(&mut sessions) {
                    *last = submit(session, number)?;
                }
                sessions
                    .iter()
                    .try_for_each(|(session, last)| arrived(session, *last))?;
            }
            "finish" => {
                for (session, last) in &sessions {
                    let line = session.channel();
                    line.block_on(line.answer(*last))?;
                }
            }
            "close" => sessions.remove(0).0.close()?,
            other => bail!("a backlog is not told {other:?}"),
        }
        writeln!(said, "done")?;
    }
    Ok(())
}

/// Queues a session's ops, the same in every run: launches, some copies, and some syncs that have no
/// waiting caller. Returns the last op, a sync.
fn submit(session: &Session, number: u64) -> Result<OpNumber> {
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    let buffer = session.alloc(COPY)?;
    let line = session.channel();
    let mut state = 1 + number;
    while line.last() + 1 < OPS {
        // A random generator that differs for each session but is the same in every run.
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        match state >> 57 {
            0..2 => session.copy_in(buffer, &[number as u8; COPY as usize])?,
            2 => session.set(buffer, COPY / 4, number as u32, 4)?,
            3 => drop(line.push(&Op::Sync, 0, &[], KernelKey(0))?),
            _ => {
                let shape = (state >> 32) as u32 % SHAPES;
                session.launch(&empty, [1 + shape, 1, 1], [32, 1, 1], 0, &[])?;
            }
        }
    }
    let last = line.push(&Op::Sync, 0, &[], KernelKey(0))?;
    session.flush();
    anyhow::ensure!(last == OPS, "{last} ops");
    Ok(last)
}

/// Waits until the worker has all ops and the leader has all intents.
fn arrived(session: &Session, last: OpNumber) -> Result<()> {
    let (line, asked) = (session.channel(), Instant::now());
    while line.received() < last || line.queued() < last {
        if asked.elapsed() > TIMEOUT {
            let (received, queued) = (line.received(), line.queued());
            bail!("of {last} ops the worker has {received}, the leader {queued}");
        }
        line.flush();
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A tenant with a backlog, as the benchmark sees it.
pub(super) struct Backlog {
    role: RoleProcess,
    lines: Receiver<String>,
}

impl Backlog {
    /// Starts its process.
    pub(super) fn start(cluster: &LocalCluster, tenant: &str) -> Result<Self> {
        let process = format!("{PROCESS}{tenant}");
        let mut role = cluster.role(&format!("bench .{process}"), &process, &[])?;
        let stdout: ChildStdout = role.take_stdout().context("the process's output")?;
        let (said, lines) = channel();
        std::thread::spawn(move || {
            let heard = BufReader::new(stdout)
                .lines()
                .map_while(std::io::Result::ok);
            // Until the reader is gone, or the output ends.
            for line in heard {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { role, lines })
    }

    /// Sends a command.
    pub(super) fn tell(&mut self, what: &str) -> Result<()> {
        self.role.say(what)
    }

    /// Waits until the tenant has obeyed the command.
    pub(super) fn done(&self) -> Result<()> {
        let line = self.lines.recv_timeout(TIMEOUT);
        line.map(drop).with_context(|| {
            format!(
                "{} neither does what it is told nor says why",
                self.role.name()
            )
        })
    }

    /// Sends a command, and waits until the tenant has obeyed it.
    pub(super) fn does(&mut self, what: &str) -> Result<()> {
        self.tell(what)?;
        self.done()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_shape_of_launch_has_an_estimate_of_its_own() {
        let profile = profile();
        let keys: BTreeSet<_> = profile.iter().map(|(key, _)| key.0).collect();
        let costs: BTreeSet<_> = profile.iter().map(|(_, ns)| *ns).collect();
        assert_eq!(
            (keys.len(), costs.len()),
            (SHAPES as usize, SHAPES as usize)
        );
    }
}
