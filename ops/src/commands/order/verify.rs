//! `warploom order verify`.

use std::path::Path;

use anyhow::{Result, bail};

use super::VerifyArgs;
use crate::evidence::Evidence;
use crate::output;
use crate::record::{First, GpuVerdict, OrderVerdict, Source, With};
use crate::settings::Settings;

/// Checks an order: a record is replayed and compared with what its workers said, rows are compared
/// with the chains they carry, a directory of evidence with itself.
///
/// # Errors
/// When it cannot be read, or does not agree.
pub async fn verify(args: &VerifyArgs, settings: &Settings, json: bool) -> Result<()> {
    if let Some(dir) = args.source.as_deref().filter(|path| path.is_dir()) {
        return evidence(dir, json);
    }
    let verdict = match Source::open(args.source.as_deref(), settings).await? {
        Source::Record(record) => record.verify(),
        Source::Listing(rows) => OrderVerdict::of_rows(&rows),
    };
    if json {
        output::line(serde_json::to_string(&verdict)?)?;
    } else {
        tell(&verdict)?;
    }
    if let Some(first) = &verdict.first {
        bail!("E-ORDER-DISAGREES: {}", at(first));
    }
    match &args.expect {
        Some(expected) if *expected != verdict.digest => bail!(
            "E-ORDER-DISAGREES: the order's digest is {}, not {expected}",
            verdict.digest
        ),
        _ => Ok(()),
    }
}

fn tell(verdict: &OrderVerdict) -> Result<()> {
    for gpu in &verdict.gpus {
        output::line(format_args!(
            "gpu {} worker {}: {} positions, chain {}, compared with {}",
            gpu.gpu,
            gpu.incarnation,
            gpu.position,
            gpu.chain,
            compared(gpu)
        ))?;
    }
    let digest = match verdict.digest.as_str() {
        "" => String::new(),
        digest => format!(", launch order {digest}"),
    };
    output::line(format_args!(
        "{} positions, {} compared{digest}",
        verdict.positions, verdict.compared
    ))
}

/// What a chain was compared with, in words.
fn compared(gpu: &GpuVerdict) -> String {
    let with = match gpu.with {
        With::Rows => return "its rows' chains".into(),
        With::Nothing => return "nothing".into(),
        With::Worker => "its worker's",
        With::Record => "what was recorded of it",
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

/// Checks a directory of evidence.
fn evidence(dir: &Path, json: bool) -> Result<()> {
    let verdict = Evidence::read(dir)?.verify();
    if json {
        output::line(serde_json::to_string(&verdict)?)?;
    } else {
        output::line(format_args!(
            "{} ops submitted, {} ran, at {} positions; lost {}, run twice {}, out of order {}",
            verdict.submitted,
            verdict.ran,
            verdict.positions,
            verdict.lost,
            verdict.duplicated,
            verdict.reordered
        ))?;
        for what in &verdict.disagreements {
            output::line(what)?;
        }
    }
    if !verdict.is_clean() {
        bail!(
            "E-EVIDENCE-DISAGREES: the evidence in {} does not agree",
            dir.display()
        );
    }
    Ok(())
}
