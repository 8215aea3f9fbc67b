//! `docs/evidence/ptx-corpus.md`: the coverage of the corpus, counted from the PTX itself.

use crate::document::agree;
use crate::manifest::Case;
use ptx::{FunctionKind, ParsedModule, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Contribution of one compiler.
#[derive(Default)]
struct Row {
    cases: usize,
    kernels: BTreeSet<(String, String)>,
    modules: usize,
    instructions: usize,
    opcodes: BTreeMap<String, usize>,
    forms: BTreeSet<String>,
    targets: BTreeSet<String>,
}

impl Row {
    fn add(&mut self, module: &ParsedModule<'_>) {
        self.modules += 1;
        let target = module.target.iter().find(|word| word.starts_with("sm_"));
        self.targets.extend(target.map(|word| (*word).to_owned()));
        let bodies = module.functions.iter().filter_map(|f| f.body.as_ref());
        for statement in bodies.flatten() {
            if let Statement::Instruction(instruction) = statement {
                let base = instruction.opcode.split('.').next().unwrap_or_default();
                self.instructions += 1;
                *self.opcodes.entry(base.to_owned()).or_default() += 1;
                self.forms.insert(instruction.opcode.to_owned());
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.cases += other.cases;
        self.kernels.extend(other.kernels.iter().cloned());
        self.modules += other.modules;
        self.instructions += other.instructions;
        for (opcode, count) in &other.opcodes {
            *self.opcodes.entry(opcode.clone()).or_default() += count;
        }
        self.forms.extend(other.forms.iter().cloned());
        self.targets.extend(other.targets.iter().cloned());
    }
}

fn rows(cases: &[Case]) -> Result<BTreeMap<String, Row>, String> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for case in cases {
        let row = rows.entry(case.compiler().to_owned()).or_default();
        row.cases += 1;
        for launch in &case.launches {
            let path = case.folder.join(&launch.ptx);
            let id = format!("{}/{}", case.compiler(), launch.ptx);
            row.kernels.insert((id, launch.entry.clone()));
            if seen.insert(path.clone()) {
                let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
                let module = ParsedModule::parse(&text).map_err(|error| error.to_string())?;
                row.add(&module);
                let entries = module.functions.iter();
                let entries = entries.filter(|f| f.kind == FunctionKind::Entry).count();
                if entries == 0 {
                    return Err(format!("{} has no entry", path.display()));
                }
            }
        }
    }
    Ok(rows)
}

/// Checks the promise of the corpus: five compilers, and enough cases of each.
pub(crate) fn is_wide(cases: &[Case]) -> Result<(), String> {
    let rows = rows(cases)?;
    let least = [
        ("nvrtc", 100),
        ("numba", 15),
        ("tinygrad", 50),
        ("triton", 15),
        ("warp", 15),
    ];
    for (compiler, least) in least {
        let kernels = rows.get(compiler).map_or(0, |row| row.kernels.len());
        if kernels < least {
            return Err(format!(
                "{compiler}: {kernels} kernels, at least {least} wanted"
            ));
        }
    }
    let all: usize = rows.values().map(|row| row.kernels.len()).sum();
    match all < 200 {
        true => Err(format!("{all} kernels in all, at least 200 wanted")),
        false => Ok(()),
    }
}

/// Checks that the document matches the corpus; `WARPLOOM_BLESS=1` writes it.
pub(crate) fn is_current(cases: &[Case]) -> Result<(), String> {
    let text = document(&rows(cases)?);
    agree("evidence/ptx-corpus.md", &text)
}

fn document(rows: &BTreeMap<String, Row>) -> String {
    let mut all = Row::default();
    for row in rows.values() {
        all.merge(row);
    }
    let mut text = String::from(
        "# The PTX corpus\n\n\
         Kernels of five compilers that run on the CPU device in every test run, each compared with \
         a reference computed by NumPy. [tests/corpus/README.md](../../tests/corpus/README.md) tells \
         how a case is made. This file is generated: `WARPLOOM_BLESS=1 cargo test -p device-cpu \
         --test corpus table`.\n\n\
         | compiler | cases | kernels | modules | targets | instructions | opcodes | forms |\n\
         | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |\n",
    );
    let total = "all".to_owned();
    for (name, row) in rows.iter().chain([(&total, &all)]) {
        let targets: Vec<&str> = row.targets.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            row.cases,
            row.kernels.len(),
            row.modules,
            targets.join(", "),
            row.instructions,
            row.opcodes.len(),
            row.forms.len()
        );
    }
    text.push_str(
        "\nA form is an opcode with all its modifiers. Instructions are counted in the text of the \
         modules, functions included, as the compiler wrote it.\n\n\
         ## Opcodes\n\n| opcode |",
    );
    for name in rows.keys() {
        let _ = write!(text, " {name} |");
    }
    text.push_str(" all |\n| --- |");
    text.push_str(&" ---: |".repeat(rows.len() + 1));
    text.push('\n');
    for (opcode, count) in &all.opcodes {
        let _ = write!(text, "| `{opcode}` |");
        for row in rows.values() {
            match row.opcodes.get(opcode) {
                Some(count) => drop(write!(text, " {count} |")),
                None => text.push_str(" |"),
            }
        }
        let _ = writeln!(text, " {count} |");
    }
    text
}
