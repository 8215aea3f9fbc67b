//! The waits of a language model for an answer, with tinygrad as run by `tests/peers`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::metric::{Measurement, Spec};
use super::{bench_cluster, start};
use warploom_cli::local::LocalCluster;

/// The sources, if this program was built from them.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Tokens of a short run and of a longer one. Loading and compiling are the same in both.
const TOKENS: [u32; 2] = [8, 24];

/// Measures the waits, or reports why it cannot.
///
/// # Errors
/// If the model's program fails.
pub(super) async fn measure(
    spec: &'static Spec,
    cluster: &LocalCluster,
    folder: &Path,
    reps: usize,
) -> Result<Measurement> {
    let model = match Model::find() {
        Ok(model) => model,
        Err(error) => return Ok(Measurement::missing(spec, &format!("{error:#}"))),
    };
    let mut waits = Vec::new();
    for rep in 1..=reps {
        eprintln!("the language model: repetition {rep} of {reps}");
        waits.push(model.waits(cluster, folder).await?);
    }
    Ok(Measurement::new(spec, &waits).with("tokens", TOKENS[1]))
}

/// The model's program, and Python with tinygrad.
#[derive(Debug)]
struct Model {
    python: PathBuf,
    program: PathBuf,
}

impl Model {
    /// Finds the packages that `tests/peers/run.py` has installed; installs nothing.
    ///
    /// # Errors
    /// If something is missing; the message names it.
    fn find() -> Result<Self> {
        let peers = Path::new(WORKSPACE).join("tests/peers");
        let output = Command::new("python3")
            .arg(peers.join("run.py"))
            .args(["--where", "--tools"])
            .arg(broker::tools_dir(None))
            .output()
            .context("python3 of tests/peers")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{}",
                said.lines().last().unwrap_or("tests/peers is not here")
            );
        }
        let python = String::from_utf8(output.stdout).context("a path")?;
        Ok(Self {
            python: python.trim().into(),
            program: peers.join("programs/gpt2.py"),
        })
    }

    /// Waits for an answer per token, without those of loading and compiling.
    ///
    /// # Errors
    /// If the program fails.
    async fn waits(&self, cluster: &LocalCluster, folder: &Path) -> Result<f64> {
        let [short, long] = TOKENS;
        let few = self.run(cluster, folder, short).await?;
        let many = self.run(cluster, folder, long).await?;
        Ok((many - few) / f64::from(long - short))
    }

    /// Number of waits in a run of `tokens` tokens.
    async fn run(&self, cluster: &LocalCluster, folder: &Path, tokens: u32) -> Result<f64> {
        let mut command = start::python(&self.python, cluster, folder)?;
        command
            .env("DEV", "CUDA:PTX")
            .env("CACHEDB", cluster.options().state_dir.join("tinygrad.db"))
            .arg(&self.program)
            .args(["--tokens", &tokens.to_string()]);
        let output = bench_cluster::output(command).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("the model: {}", said.trim());
        }
        start::waits(&said)
    }
}
