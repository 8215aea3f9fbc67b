//! Checks the files that are generated from the table of metrics; `WARPLOOM_BLESS=1` writes them.
//! Alert rules are written by hand and may name only metrics of the table.

mod dashboard;
mod page;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use telemetry::catalogue::{Kind, METRICS};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file with its expected text, or writes it.
fn check(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("WARPLOOM_BLESS").is_some_and(|it| it == "1") {
        let folder = file.parent().expect("it is in a folder");
        std::fs::create_dir_all(folder).expect("the folder");
        std::fs::write(&file, text).expect("written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{path} is not as the table says: `just bless` writes it"
    );
}

/// The names of metrics in a query.
fn named(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    // A label in YAML ends with a colon.
    let words = words.map(|word| word.trim_end_matches(':'));
    let metrics = words.filter(|word| {
        let ours = ["warploom_", "DCGM_", "hw_"];
        ours.iter().any(|prefix| word.starts_with(prefix))
    });
    metrics.map(str::to_owned).collect()
}

/// Names of all series and labels.
fn known() -> BTreeSet<String> {
    let mut names = BTreeSet::from(["warploom_cluster".to_owned()]);
    for metric in METRICS {
        let name = metric.prometheus();
        if metric.kind == Kind::Histogram {
            names.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
        names.extend(
            metric
                .labels
                .iter()
                .map(|label| metric.prometheus_label(label)),
        );
        names.insert(name);
    }
    names
}

#[test]
fn the_page_of_signals_is_the_tables() {
    check("docs/reference/signals.md", &page::text());
}

#[test]
fn the_dashboard_is_the_tables_and_asks_for_what_there_is() {
    for query in dashboard::queries() {
        let unknown: Vec<_> = named(&query).difference(&known()).cloned().collect();
        assert!(unknown.is_empty(), "{unknown:?} in {query}");
    }
    check("ops/grafana/warploom.json", &dashboard::text());
}

#[test]
fn alerts_ask_for_what_there_is() {
    let file = root().join("ops/prometheus/alerts.yml");
    let rules = std::fs::read_to_string(file).expect("the rules");
    let unknown: Vec<_> = named(&rules).difference(&known()).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
