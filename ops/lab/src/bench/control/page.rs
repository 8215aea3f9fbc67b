//! The page in a browser, measured by its own tests. If there is no browser, they say what is missing.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use super::goals::{FRAME, PAGE, PAINT};
use crate::bench::bench_cluster::output;
use crate::bench::metric::Measurement;

/// Script in the repository that measures the page.
const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/page/run.py");

/// Measures the wanted metrics of the page.
pub(in crate::bench) async fn page(
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let specs = [&PAGE, &PAINT, &FRAME];
    let specs: Vec<_> = specs.into_iter().filter(|it| wanted(it.name)).collect();
    if specs.is_empty() {
        return Ok(());
    }
    eprintln!("the page in a browser");
    let measured = measured().await;
    for spec in specs {
        tell(match &measured {
            Ok(found) => match found[spec.name].as_f64() {
                Some(value) => Measurement::new(spec, &[value]).with("seen", found.clone()),
                None => Measurement::missing(spec, "the page's tests did not say it"),
            },
            Err(why) => Measurement::missing(spec, why),
        });
    }
    Ok(())
}

/// The JSON at the end of the page tests' output.
async fn measured() -> Result<Value, String> {
    if !Path::new(RUNNER).exists() {
        return Err("tests/page of the repository is not there".into());
    }
    let mut command = Command::new("python3");
    command.arg(RUNNER).args(["--only", "speed"]);
    let ran = output(command)
        .await
        .map_err(|error| format!("{error:#}"))?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let json = said
        .lines()
        .rev()
        .find_map(|line| serde_json::from_str(line).ok());
    json.ok_or_else(|| {
        let why = String::from_utf8_lossy(&ran.stderr)
            .trim()
            .replace('\n', " ");
        format!("tests/page/run.py: {why}")
    })
}
