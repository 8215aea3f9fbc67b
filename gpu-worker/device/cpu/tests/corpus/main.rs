//! The corpus: kernels of five compilers, each run and compared with its reference.
//!
//! `tests/corpus/README.md` explains the cases and how to add one. This test needs no Python: it
//! reads the committed PTX, manifests and data. It prints a line per case, as the standard harness
//! does, and takes the same arguments: substrings of names, `--exact`, `--list`.

mod compare;
mod data;
#[path = "../document/mod.rs"]
mod document;
mod folders;
mod manifest;
mod run;
mod sources;
mod table;

use manifest::Case;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A test of this file that is not a case: its name and its function.
type Extra = (&'static str, fn(&[Case]) -> Result<(), String>);

const EXTRAS: [Extra; 3] = [
    ("corpus_is_wide", table::is_wide),
    ("table_is_current", table::is_current),
    ("sources_compile_to_the_ptx", sources::compile_to_the_ptx),
];

/// Selection by the command line.
struct Wanted {
    names: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
}

impl Wanted {
    fn parse() -> Self {
        let mut wanted = Self {
            names: Vec::new(),
            exact: false,
            list: false,
            ignored: false,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--ignored" => wanted.ignored = true,
                // Options of the standard harness that take a value and mean nothing here.
                "--test-threads" | "--color" | "--format" | "--skip" | "-Z" => drop(args.next()),
                flag if flag.starts_with('-') => {}
                name => wanted.names.push(name.to_owned()),
            }
        }
        wanted
    }

    fn has(&self, name: &str) -> bool {
        let matches = |want: &String| match self.exact {
            true => name == want,
            false => name.contains(want.as_str()),
        };
        !self.ignored && (self.names.is_empty() || self.names.iter().any(matches))
    }
}

/// The result of one test, as printed.
struct Outcome {
    name: String,
    failure: Option<String>,
}

/// Runs a test, catches its panics, and prints its line.
fn judge(name: &str, test: impl FnOnce() -> Result<String, String>) -> Outcome {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    let result = caught.unwrap_or_else(|_| Err("it panicked; see above".to_owned()));
    let line = match &result {
        Ok(note) => format!("test {name} ... ok{note}\n"),
        Err(_) => format!("test {name} ... FAILED\n"),
    };
    // One write per line, so that the threads' lines do not mix.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
    Outcome {
        name: name.to_owned(),
        failure: result.err(),
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::parse();
    let cases = match manifest::all(&folders::cases()) {
        Ok(cases) => cases,
        Err(error) => {
            println!("the corpus cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen: Vec<&Case> = cases.iter().filter(|case| wanted.has(&case.name)).collect();
    let extras: Vec<Extra> = EXTRAS
        .into_iter()
        .filter(|extra| wanted.has(extra.0))
        .collect();
    if wanted.list {
        let names = chosen.iter().map(|case| case.name.as_str());
        for name in names.chain(extras.iter().map(|extra| extra.0)) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    println!("\nrunning {} tests", chosen.len() + extras.len());
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads.min(8) {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = judge(&case.name, || run::check(case));
                    outcomes.lock().expect("no panic inside").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no panic inside");
    for (name, test) in extras {
        outcomes.push(judge(name, || test(&cases).map(|()| String::new())));
    }
    report(&outcomes, start)
}

fn report(outcomes: &[Outcome], start: Instant) -> ExitCode {
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((&outcome.name, outcome.failure.as_ref()?)))
        .collect();
    for (name, failure) in &failed {
        println!("\n---- {name} ----\n{failure}");
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; \
         finished in {:.2}s\n",
        outcomes.len() - failed.len(),
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
