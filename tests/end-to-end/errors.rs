//! docs/reference/errors.md lists every code. Codes on the bus have their number, their CUDA error,
//! and the advice to retry or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use admin::errors::ErrorCode;
use bus_schemas::Code;

#[test]
fn every_code_is_documented() {
    let text = include_str!("../../docs/reference/errors.md");
    for code in Code::ALL {
        let retry = if code.retryable() { "yes" } else { "no" };
        let entry = format!(
            "- **{}** ({}, CUDA {}, retry {retry}):",
            code.name(),
            code.number(),
            code.cuda()
        );
        assert!(
            text.contains(&entry),
            "docs/reference/errors.md lacks the entry {entry:?}"
        );
    }
}

/// The codes that a text names.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("E-").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|it| it.is_alphanumeric() || it == '-')
    });
    starts.filter_map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|it: char| !(it.is_ascii_uppercase() || it == '-'));
        let code = rest[..end.unwrap_or(rest.len())].trim_end_matches('-');
        (code.len() > 3).then_some(code)
    })
}

/// True if a text uses a code of commands, by its variant.
fn has(text: &str, code: ErrorCode) -> bool {
    let variant = format!("ErrorCode::{code:?}");
    text.match_indices(&variant).any(|(at, _)| {
        let behind = text[at + variant.len()..].chars().next();
        !behind.is_some_and(char::is_alphanumeric)
    })
}

fn collect(dir: &Path, sources: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            sources.push((path.display().to_string(), text));
        }
    }
}

/// The source files, each with its path.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for dir in [
        "ops",
        "actors",
        "scheduler-leader",
        "gpu-worker",
        "client-agent",
        "bus-schemas",
    ] {
        collect(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(dir),
            &mut sources,
        );
    }
    // The table itself uses no code.
    sources.retain(|(path, _)| !path.ends_with("errors/codes.rs"));
    sources
}

#[test]
fn an_errors_text_takes_its_code_from_the_table() {
    let mut written = Vec::new();
    for (path, text) in sources() {
        for code in ErrorCode::ALL {
            if text.contains(&format!("#[error(\"{}:", code.name())) {
                written.push((code.name(), path.clone()));
            }
        }
    }
    assert!(written.is_empty(), "{written:?}");
}

#[test]
fn every_code_that_the_sources_name_has_one_entry() {
    let text = include_str!("../../docs/reference/errors.md");
    let mut entries = BTreeMap::<&str, u32>::new();
    for line in text.lines() {
        let code = line.strip_prefix("- **").and_then(|it| it.split_once("**"));
        if let Some((code, _)) = code {
            *entries.entry(code).or_default() += 1;
        }
    }
    let mut named = BTreeMap::new();
    for (path, text) in sources() {
        let used = ErrorCode::ALL.iter().filter(|code| has(&text, **code));
        for code in codes(&text).chain(used.map(|code| code.name())) {
            named.insert(code.to_owned(), path.clone());
        }
    }
    assert!(named.len() > 40, "{named:?}");
    for (code, file) in &named {
        assert_eq!(entries.get(code.as_str()), Some(&1), "{code} of {file}");
    }
    let named: BTreeSet<_> = named.keys().map(String::as_str).collect();
    let unnamed: Vec<_> = entries
        .keys()
        .filter(|code| !named.contains(*code))
        .collect();
    assert!(unnamed.is_empty(), "nothing says {unnamed:?} any more");
}
