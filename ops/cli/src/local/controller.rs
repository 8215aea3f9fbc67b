//! A controller of a local cluster, which prints its address when it is ready.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::process::RoleProcess;

/// A controller.
pub struct Controller {
    /// Its process.
    pub role: RoleProcess,
    /// Its addresses.
    pub said: ControllerSaid,
}

/// The line that a controller prints when it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ControllerSaid {
    /// Its address.
    pub url: String,
    /// A link that logs a browser in, once.
    pub link: String,
}

impl Controller {
    /// Reads the line that a controller prints when it is ready.
    pub(super) async fn said(role: &mut RoleProcess, patience: Duration) -> Result<ControllerSaid> {
        let stdout = role.take_stdout().context("its output is taken")?;
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(patience, line).await;
        let line = line.map_err(|_| anyhow!("it said nothing in {patience:?}"))??;
        serde_json::from_str(&line?).context("it ended")
    }
}
