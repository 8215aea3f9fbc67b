//! `warploom order verify`.

use std::path::{Path, PathBuf};

use admin::errors::{ErrorCode, UsageError};
use admin::evidence::{Evidence, WorkerChain};
use admin::output;
use admin::record::{First, GpuCheck, OrderCheck, Source, With, is_archive};
use admin::settings::Settings;
use anyhow::{Result, bail};
use clap::Args;

/// `warploom order verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom order verify                       the cluster's own record
  warploom order verify run.record --expect 2dd05749…
  warploom order verify evidence --key 6f1c…  a demo's evidence")]
pub struct VerifyArgs {
    /// A file that `order export` wrote, or a directory of evidence (default: the cluster's record)
    pub source: Option<PathBuf>,
    /// Fails unless the order has this digest
    #[arg(long, value_name = "HEX")]
    pub expect: Option<String>,
    /// Fails unless the evidence is signed with this key, which `warploom status` shows
    #[arg(long, value_name = "HEX")]
    pub key: Option<String>,
}

/// Checks an order. A record is replayed and compared with its workers' reports. Rows are compared
/// with the chains they carry, and a directory of evidence with itself.
///
/// # Errors
/// If it cannot be read, or does not agree.
pub async fn verify(args: &VerifyArgs, settings: &Settings, json: bool) -> Result<()> {
    if let Some(dir) = args.source.as_deref().filter(|path| is_evidence(path)) {
        return evidence(dir, args.key.as_deref(), json);
    }
    if args.key.is_some() {
        bail!(UsageError(
            "--key is the key of a directory of evidence; records and rows are not signed".into()
        ));
    }
    let check = match Source::open(args.source.as_deref(), settings).await? {
        Source::Record(record) => record.verify(),
        Source::Listing(rows) => OrderCheck::of_rows(&rows),
    };
    if json {
        output::line(serde_json::to_string(&check)?)?;
    } else {
        tell(&check)?;
    }
    if let Some(first) = &check.first {
        bail!(ErrorCode::OrderDisagrees.failed(at(first)));
    }
    match &args.expect {
        Some(expected) if *expected != check.digest => bail!(ErrorCode::OrderDisagrees.failed(
            format!("the order's digest is {}, not {expected}", check.digest)
        )),
        _ => Ok(()),
    }
}

/// True if the path is a folder of evidence: any folder that is not an archive.
fn is_evidence(path: &Path) -> bool {
    path.is_dir() && !is_archive(path)
}

fn tell(check: &OrderCheck) -> Result<()> {
    if let Some(anchor) = &check.anchor {
        output::line(anchor)?;
    }
    for gpu in &check.gpus {
        let gone = match &*gpu.fate {
            "" | "here" => String::new(),
            fate => format!(" ({fate})"),
        };
        output::line(format_args!(
            "gpu {} worker {}{gone}: {} positions, chain {}, compared with {}",
            gpu.gpu,
            gpu.incarnation,
            gpu.position,
            gpu.chain,
            compared(gpu)
        ))?;
    }
    output::line(format_args!(
        "{} positions, {} compared, {} adopted, {} skipped, {} unrecorded, launch order {}",
        check.positions,
        check.compared,
        check.adopted,
        check.skipped,
        check.gap_positions,
        check.digest
    ))
}

/// The source that a chain was compared with, in words.
fn compared(gpu: &GpuCheck) -> String {
    let with = match gpu.with {
        With::Rows => return "its rows' chains".into(),
        With::Nothing => return "nothing".into(),
        With::Worker => "its worker's",
        With::Record => "what was recorded of it",
        With::Evidence => "its log",
    };
    let through = gpu.heard.or(gpu.recorded).unwrap_or_default();
    let behind = match gpu.position.saturating_sub(through) {
        0 => String::new(),
        behind => format!(" ({behind} behind it with nothing)"),
    };
    format!("{with} at position {through}{behind}")
}

fn at(first: &First) -> String {
    let worker = match &first.incarnation {
        Some(incarnation) => format!(" worker {incarnation}"),
        None => String::new(),
    };
    match first.position {
        0 => first.why.clone(),
        position => format!(
            "gpu {}{worker} position {position}: {}",
            first.gpu, first.why
        ),
    }
}

/// Prints the source that one worker's chain was compared with.
fn say_chain(worker: &WorkerChain) -> Result<()> {
    let with = match worker.with {
        With::Evidence => "its log",
        With::Nothing => "nothing",
        _ => "what was recorded of it",
    };
    let same = if worker.same { "" } else { ": another chain" };
    output::line(format_args!(
        "gpu {} worker {} ({}): {} positions, compared with {with} at position {}{same}",
        worker.gpu, worker.incarnation, worker.fate, worker.position, worker.through
    ))
}

/// Checks a directory of evidence.
fn evidence(dir: &Path, key: Option<&str>, json: bool) -> Result<()> {
    let (evidence, signature) = Evidence::read(dir, key)?;
    let signed_with = signature.key;
    if !signature.unsigned.is_empty() {
        output::note(format_args!(
            "an older build signed this, and not {}",
            signature.unsigned.join(", ")
        ));
    }
    let (check, chains) = (evidence.verify(), evidence.chains());
    if json {
        let mut found = serde_json::to_value(&check)?;
        found["workers"] = serde_json::to_value(&chains.workers)?;
        found["key"] = signed_with.into();
        found["unsigned"] = signature.unsigned.into();
        output::line(found)?;
    } else {
        let whose = match key {
            Some(_) => "the key given",
            None => "compare it with `warploom status`, or give it as --key",
        };
        output::line(format_args!("signed with {signed_with} ({whose})"))?;
        output::line(format_args!(
            "{} ops submitted, {} ran, at {} positions; lost {}, run twice {}, out of order {}",
            check.submitted,
            check.ran,
            check.positions,
            check.lost,
            check.duplicated,
            check.reordered
        ))?;
        chains.workers.iter().try_for_each(say_chain)?;
        for what in &check.disagreements {
            output::line(what)?;
        }
    }
    if !check.is_clean() {
        bail!(
            ErrorCode::EvidenceDisagrees
                .failed(format!("the evidence in {} does not agree", dir.display()))
        );
    }
    Ok(())
}
