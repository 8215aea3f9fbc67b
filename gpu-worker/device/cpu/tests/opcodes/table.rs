//! The coverage table, from the forms that the suites state.

use crate::document::agree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// An opcode with alternatives at each place; an empty one stands for an omitted modifier.
type Pattern = Vec<BTreeSet<String>>;

/// Joins a pattern with another one that lacks one of its places.
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

/// Joins patterns that differ only at one place.
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

/// Merges forms of one opcode into few patterns, each of at most `columns` columns.
fn patterns(forms: &[&str], columns: usize) -> Vec<(String, usize)> {
    let split = |form: &&str| {
        form.split('.')
            .map(|part| BTreeSet::from([part.into()]))
            .collect()
    };
    let mut patterns: BTreeSet<Pattern> = forms.iter().map(split).collect();
    while join_optional(&mut patterns) || join_alternatives(&mut patterns) {}
    let narrow = patterns.into_iter().flat_map(|it| narrowed(it, columns));
    let mut lines: Vec<_> = narrow.map(|it| (show(&it), forms_of(&it))).collect();
    lines.sort();
    lines
}

/// Number of forms of a pattern.
fn forms_of(pattern: &Pattern) -> usize {
    pattern.iter().map(BTreeSet::len).product()
}

/// Splits a pattern into narrower ones, halved at the place with the most alternatives.
fn narrowed(pattern: Pattern, columns: usize) -> Vec<Pattern> {
    let width = |options: &BTreeSet<String>| options.iter().map(String::len).sum::<usize>();
    let places = pattern.iter().enumerate();
    let choices = places.filter(|(_, options)| options.len() > 1);
    let widest = choices.max_by_key(|(_, options)| width(options));
    let Some((place, options)) = widest.filter(|_| show(&pattern).len() > columns) else {
        return vec![pattern];
    };
    let middle = options.iter().nth(options.len() / 2).cloned();
    let (mut low, mut high) = (pattern.clone(), pattern.clone());
    high[place] = low[place].split_off(&middle.unwrap_or_default());
    let halves = [low, high].into_iter();
    // Optional modifiers are omitted in a separate pattern.
    let whole = halves.map(|mut half| {
        if half[place].len() == 1 && half[place].contains("") {
            half.remove(place);
        }
        half
    });
    whole.flat_map(|half| narrowed(half, columns)).collect()
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

Every form below (an opcode with all its modifiers) is tested. Most are tested as vectors: lanes of chosen
and random operands against an expectation computed without the engine. Whole kernels test the rest.
`{a,b}` is a choice, `[.a]` may be left out, `[.a,b]` is a choice that may be left out.

The file is generated from the tests; `WARPLOOM_BLESS=1 cargo test -p device-cpu --test opcodes`
writes it anew.

| forms | how many | tested by |
| --- | ---: | --- |
";
/// Columns of a line of the page.
const COLUMNS: usize = 100;

/// Text of the file.
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
    for ((_, tests), forms) in rows {
        let tests: Vec<_> = tests.into_iter().collect();
        let tests = tests.join(", ");
        let rest = "| `` | 99,999 |  |".len() + tests.len();
        for (shown, count) in patterns(&forms, COLUMNS - rest) {
            let _ = writeln!(text, "| `{shown}` | {count} | {tests} |");
        }
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
    let shown = |columns| {
        let patterns = patterns(&all, columns);
        let all = patterns.iter().map(|(_, count)| count).sum::<usize>();
        assert_eq!(all, 6);
        patterns
            .into_iter()
            .map(|(shown, _)| shown)
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(100), ["add.{s32,u32}", "add[.ftz][.sat].f32"]);
    let narrow = [
        "add.f32",
        "add.ftz.f32",
        "add.ftz.sat.f32",
        "add.s32",
        "add.sat.f32",
        "add.u32",
    ];
    assert_eq!(shown(12), narrow);
}
