//! Two builds of the engine: as it is shipped, and without address checks and kill switch.
//!
//! No shipped build contains the second. It takes a `--cfg` that only this module passes, to an example
//! program in a target directory of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::peer::Peer;

/// The sources, if this program was built from them.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Builds and starts both, with checks and without.
///
/// # Errors
/// If sources or cargo are missing, or a build fails.
pub(super) fn start() -> Result<[Peer; 2]> {
    let with = build("checked", "")?;
    let without = build("unchecked", "--cfg unchecked_access")?;
    Ok([
        Peer::start(Command::new(with))?,
        Peer::start(Command::new(without))?,
    ])
}

fn build(name: &str, flags: &str) -> Result<PathBuf> {
    let root = Path::new(WORKSPACE);
    if !root.join("Cargo.toml").exists() {
        bail!("the engine's sources are not where this program was built");
    }
    eprintln!("building the engine, {name}");
    let target = root.join("target/bench").join(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "-p",
            "workloads",
        ])
        .args(["--example", "engine_suite"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", flags)
        .status()
        .context("cargo, to build the engine without checks")?;
    if !status.success() {
        bail!("cargo could not build the engine, {name}");
    }
    Ok(target.join("release/examples/engine_suite"))
}
