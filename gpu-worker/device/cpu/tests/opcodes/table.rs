//! The coverage table: what the suites here say they test.

use crate::document::agree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// An opcode with alternatives at each place; an empty one is for a modifier left out.
type Pattern = Vec<BTreeSet<String>>;

/// Joins a pattern with another that lacks one of its places.
fn join_optional(patterns: &mut BTreeSet<Pattern>) -> bool {
    let before = patterns.len();
    for pattern in patterns.clone() {
        for place in (1..pattern.len()).rev() {
            let mut shorter = pattern.clone();
            shorter.remove(place);
            if patterns.contains(&pattern) && patterns.remove(&shorter) {
                patterns.remove(&pattern);
                let mut joined = pattern.clone();
                joined[place].insert(String::new());
                patterns.insert(joined);
            }
        }
    }
    patterns.len() < before
}

/// Joins patterns that differ at one place only.
fn join_alternatives(patterns: &mut BTreeSet<Pattern>) -> bool {
    let before = patterns.len();
    let longest = patterns.iter().map(Vec::len).max().unwrap_or(0);
    for place in 0..longest {
        let mut groups: BTreeMap<Pattern, BTreeSet<String>> = BTreeMap::new();
        let (there, shorter) = std::mem::take(patterns)
            .into_iter()
            .partition::<BTreeSet<_>, _>(|pattern| pattern.len() > place);
        for mut pattern in there {
            let options = pattern.remove(place);
            groups.entry(pattern).or_default().extend(options);
        }
        *patterns = shorter;
        for (mut pattern, options) in groups {
            pattern.insert(place, options);
            patterns.insert(pattern);
        }
    }
    patterns.len() < before
}

/// Forms of one opcode as few patterns.
fn patterns(forms: &[&str]) -> Vec<String> {
    let split = |form: &&str| {
        form.split('.')
            .map(|part| BTreeSet::from([part.into()]))
            .collect()
    };
    let mut patterns: BTreeSet<Pattern> = forms.iter().map(split).collect();
    while join_optional(&mut patterns) || join_alternatives(&mut patterns) {}
    let mut lines: Vec<String> = patterns.iter().map(show).collect();
    lines.sort();
    lines
}

fn show(pattern: &Pattern) -> String {
    let mut text = String::new();
    for (place, options) in pattern.iter().enumerate() {
        let optional = options.contains("");
        let named: Vec<_> = options
            .iter()
            .filter(|name| !name.is_empty())
            .map(String::as_str)
            .collect();
        let joined = named.join(",");
        let dot = if place == 0 { "" } else { "." };
        text += &match (optional, named.len()) {
            (true, _) => format!("[{dot}{joined}]"),
            (false, 1) => format!("{dot}{joined}"),
            (false, _) => format!("{dot}{{{joined}}}"),
        };
    }
    text
}

const HEAD: &str = "# PTX coverage of the CPU device

Every form below (an opcode with all its modifiers) is tested: most as vectors, in lanes of chosen
and random operands against an expectation computed without the engine, the rest by whole kernels.
`{a,b}` is a choice, `[.a]` may be left out, `[.a,b]` is a choice that may be left out.

The file is generated from the tests; `WARPLOOM_BLESS=1 cargo test -p device-cpu --test opcodes`
writes it anew.

| opcode | forms | how many | tested by |
| --- | --- | ---: | --- |
";

/// The file's text.
fn table(suites: &[(String, Vec<String>)]) -> String {
    let mut forms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (suite, list) in suites {
        for form in list {
            forms.entry(form).or_default().insert(suite);
        }
    }
    let head = |form: &str| form.split('.').next().unwrap_or_default().to_owned();
    let mut rows: BTreeMap<(String, BTreeSet<&str>), Vec<&str>> = BTreeMap::new();
    for (form, tests) in forms {
        rows.entry((head(form), tests)).or_default().push(form);
    }
    let mut text = HEAD.to_owned();
    for ((opcode, tests), forms) in rows {
        let shown: Vec<_> = patterns(&forms)
            .iter()
            .map(|line| format!("`{line}`"))
            .collect();
        let tests: Vec<_> = tests.into_iter().collect();
        let (count, shown) = (forms.len(), shown.join("<br>"));
        let _ = writeln!(
            text,
            "| {opcode} | {shown} | {count} | {} |",
            tests.join(", ")
        );
    }
    text
}

#[test]
fn the_coverage_table_is_what_the_tests_say() {
    agree("reference/ptx-coverage.md", &table(&crate::covered()))
        .unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn patterns_stand_for_their_forms() {
    let all = [
        "add.f32",
        "add.ftz.f32",
        "add.ftz.sat.f32",
        "add.sat.f32",
        "add.s32",
        "add.u32",
    ];
    assert_eq!(patterns(&all), ["add.{s32,u32}", "add[.ftz][.sat].f32"]);
}
