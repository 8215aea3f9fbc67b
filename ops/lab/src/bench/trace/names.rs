//! The number of series of metrics where many tenants launch many kernels, each kernel of a name of its own.

use std::fmt::Write as _;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::{Tenant, TenantSettings};
use client_agent::{Client, Function, Session};
use warploom_cli::client_settings::client_settings;

use super::collector::Collector;
use super::goals::SERIES;
use crate::bench::bench_cluster::cpu_cluster_of;
use crate::bench::control::Browser;
use crate::bench::metric::Measurement;
use crate::bench::spans::Receiver;
use crate::bench::start::busy_process;

/// Name of the process with all tenants' programs.
pub(in crate::bench) const PROCESS: &str = "names";

/// Number of tenants, each with a session.
const TENANTS: usize = 100;
/// Number of kernels, and of those of each tenant.
const KERNELS: usize = 10_000;
const EACH: usize = KERNELS / TENANTS;
/// Number of requests of each tenant. Those of all tenants wait for the device at the same time.
const ROUNDS: usize = 10;
/// Roles with a page of metrics of their own. The controller's is in its API.
const ROLES: [&str; 3] = ["leader", "worker", "tracer"];

fn tenant(number: usize) -> String {
    format!("t{number}")
}

/// A module of empty kernels with these numbers in their names.
fn module(numbers: Range<usize>) -> String {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for number in numbers {
        // Writing to a string does not fail.
        let _ = writeln!(text, ".visible .entry k{number}()\n{{\nret;\n}}");
    }
    text
}

/// A tenant's program.
struct Program {
    session: Session,
    kernels: Vec<Function>,
    _client: Client,
}

impl Program {
    fn start(settings: &Settings, number: usize) -> Result<Self> {
        let client = Client::connect(client_settings(settings, &tenant(number))?)?;
        let session = client.open()?;
        let numbers = number * EACH..(number + 1) * EACH;
        let module = session.load(module(numbers.clone()).as_bytes())?;
        let kernels = numbers.map(|number| Ok(module.function(&format!("k{number}"))?));
        Ok(Self {
            kernels: kernels.collect::<Result<_>>()?,
            session,
            _client: client,
        })
    }

    /// Launches its kernels of a round.
    fn launch(&self, round: usize) -> Result<()> {
        let kernels = self.kernels.chunks(EACH / ROUNDS).nth(round);
        for kernel in kernels.unwrap_or_default() {
            self.session.launch(kernel, [1; 3], [32, 1, 1], 0, &[])?;
        }
        self.session.flush();
        Ok(())
    }
}

/// Runs as the programs of all tenants: each kernel is launched once. The sessions stay open until this process is
/// killed.
pub(in crate::bench) fn play(settings: &Settings) -> Result<()> {
    let programs = (0..TENANTS).map(|number| Program::start(settings, number));
    let programs: Vec<Program> = programs.collect::<Result<_>>()?;
    for round in 0..ROUNDS {
        for program in &programs {
            program.launch(round)?;
        }
        for program in &programs {
            program.session.sync()?;
        }
    }
    writeln!(std::io::stdout(), "ready")?;
    // The input ends with the measuring process.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Roles, each with an address of this host at which nothing listens.
fn pages() -> Result<Vec<(&'static str, SocketAddr)>> {
    // All are held at once, so that none is found twice.
    let held = ROLES.map(|role| (role, TcpListener::bind("127.0.0.1:0")));
    let pages = held.iter().map(|(role, listener)| match listener {
        Ok(listener) => Ok((*role, listener.local_addr()?)),
        Err(error) => Err(anyhow::anyhow!(
            "a port for the page of the {role}: {error}"
        )),
    });
    pages.collect()
}

/// Number of series of a page of metrics.
fn series_of(page: &str) -> usize {
    let lines = page.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .count()
}

async fn read(at: SocketAddr) -> Result<String> {
    // A provider that this process has installed already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let page = client.get(format!("http://{at}/metrics")).send().await?;
    Ok(page.error_for_status()?.text().await?)
}

/// Counts the series of every page after all tenants have launched all their kernels, and their spans were exported.
///
/// # Errors
/// If a process does not start, or a page cannot be read.
pub(super) async fn series(settings: &Settings) -> Result<Measurement> {
    eprintln!("{TENANTS} tenants launch {KERNELS} kernels");
    let (receiver, pages) = (Receiver::start()?, pages()?);
    let tenants = (0..TENANTS).map(|number| -> Result<(Tenant, TenantSettings)> {
        let name = tenant(number)
            .parse::<Tenant>()
            .context("a tenant's name")?;
        Ok((name, TenantSettings::default()))
    });
    let tenants: Vec<_> = tenants.collect::<Result<_>>()?;
    let started = cpu_cluster_of(settings, [], |options| {
        options.tenants.extend(tenants);
        let endpoint = ("telemetry.otlp".to_owned(), receiver.endpoint().to_owned());
        let addresses = pages.iter();
        let addresses = addresses.map(|(role, at)| (format!("{role}.metrics"), at.to_string()));
        options.settings.extend(addresses.chain([endpoint]));
    });
    let mut cluster = started.await?;
    let collector = Collector::of(&cluster, receiver).await?;
    // The process's own metrics are not looked at.
    let arguments = ["--set", "telemetry.otlp="].map(str::to_owned);
    let _programs = busy_process(&cluster, PROCESS, &arguments).await?;
    collector.exported(KERNELS as u64).await?;
    let mut counted = Vec::new();
    for (role, at) in pages {
        let page = read(at).await;
        let page = page.with_context(|| format!("the page of the {role}"))?;
        counted.push((role, series_of(&page)));
    }
    let controller = cluster.start_controller().await?;
    let browser = Browser::log_in(&controller.said.url, &controller.said.link).await?;
    let page = browser.get("/metrics").await?;
    counted.push(("controller", series_of(&page)));
    let largest = counted.iter().map(|(_, series)| *series as f64);
    let largest: Vec<f64> = largest.reduce(f64::max).into_iter().collect();
    let metric = Measurement::new(&SERIES, &largest)
        .with("kernels", KERNELS)
        .with("tenants", TENANTS);
    let each = counted.into_iter();
    Ok(each.fold(metric, |metric, (role, series)| metric.with(role, series)))
}

#[cfg(test)]
mod tests {
    use device_cpu::Program as Built;

    use super::*;

    #[test]
    fn a_module_has_a_kernel_for_each_number() {
        let text = module(7..10);
        Built::build(&text).expect("it compiles");
        assert_eq!(text.matches(".entry k").count(), 3);
        assert_eq!(EACH % ROUNDS, 0, "every kernel has a round");
    }

    #[test]
    fn comments_are_no_series() {
        let page = "# HELP a\n# TYPE a counter\na{b=\"#\"} 1\na{b=\"c\"} 2\n\n# EOF\n";
        assert_eq!(series_of(page), 2);
    }
}
