//! `warploom conform`: holds a CUDA driver against the manual, check by check.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

use admin::completion::Candidate;
use admin::errors::UsageError;
use admin::output;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use anyhow::{Context, Result, bail};
use bus_schemas::TenantSettings;
use clap::Args;
use comfy_table::Cell;
use conform::{CheckResult, Plan, Report, Verdict};
use test_cluster::{Processes, TestCluster};
use warploom_cli::drop_in;

use crate::bench::{Goal, Measurement, specs};

mod deviations;

/// The tenant of the suite's program.
const TENANT: &str = "conform";
/// Checks that fail, each with the reason why that is documented.
type Deviations = &'static [(&'static str, &'static str)];
/// Those of drivers that are not Warploom's.
const NONE: Deviations = &[];
/// Maximum number of areas that run at the same time.
const AT_ONCE: usize = 4;

specs! {
    CHECKS = "conform_checks", "checks", Goal::AtLeast(400.0), "checks of the driver API that were made";
    FAILURES = "conform_failures", "checks", Goal::AtMost(0.0), "checks that fail and are no documented deviations";
    DEVIATIONS = "conform_deviations", "checks", Goal::None, "documented deviations";
    SECONDS = "conform_s", "s", Goal::AtMost(60.0), "time that all of it takes";
}

/// Holds a CUDA driver against the manual, check by check.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom conform                        Warploom's own driver, on a cluster of its own with a CPU worker
  warploom conform --only graphs          one area of it
  warploom conform --libcuda libcuda.so.1 the driver that this machine's loader finds
  warploom run -- warploom conform --libcuda libcuda.so.1
                                          Warploom's driver on the cluster that there is

Exit status: 0 if no check fails but documented deviations, 1 otherwise.")]
pub struct ConformArgs {
    /// The driver: a path, or a name for the loader (default: Warploom's own)
    #[arg(long, value_name = "PATH")]
    libcuda: Option<PathBuf>,
    /// Run one area only; may be given several times
    #[arg(long, value_name = "AREA")]
    pub(crate) only: Vec<String>,
}

/// The process that runs checks (started by `conform`).
#[derive(Debug, Args)]
pub struct ConformAreaArgs {
    library: OsString,
    area: String,
    from: usize,
}

/// Runs as the process that runs checks.
///
/// # Errors
/// As [`conform::serve`].
pub fn run_area(args: &ConformAreaArgs) -> Result<()> {
    conform::serve(&args.library, &args.area, args.from)
}

/// Runs the suite.
///
/// # Errors
/// If a check fails, an area is unknown, or the driver cannot be loaded.
pub async fn conform(args: &ConformArgs, settings: &Settings, json: bool) -> Result<()> {
    let areas = chosen(&args.only)?;
    let (report, deviations) = match &args.libcuda {
        Some(library) => {
            let library = library.as_os_str().to_owned();
            let report = run(areas, library, Vec::new(), NONE, json).await?;
            (report, NONE)
        }
        None => (run_own(areas, settings, json).await?, deviations::ALL),
    };
    tell(&report, deviations, args.only.is_empty(), json)
}

fn chosen(only: &[String]) -> Result<Vec<&'static str>> {
    let all = conform::area_names();
    if let Some(unknown) = only.iter().find(|it| !all.contains(&it.as_str())) {
        let names = all.join(", ");
        bail!(UsageError(format!("there is no area {unknown}: {names}")));
    }
    let is_chosen = |area: &&str| only.is_empty() || only.iter().any(|it| it == area);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Runs areas on Warploom's own driver and a cluster of its own.
async fn run_own(areas: Vec<&'static str>, settings: &Settings, json: bool) -> Result<Report> {
    let library = drop_in::library(settings.given("run.library"))?;
    let started = TestCluster::<Processes>::start_processes("conform", |options| {
        options.configure(settings);
        let tenant = TENANT.parse().context("a tenant's name")?;
        options.tenants.push((tenant, TenantSettings::default()));
        options
            .settings
            .push(("worker.device".into(), "cpu".into()));
        Ok(())
    });
    let cluster = started.await?;
    let folder = drop_in::folder(&cluster.options().state_dir, &library)?;
    let devices = drop_in::ProgramDevices::unknown(1);
    let tenant = TENANT.parse().context("a tenant's name")?;
    let credentials = cluster.credentials();
    let variables = drop_in::variables(&folder, &credentials, &tenant, devices, &[], |_| None);
    let name = cluster.options().cluster.clone();
    let mut environment: Vec<(String, OsString)> =
        vec![("WARPLOOM_CLUSTER_NAME".into(), name.into())];
    let own = variables
        .into_iter()
        .filter(|it| it.name.starts_with("WARPLOOM_"));
    environment.extend(own.map(|it| (it.name.into(), it.value)));
    let library = folder.join("libcuda.so.1").into_os_string();
    run(areas, library, environment, deviations::ALL, json).await
}

/// Runs areas on a driver, in processes with these additional environment variables.
async fn run(
    areas: Vec<&'static str>,
    library: OsString,
    environment: Vec<(String, OsString)>,
    deviations: Deviations,
    json: bool,
) -> Result<Report> {
    let own = std::env::current_exe()?;
    let run = move || {
        let process = |area: &str, from: usize| {
            let mut command = Command::new(&own);
            command.arg("conform-area").arg(&library);
            command.args([area, &from.to_string()]);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            Ok(command)
        };
        let at_once = available_parallelism().map_or(1, Into::into).min(AT_ONCE);
        conform::run(&Plan {
            areas,
            at_once,
            process: &process,
            tell: &|result| {
                if json {
                    // What was told stays, whatever becomes of the run. The metrics at its end notice a
                    // reader that is gone.
                    let _ = tell_as_json(result, deviations);
                } else if result.verdict == Verdict::Failed {
                    // A person sees failures at once; the table has all the rest.
                    eprintln!("{}: {}", result.name(), result.saw);
                }
            },
        })
    };
    tokio::task::spawn_blocking(run).await?
}

/// The reason why a failed check is a documented deviation, if it is one.
fn reason(result: &CheckResult, deviations: Deviations) -> Option<&'static str> {
    let name = result.name();
    let found = deviations.iter().find(|(check, _)| *check == name);
    found.map(|(_, reason)| *reason)
}

fn tell_as_json(result: &CheckResult, deviations: Deviations) -> Result<()> {
    let mut line = serde_json::to_value(result)?;
    if let Some(reason) = reason(result, deviations) {
        line["deviation"] = reason.into();
    }
    output::line(line)
}

fn tell(report: &Report, deviations: Deviations, all: bool, json: bool) -> Result<()> {
    let mut areas: Vec<(&str, [usize; 4])> = Vec::new();
    let (mut failed, mut deviating) = (0, 0);
    for result in &report.results {
        if areas.last().is_none_or(|(area, _)| *area != result.area) {
            areas.push((&result.area, [0; 4]));
        }
        let Some((_, counts)) = areas.last_mut() else {
            continue;
        };
        counts[0] += 1;
        match (result.verdict, reason(result, deviations)) {
            (Verdict::Passed, _) => counts[1] += 1,
            (Verdict::Absent, _) => {}
            (Verdict::Failed, Some(_)) => (counts[3], deviating) = (counts[3] + 1, deviating + 1),
            (Verdict::Failed, None) => (counts[2], failed) = (counts[2] + 1, failed + 1),
        }
    }
    if json {
        metrics(report, (failed, deviating), all)?;
    } else {
        let mut table = headed("area|checks>|passed>|failed>|deviations>");
        for (area, counts) in &areas {
            let counts = counts.map(Cell::new);
            table.add_row([Cell::new(area)].into_iter().chain(counts));
        }
        output::line(fitted(&table))?;
        let (checks, seconds) = (report.results.len(), report.seconds);
        output::line(format!(
            "{checks} checks in {seconds:.1} s: {failed} failed, {deviating} documented deviations"
        ))?;
    }
    if failed > 0 {
        bail!("{failed} checks fail");
    }
    Ok(())
}

fn metrics(report: &Report, (failed, deviating): (usize, usize), all: bool) -> Result<()> {
    let values = [
        (&CHECKS, report.results.len() as f64),
        (&FAILURES, failed as f64),
        (&DEVIATIONS, deviating as f64),
        (&SECONDS, report.seconds),
    ];
    // A single area has fewer checks than the goal for all areas.
    for (spec, value) in values.iter().skip(usize::from(!all)) {
        output::line(serde_json::to_string(&Measurement::new(spec, &[*value]))?)?;
    }
    Ok(())
}

/// Names of areas, for shell completion.
pub(crate) fn names() -> Vec<Candidate> {
    let names = conform::area_names().into_iter();
    names.map(|it| Candidate::new(it, "")).collect()
}
