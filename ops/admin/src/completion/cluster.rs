//! Asks the cluster for its names, connecting as the typed command would. The time is bounded, and
//! failures are silent.

use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use broker::Credentials;

use super::candidate::Candidate;
use super::line;
use super::rows;
use crate::administrator::Administrator;
use crate::credentials::credentials;
use crate::settings::Settings;

/// Maximum time that a shell waits: for files, the broker and the leader together.
const WAIT: Duration = Duration::from_millis(500);

/// The results of a function; empty if it fails or takes too long.
pub(super) fn in_time<T: Send + 'static>(
    find: impl FnOnce() -> Result<Vec<T>> + Send + 'static,
) -> Vec<T> {
    let (tell, heard) = mpsc::sync_channel(1);
    // This process does not wait for the thread.
    let asks = thread::Builder::new().spawn(move || tell.send(find()));
    if asks.is_err() {
        return Vec::new();
    }
    let found = heard.recv_timeout(WAIT).ok().and_then(Result::ok);
    found.unwrap_or_default()
}

/// Runs on a runtime of this thread. The runtime is not waited for once the answer has arrived.
fn on_a_runtime<T>(find: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let found = runtime.block_on(find);
    runtime.shutdown_background();
    found
}

/// The credentials with which the typed command would reach the cluster.
fn found() -> Result<Credentials> {
    let (config, named) = line::named(&line::words());
    let variable = |name: &str| std::env::var(name).ok();
    let config = config.or_else(|| variable("WARPLOOM_CONFIG").map(Into::into));
    credentials(&Settings::resolve(config.as_deref(), variable, &named)?)
}

/// The cluster's names, as an administrator finds them.
pub(super) fn asked<F>(ask: impl FnOnce(Administrator) -> F + Send + 'static) -> Vec<Candidate>
where
    F: Future<Output = Result<Vec<Candidate>>>,
{
    in_time(|| {
        let credentials = found()?;
        on_a_runtime(async { ask(Administrator::patient(&credentials, WAIT).await?).await })
    })
}

/// The cluster's tenants. With tenants' logins only, the tenants of those logins.
pub(super) fn tenants() -> Vec<Candidate> {
    in_time(|| {
        let credentials = found()?;
        if credentials.cluster_user.is_none() && !credentials.tenants.is_empty() {
            let own = credentials.tenants.into_iter();
            return Ok(own.map(|login| Candidate::new(login.tenant, "")).collect());
        }
        on_a_runtime(async {
            let administrator = Administrator::patient(&credentials, WAIT).await?;
            Ok(rows::tenants(&administrator.status(WAIT).await?))
        })
    })
}

/// The sessions from the first id that begins with the typed text.
pub(super) fn sessions(typed: &str) -> Vec<Candidate> {
    let behind = rows::before(typed);
    asked(async move |administrator| {
        let behind = behind.context("no id of a session")?;
        let page = administrator.sessions_behind(behind).await?;
        Ok(rows::sessions(&page))
    })
}

/// The names of published weights.
pub(super) async fn weights(administrator: Administrator) -> Result<Vec<Candidate>> {
    let storage = administrator.bulk_storage().await?;
    let Some(store) = storage.find_weights().await? else {
        return Ok(Vec::new());
    };
    let names = store.names().await?.into_iter();
    Ok(names.map(|name| Candidate::new(name, "")).collect())
}

/// The groups of workers, and those that tenants are bound to.
pub(super) async fn groups(administrator: Administrator) -> Result<Vec<Candidate>> {
    Ok(rows::groups(&administrator.status(WAIT).await?))
}

/// The devices.
pub(super) async fn gpus(administrator: Administrator) -> Result<Vec<Candidate>> {
    Ok(rows::gpus(&administrator.status(WAIT).await?))
}

/// The workers.
pub(super) async fn workers(administrator: Administrator) -> Result<Vec<Candidate>> {
    Ok(rows::workers(&administrator.status(WAIT).await?))
}

/// The versions of the profile.
pub(super) async fn profiles(administrator: Administrator) -> Result<Vec<Candidate>> {
    Ok(rows::profiles(&administrator.profile_versions().await?))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use anyhow::bail;

    use super::*;

    #[test]
    fn what_fails_or_takes_too_long_finds_nothing() {
        assert_eq!(in_time(|| Ok(vec![1, 2])), [1, 2]);
        assert_eq!(in_time(|| -> Result<Vec<u8>> { bail!("no") }), [0; 0]);
        let begun = Instant::now();
        let late = in_time(|| {
            thread::sleep(Duration::from_secs(60));
            Ok(vec![1])
        });
        assert_eq!(late, [0; 0]);
        assert!(begun.elapsed() >= WAIT);
    }
}
