//! The role of a controller: runs it in this process until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;

use admin::Administrator;
use admin::credentials::credentials;
use admin::output;
use admin::process::{follow_parent, stop_signal};
use admin::settings::Settings;
use admin::telemetry::{logs, telemetry};
use anyhow::Result;
use serde_json::json;
use telemetry::Role;
use tokio::sync::watch;

use crate::access::{AccessStore, Secret};
use crate::cluster::{Cluster, Options, Parts};
use crate::prices::Prices;
use crate::problem::Problem;
use crate::view::View;
use crate::{metrics, presence, router, server};

/// Number of threads that serve requests: a request waits for the broker more than it computes.
const THREADS: usize = 2;

/// Folders given to a controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    /// The folder of a broker that `up` started; the controller may issue its logins.
    pub(crate) broker: Option<PathBuf>,
    /// The folder of the page, for development of the page.
    pub(crate) page: Option<PathBuf>,
}

/// The one-time link that a person opens.
pub(crate) fn link(url: &str, secret: &Secret) -> String {
    format!("{url}/login?once={}", secret.shown())
}

/// Converts a problem at the start into an error.
fn failed(problem: Problem) -> anyhow::Error {
    match problem.status().as_u16() {
        503 => admin::errors::Unreachable(problem.detail().to_owned()).into(),
        _ => anyhow::anyhow!("{}: {}", problem.code(), problem.detail()),
    }
}

/// Runs a controller.
///
/// # Errors
/// If it cannot start.
pub(crate) fn role(settings: &Settings, folders: Folders, json: bool) -> Result<()> {
    follow_parent()?;
    logs(Role::Controller, settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(run(settings, folders, json));
    runtime.shutdown_background();
    ended
}

async fn run(settings: &Settings, folders: Folders, json: bool) -> Result<()> {
    let stop = stop_signal()?;
    let tls = server::tls(
        settings.given("controller.tls_cert"),
        settings.given("controller.tls_key"),
    )?;
    let prices = Prices::read(settings.text("controller.prices"))?;
    let listener = server::listen(settings.given("controller.listen"), tls.is_some()).await?;
    let url = server::url(listener.local_addr()?, tls.is_some());
    let credentials = credentials(settings)?;
    let administrator = Administrator::as_role(settings, folders.broker).await?;
    let administrator = Arc::new(administrator);
    let access = AccessStore::open(&administrator).await.map_err(failed)?;
    let view = View::begin(&administrator).await.map_err(failed)?;
    let telemetry = telemetry(Role::Controller, settings)?;
    if let Some(prices) = &prices {
        telemetry.meters().controller().prices(prices.told());
    }
    let (tell, stopping) = watch::channel(false);
    let parts = Parts {
        access: access.clone(),
        view,
        telemetry,
        stopping: stopping.clone(),
        options: Options {
            evidence_key: credentials.evidence_key.clone(),
            secure: tls.is_some(),
            prices,
            page: folders.page,
            mcp_changes: settings.text("controller.mcp") == "changes",
        },
    };
    let cluster = Arc::new(Cluster::new(administrator, parts));
    let entry = presence::Entry::new(&url).map_err(failed)?;
    entry.say(&access).await.map_err(failed)?;
    announce(&access, &url, json).await?;
    let told = stopping.clone();
    tokio::spawn(metrics::watch(Arc::clone(&cluster)));
    let router = router::router(cluster);
    let served = server::serve(listener, tls, router, stopping, server::BOUNDS);
    let stopped = async {
        stop.await;
        tell.send_replace(true);
        entry.remove(&access).await;
        std::future::pending::<()>().await;
    };
    let there = async {
        let mut told = told;
        tokio::select! {
            () = entry.keep(&access) => {}
            // The entry is not renewed after its removal.
            _ = told.wait_for(|told| *told) => std::future::pending::<()>().await,
        }
    };
    tokio::select! {
        () = served => {}
        () = stopped => {}
        () = there => {}
    }
    Ok(())
}

/// Prints the controller's URL, with a link that logs a browser in.
async fn announce(access: &AccessStore, url: &str, json: bool) -> Result<()> {
    let link = link(url, &access.link().await.map_err(failed)?);
    match json {
        true => output::line(json!({"url": url, "link": link})),
        false => output::line(format_args!("control room {link}")),
    }
}
