//! The credentials with which commands reach the cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use async_nats::ConnectOptions;
use broker::{BrokerError, Credentials, Login};

use crate::settings::Settings;
use crate::state_dir::{is_up, state_dir};

/// The credentials to reach the cluster. They come from the configured file, from another broker
/// without logins, or from the cluster that `up` runs on this host.
///
/// # Errors
/// [`crate::errors::Unreachable`] if there is none of these.
pub fn credentials(settings: &Settings) -> Result<Credentials> {
    let cluster = settings.text("cluster.name");
    if let Some(path) = settings.given("broker.credentials") {
        let mut credentials = Credentials::load(path.as_ref())?;
        if let Some(url) = settings.given("broker.url") {
            credentials.url = url.into();
        }
        return Ok(credentials);
    }
    if let Some(url) = settings.given("broker.url") {
        return Ok(Credentials::open(url, cluster));
    }
    let folder = state_dir(settings);
    let path = folder.join("broker/credentials.toml");
    // Credentials that cannot be accessed are not taken for missing.
    let there = path.try_exists();
    let there = there.map_err(|error| BrokerError::Credentials {
        path: path.clone(),
        reason: error.to_string(),
    });
    if !there? {
        return Err(nobody(&format!("{} is missing", path.display())));
    }
    // The file outlives its cluster, for the next one in the same folder.
    if !is_up(&folder) {
        return Err(nobody(&format!(
            "the one of {} has ended",
            folder.display()
        )));
    }
    Credentials::load(&path).context("the credentials of the cluster on this host")
}

/// Adds a login of the credentials, else the one that the broker's URL has.
#[must_use]
pub fn logged_in(
    options: ConnectOptions,
    credentials: &Credentials,
    login: Option<&Login>,
) -> ConnectOptions {
    let login = login.map(|it| (it.user.clone(), it.password.clone()));
    bus::logged_in(options, login, &credentials.url)
}

/// The state folder of the cluster's broker, if its logins can be changed: the credentials must be
/// those of the cluster on this host.
#[must_use]
pub(crate) fn own_broker(settings: &Settings) -> Option<PathBuf> {
    let folder = state_dir(settings).join("broker");
    let given = settings.given("broker.credentials");
    let same = given.is_none_or(|path| is_same(path.as_ref(), &folder.join("credentials.toml")));
    (same && settings.given("broker.url").is_none()).then_some(folder)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.canonicalize().ok());
    one.is_some() && one == other
}

fn nobody(why: &str) -> anyhow::Error {
    let advice = "run `warploom up`, or set broker.url or broker.credentials";
    crate::errors::Unreachable(format!("no cluster on this host ({why}); {advice}")).into()
}
