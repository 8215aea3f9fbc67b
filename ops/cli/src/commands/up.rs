//! `warploom up`: runs a whole cluster on this host until Ctrl-C.

use admin::errors::UsageError;
use admin::output;
use admin::process;
use admin::settings::Settings;
use admin::state_dir::state_dir;
use anyhow::{Context, Result, bail};
use broker::{BrokerError, SyncInterval};
use bus_schemas::TenantSettings;
use clap::Args;

use crate::local::{LocalCluster, LocalOptions};

/// `warploom up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom up                              until Ctrl-C, which drains
  warploom up --workers 2 --set broker.port=4222
  warploom up --set up.tenants=chat,train --set worker.threads=0")]
pub struct UpArgs {
    /// Brokers: 1, 3 (any one may be lost) or 5 (any two) [default: the setting up.brokers, 1]
    #[arg(long)]
    pub brokers: Option<usize>,
    /// Leader candidates [default: the setting up.leaders, 3]
    #[arg(long)]
    pub leaders: Option<usize>,
    /// Workers [default: the setting up.workers, 1]
    #[arg(long)]
    pub workers: Option<usize>,
}

/// Starts everything, prints how to use it, and drains at SIGINT or SIGTERM.
///
/// # Errors
/// If something does not start, or does not stop.
pub async fn up(args: &UpArgs, settings: &Settings, json: bool) -> Result<()> {
    let mut options = LocalOptions::new(state_dir(settings), settings.text("cluster.name"))?;
    options.brokers = args
        .brokers
        .map_or_else(|| settings.number("up.brokers"), Ok)?;
    if !broker::SIZES.contains(&options.brokers) {
        let error = BrokerError::Servers {
            servers: options.brokers,
        };
        bail!(error);
    }
    options.leaders = args
        .leaders
        .map_or_else(|| settings.number("up.leaders"), Ok)?;
    if options.leaders == 0 {
        bail!(UsageError(
            "up.leaders is 0: without a leader nothing runs".into()
        ));
    }
    options.deadline = settings.duration("up.deadline")?;
    options.workers = args
        .workers
        .map_or_else(|| settings.number("up.workers"), Ok)?;
    options.controllers = settings.number("up.controllers")?;
    options.take_metrics(settings)?;
    options.configure(settings);
    options.port = Some(settings.number("broker.port")?).filter(|port| *port != 0);
    options.sync = match settings.text("broker.sync") {
        "relaxed" => SyncInterval::Relaxed,
        "always" => SyncInterval::Always,
        other => bail!(UsageError(format!(
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
            .with_context(|| UsageError(format!("up.tenants: {name:?}")))?;
        options.tenants.push((tenant, TenantSettings::default()));
    }
    let stop = process::stop_signal()?;
    tokio::pin!(stop);
    let mut cluster = tokio::select! {
        started = LocalCluster::start(options) => started?,
        () = &mut stop => {
            output::note("stopped before the cluster was up");
            return Ok(());
        }
    };
    announce(&cluster, json)?;
    cluster.tended(stop, |line| output::note(line)).await;
    output::note("draining; Ctrl-C again ends everything at once");
    cluster.drain_unless(process::stop_signal()?).await?;
    cluster.broker.stop()?;
    Ok(())
}

/// URLs of the metrics endpoints, by role name.
fn metrics_urls(cluster: &LocalCluster) -> Vec<(&str, String)> {
    let leaders = cluster.leaders.iter().map(|(_, role)| role);
    let roles = leaders
        .chain(&cluster.workers)
        .chain(&cluster.tracer)
        .map(crate::local::RoleProcess::name);
    let at = |name| Some((name, cluster.options().metrics_at(name)?));
    let urls = roles.filter_map(at);
    urls.map(|(name, at)| (name, format!("http://{at}/metrics")))
        .collect()
}

fn announce(cluster: &LocalCluster, json: bool) -> Result<()> {
    let (url, credentials) = (cluster.broker.url(), cluster.credentials());
    let servers = cluster.broker.servers();
    if json {
        let line = serde_json::json!({
            "url": url,
            "credentials": credentials,
            "broker": cluster.broker.pid(),
            "brokers": servers.iter().map(broker::Server::pid).collect::<Vec<_>>(),
            "leaders": cluster.leaders.iter().map(|(_, role)| role.pid()).collect::<Vec<_>>(),
            "workers": cluster.workers.iter().map(crate::local::RoleProcess::pid).collect::<Vec<_>>(),
            "tracer": cluster.tracer.as_ref().map(crate::local::RoleProcess::pid),
            "controllers": cluster.controllers.iter().map(|controller| serde_json::json!({
                "process": controller.role.pid(),
                "url": controller.said.url,
                "link": controller.said.link,
            })).collect::<Vec<_>>(),
            "metrics": metrics_urls(cluster).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        });
        return output::line(line);
    }
    let name = &cluster.options().cluster;
    output::line(format_args!("cluster {name} is up at {url}"))?;
    output::line(format_args!("credentials {}", credentials.display()))?;
    for server in servers.iter().filter(|_| servers.len() > 1) {
        let (name, pid, url) = (server.name(), server.pid(), server.url());
        output::line(format_args!("{name} process {pid}  {url}"))?;
    }
    for (id, role) in &cluster.leaders {
        let (name, pid) = (role.name(), role.pid());
        output::line(format_args!("{name:<10} process {pid}  leader id {id}"))?;
    }
    for role in &cluster.workers {
        let (name, pid) = (role.name(), role.pid());
        output::line(format_args!("{name:<10} process {pid}"))?;
    }
    if let Some(role) = &cluster.tracer {
        let (name, pid) = (role.name(), role.pid());
        output::line(format_args!("{name:<10} process {pid}"))?;
    }
    for (name, url) in metrics_urls(cluster) {
        output::line(format_args!("metrics    {name:<10} {url}"))?;
    }
    for controller in &cluster.controllers {
        let (name, pid) = (controller.role.name(), controller.role.pid());
        output::line(format_args!("{name:<12} process {pid}"))?;
        let link = &controller.said.link;
        output::line(format_args!("control room {link}"))?;
        output::line(
            "             (logs one browser in; `warploom controller link` prints another)",
        )?;
    }
    output::line("try: warploom status    stop: Ctrl-C")
}
