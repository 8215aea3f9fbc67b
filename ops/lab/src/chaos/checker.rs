//! The independent checker, `tests/checker/check.py`, which shares no code with us: its packages are
//! fetched, and it runs once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The program itself.
const CHECKER: &str = include_str!("../../../../tests/checker/check.py");
/// Packages that the checker needs from PyPI, each wheel with its hash.
const REQUIREMENTS: &str = include_str!("../../../../tests/checker/requirements.txt");

/// Findings of the checker in a directory of evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CheckerFindings {
    /// True if all checks hold.
    pub ok: bool,
    /// Ops that clients submitted.
    pub submitted: u64,
    /// Ops that ran.
    pub ran: u64,
    /// Submitted ops that never ran.
    pub lost: u64,
    /// Ops that ran more than once.
    pub duplicated: u64,
    /// Ops or positions out of their order.
    pub reordered: u64,
    /// Sessions that failed although nothing that they used was broken.
    pub failed: u64,
    /// Other disagreements, in words.
    pub disagreements: Vec<String>,
}

/// A Python with the packages that the checker needs.
#[derive(Debug)]
pub struct Checker {
    packages: PathBuf,
    program: PathBuf,
}

impl Checker {
    /// Fetches the packages, once. `python3` and pip are looked up on PATH, as the tests do.
    ///
    /// # Errors
    /// If Python, pip or the way to PyPI is missing; the message says which.
    pub fn find() -> Result<Self> {
        let tools = broker::tools_dir(None);
        let version = blake3::hash(&[CHECKER, REQUIREMENTS].concat().into_bytes());
        let packages = tools.join(format!("checker-{}", &version.to_hex()[..16]));
        let program = packages.join("check.py");
        if !packages.exists() {
            std::fs::create_dir_all(&tools).context("making a directory for tools")?;
            // Made whole or not at all: another run may be making it at the same time.
            let partial = packages.with_extension(format!("partial-{}", std::process::id()));
            let made = install(&partial);
            let moved = made.map(|()| std::fs::rename(&partial, &packages).is_ok());
            if !matches!(moved, Ok(true)) {
                let _ = std::fs::remove_dir_all(&partial);
            }
            moved?;
        }
        Ok(Self { packages, program })
    }

    /// Checks directories of evidence. If a key is given, each must be signed with it.
    ///
    /// # Errors
    /// If the checker does not run to its end.
    pub fn check(&self, dirs: &[&Path], key: Option<&str>) -> Result<Vec<CheckerFindings>> {
        let mut command = python();
        command.env("PYTHONPATH", &self.packages).arg(&self.program);
        if let Some(key) = key {
            command.args(["--key", key]);
        }
        let output = command
            .args(dirs)
            .output()
            .context("starting the checker")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let found: Vec<CheckerFindings> = said
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .with_context(|| format!("the checker said {said}"))?;
        if found.len() != dirs.len() {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("the checker ended early: {complaint}");
        }
        Ok(found)
    }
}

fn python() -> Command {
    let mut command = Command::new("python3");
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

fn install(into: &Path) -> Result<()> {
    std::fs::create_dir_all(into)?;
    let requirements = into.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENTS)?;
    std::fs::write(into.join("check.py"), CHECKER)?;
    let output = python()
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-deps",
        ])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(&requirements)
        .arg("--target")
        .arg(into)
        .output()
        .context("python3 does not start")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        bail!(
            "pip cannot fetch what the checker needs: {}",
            last.unwrap_or_default()
        );
    }
    Ok(())
}
