//! What tests cover, for the table in `docs/ptx-coverage.md`.
//!
//! The suites of the `opcodes` tests are in the table by themselves. Another test binary that
//! includes this file says what it covers with [`record`]; the list is kept beside this file, and
//! `cargo test -p device-cpu --test opcodes` puts it into the table.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Fails if a committed file differs from what it should hold, or writes it if `WARPLOOM_BLESS`
/// is set.
pub(crate) fn agree(path: &str, want: &str) {
    let path = here(path);
    if std::env::var_os("WARPLOOM_BLESS").is_some() {
        std::fs::write(&path, want).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = have
        .lines()
        .zip(want.lines())
        .find(|(have, want)| have != want);
    assert!(
        have == want,
        "{} is not what the tests say ({differs:?}); with WARPLOOM_BLESS=1 set they write it",
        path.display()
    );
}

/// Says that a suite of another test binary covers these forms.
pub(crate) fn record<S: AsRef<str>>(suite: &str, forms: impl IntoIterator<Item = S>) {
    let forms: BTreeSet<String> = forms
        .into_iter()
        .map(|form| form.as_ref().to_owned())
        .collect();
    let lines: String = forms.iter().map(|form| format!("{form}\n")).collect();
    agree(&format!("tests/coverage/{suite}.txt"), &lines);
}

/// The forms of the given opcodes in a module's text.
pub(crate) fn forms_in(source: &str, opcodes: &[&str]) -> Vec<String> {
    let module = ptx::Module::parse(source).unwrap_or_else(|error| panic!("{error}"));
    let mut forms = BTreeSet::new();
    for statement in module
        .functions
        .iter()
        .filter_map(|f| f.body.as_ref())
        .flatten()
    {
        if let ptx::Statement::Instruction(instruction) = statement {
            let head = instruction.opcode.split('.').next().unwrap_or_default();
            if opcodes.contains(&head) {
                forms.insert(instruction.opcode.to_owned());
            }
        }
    }
    forms.into_iter().collect()
}

/// Every recorded list: the suite's name and its forms.
pub(crate) fn lists() -> Vec<(String, Vec<String>)> {
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(here("tests/coverage"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            lists.push((name, text.lines().map(str::to_owned).collect()));
        }
    }
    lists.sort();
    lists
}
