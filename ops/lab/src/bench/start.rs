//! Start-up helpers of several benchmarks: processes that report when they are at work, and programs on the
//! drop-in library.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use warploom_cli::drop_in;
use warploom_cli::local::{LocalCluster, RoleProcess};

use super::bench_cluster::{TENANT, TIMEOUT};

/// Time for a process's kernels to get under way after its report.
const SETTLE: Duration = Duration::from_millis(500);

/// Starts a process, and waits until it reports that it is ready and its kernels are under way.
pub(super) async fn busy_process(
    cluster: &LocalCluster,
    process: &str,
    arguments: &[String],
) -> Result<RoleProcess> {
    let mut role = cluster.role(&format!("bench .{process}"), process, arguments)?;
    let stdout = role.take_stdout().context("the process's output")?;
    let read = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map(|_| line)
    });
    let said = tokio::time::timeout(TIMEOUT, read).await;
    let said = said.with_context(|| format!("the kernels of {process} do not begin"))??;
    ensure!(said?.trim() == "ready", "{process} has ended");
    tokio::time::sleep(SETTLE).await;
    Ok(role)
}

/// Environment that leads a program to the library in a folder and to the cluster, as the measured tenant.
/// `present` is its environment so far.
pub(super) fn drop_in_variables(
    cluster: &LocalCluster,
    folder: &Path,
    present: impl Fn(&str) -> Option<OsString>,
) -> Result<impl Iterator<Item = (&'static str, OsString)>> {
    let tenant = TENANT.parse().context("the measured tenant")?;
    let credentials = cluster.credentials();
    let devices = drop_in::ProgramDevices::unknown(1);
    let variables = drop_in::variables(folder, &credentials, &tenant, devices, &[], present);
    let name = (
        "WARPLOOM_CLUSTER_NAME",
        cluster.options().cluster.clone().into(),
    );
    Ok(variables
        .into_iter()
        .map(|it| (it.name, it.value))
        .chain([name]))
}

/// A Python program that finds the library and the cluster, and counts its waits.
pub(super) fn python(program: &Path, cluster: &LocalCluster, folder: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command
        .envs(drop_in_variables(cluster, folder, |name| {
            std::env::var_os(name)
        })?)
        .env("WARPLOOM_STATS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Number of waits of a program for an answer, from the library's report at its end.
pub(super) fn waits(said: &str) -> Result<f64> {
    let counted = said.split_once("waited ").and_then(|(_, rest)| {
        let (count, _) = rest.split_once(' ')?;
        count.parse().ok()
    });
    counted.context("the library does not say how often it waited")
}
