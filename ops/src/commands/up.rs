//! `warploom up`: a whole cluster on this host, until Ctrl-C.

use anyhow::{Context, Result};
use broker::SyncInterval;
use bus_schemas::TenantSettings;

use crate::cli::UpArgs;
use crate::commands::{roles, state_dir};
use crate::exit::Usage;
use crate::local::{LocalCluster, LocalOptions};
use crate::output;
use crate::settings::Settings;

/// Starts everything, says how to use it, and drains at SIGINT or SIGTERM.
///
/// # Errors
/// When something does not start, or does not stop.
pub async fn up(args: &UpArgs, settings: &Settings, json: bool) -> Result<()> {
    let mut options = LocalOptions::new(state_dir(settings), settings.text("cluster.name"))?;
    options.leaders = args
        .leaders
        .map_or_else(|| settings.number("up.leaders"), Ok)?;
    options.workers = args
        .workers
        .map_or_else(|| settings.number("up.workers"), Ok)?;
    options.server = settings.given("broker.server").map(Into::into);
    options.port = Some(settings.number("broker.port")?).filter(|port| *port != 0);
    options.sync = match settings.text("broker.sync") {
        "relaxed" => SyncInterval::Relaxed,
        "always" => SyncInterval::Always,
        other => anyhow::bail!(Usage(format!(
            "broker.sync = {other:?} is not relaxed or always"
        ))),
    };
    for name in settings
        .text("up.tenants")
        .split(',')
        .filter(|name| !name.is_empty())
    {
        let tenant = name
            .trim()
            .parse()
            .with_context(|| Usage(format!("up.tenants: {name:?}")))?;
        options.tenants.push((tenant, TenantSettings::default()));
    }
    let own = ["broker.", "cluster.", "up."];
    options.settings = settings
        .iter()
        .filter(|(key, _, _)| !own.iter().any(|section| key.starts_with(section)))
        .map(|(key, value, _)| (key.to_owned(), value.to_owned()))
        .collect();
    std::fs::create_dir_all(&options.state_dir)?;
    let stop = roles::stop_signal()?;
    let mut cluster = LocalCluster::start(options).await?;
    announce(&cluster, json)?;
    stop.await;
    output::note("draining");
    cluster.drain()?;
    cluster.broker.stop()?;
    Ok(())
}

fn announce(cluster: &LocalCluster, json: bool) -> Result<()> {
    let (url, credentials) = (cluster.broker.url(), cluster.credentials());
    if json {
        let line = serde_json::json!({
            "url": url,
            "credentials": credentials,
            "leaders": cluster.leaders.iter().map(|(_, role)| role.pid()).collect::<Vec<_>>(),
            "workers": cluster.workers.iter().map(crate::local::Role::pid).collect::<Vec<_>>(),
        });
        return output::line(line);
    }
    let name = &cluster.options().cluster;
    output::line(format_args!("cluster {name} is up at {url}"))?;
    output::line(format_args!("credentials {}", credentials.display()))?;
    for (id, role) in &cluster.leaders {
        let (name, pid) = (role.name(), role.pid());
        output::line(format_args!("{name:<10} process {pid}  leader id {id}"))?;
    }
    for role in &cluster.workers {
        let (name, pid) = (role.name(), role.pid());
        output::line(format_args!("{name:<10} process {pid}"))?;
    }
    output::line("try: warploom status    stop: Ctrl-C")
}
