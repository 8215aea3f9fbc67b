//! The bare programs of `tests/baselines`: found, built if they are missing, and run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

/// The sources, if this program was built from them.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The built programs.
#[derive(Debug)]
pub(super) struct Baselines {
    directory: PathBuf,
    url: String,
    login: broker::Login,
}

/// A process of a baseline that runs until it is dropped.
#[derive(Debug)]
pub(super) struct BaselineProcess(Child);

impl Drop for BaselineProcess {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Baselines {
    /// Finds the programs beside this one, or builds them with cargo.
    ///
    /// # Errors
    /// If a program is missing; the message names it.
    pub(super) fn find(credentials: &broker::Credentials) -> Result<Self> {
        let own = std::env::current_exe().context("finding this program's own binary")?;
        let directory = own
            .parent()
            .context("a binary lies in a directory")?
            .to_owned();
        let login = credentials.cluster_user.clone();
        let login = login.context("the baselines need a login")?;
        let url = credentials.url.with_login().to_owned();
        let found = Self {
            directory,
            url,
            login,
        };
        if !found.is_fresh() {
            build(&found.directory)?;
        }
        Ok(found)
    }

    /// True if both programs exist and are not older than their sources, if there are any.
    fn is_fresh(&self) -> bool {
        let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
        ["relay", "stream"].iter().all(|name| {
            let built = changed(&self.program(name));
            let source = Path::new(WORKSPACE).join(format!("tests/baselines/{name}.rs"));
            built.is_some() && built >= changed(&source)
        })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.directory.join(format!("baseline-{name}"))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program(program));
        command
            .args(arguments)
            .env("NATS_URL", &self.url)
            .env("NATS_USER", &self.login.user)
            .env("NATS_PASSWORD", &self.login.password)
            .stdin(Stdio::null());
        command
    }

    /// Starts a process that serves until it is dropped.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn serve(&self, program: &str, arguments: &[&str]) -> Result<BaselineProcess> {
        let child = self
            .command(program, arguments)
            .stdout(Stdio::null())
            .spawn();
        child
            .map(BaselineProcess)
            .with_context(|| format!("starting the baseline's {program}"))
    }

    /// Runs a process to its end and parses its output.
    ///
    /// # Errors
    /// If it fails.
    pub(super) async fn run<T: DeserializeOwned + Send + 'static>(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> Result<T> {
        let command = self.command(program, arguments);
        let output = super::bench_cluster::output(command).await?;
        if !output.status.success() {
            bail!(
                "baseline {program}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("what the baseline prints")
    }
}

/// Builds both programs together with this one's package. Built alone, they would have dependencies with
/// fewer features, which cargo would build separately.
fn build(directory: &Path) -> Result<()> {
    let manifest = Path::new(WORKSPACE).join("Cargo.toml");
    let target = directory
        .parent()
        .filter(|_| manifest.exists())
        .ok_or_else(|| {
            anyhow!("the sources of the baselines are not where this program was built")
        })?;
    eprintln!("building the baselines");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "-p",
        "warploom",
        "-p",
        "baselines",
        "--bins",
    ]);
    command
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target);
    if directory.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().context("cargo, to build the baselines")?;
    if !status.success() {
        bail!("cargo could not build the baselines");
    }
    Ok(())
}
