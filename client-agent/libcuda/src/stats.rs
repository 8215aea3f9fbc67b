//! The report at the program's end, if `WARPLOOM_STATS` is set, on the program's costs and missing
//! functions. It is a readable line on stderr. If the variable has a path, it is a line of JSON in
//! that file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::device::Device;
use crate::lock::lock;
use crate::module;
use crate::tables::asked;

/// Functions that were called and are not supported.
static MISSED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
/// Kernels that were loaded on a device.
static KERNELS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// Launches of each session.
static LAUNCHES: Mutex<Vec<Arc<AtomicU64>>> = Mutex::new(Vec::new());

/// Maximum number of kernels that are reported.
const MOST_KERNELS: usize = 65_536;

/// Notes a call of an export that is not supported yet.
pub(crate) fn missed(name: &'static str) {
    lock(&MISSED).insert(name);
}

/// Notes that a kernel is on a device.
pub(crate) fn used(kernel: &str) {
    let mut kernels = lock(&KERNELS);
    if kernels.len() < MOST_KERNELS {
        kernels.insert(kernel.to_owned());
    }
}

/// Adds a counter of launches for one more session; one thread at a time adds to it.
pub(crate) fn launches() -> Arc<AtomicU64> {
    let counter = Arc::default();
    lock(&LAUNCHES).push(Arc::clone(&counter));
    counter
}

/// Writes the report, if it is enabled.
pub(crate) fn report(devices: &[Device]) {
    let Some(wish) = std::env::var_os("WARPLOOM_STATS") else {
        return;
    };
    let waits: u64 = devices.iter().map(Device::round_trips).sum();
    if wish.as_encoded_bytes().contains(&b'/') {
        let file = File::options().create(true).append(true).open(wish);
        // On an error, the user finds no report.
        let _ = file.and_then(|mut file| writeln!(file, "{}", json(waits)));
        return;
    }
    let missed = lock(&MISSED);
    let names = match missed.is_empty() {
        true => "none".to_owned(),
        false => missed.iter().copied().collect::<Vec<_>>().join(", "),
    };
    // stderr may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "warploom: waited {waits} times for an answer; called in vain: {names}{}{}{}",
        asked::report(),
        module::refused(),
        failures(devices)
    );
}

/// The failures of the devices' sessions: the runtime's message says no more than the code.
fn failures(devices: &[Device]) -> String {
    let failures = devices
        .iter()
        .filter_map(|device| device.with(|session| session.failure()));
    failures
        .map(|failure| format!("; failed: {failure}"))
        .collect()
}

fn all_launches() -> u64 {
    let counters = lock(&LAUNCHES);
    counters.iter().map(|it| it.load(Ordering::Relaxed)).sum()
}

fn json(waits: u64) -> String {
    let (answered, refused) = asked::counts();
    let without = module::refusals().into_iter();
    let without: Vec<_> = without
        .map(|(file, count)| format!("{}: {count}", quoted(&file)))
        .collect();
    format!(
        "{{\"waits\": {waits}, \"launches\": {}, \"kernels\": [{}], \"missed\": [{}], \
         \"tables_answered\": {answered}, \"tables_refused\": {refused}, \"without_ptx\": {{{}}}}}",
        all_launches(),
        list(lock(&KERNELS).iter().map(String::as_str)),
        list(lock(&MISSED).iter().copied()),
        without.join(", ")
    )
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(quoted).collect::<Vec<_>>().join(", ")
}

/// A word as a JSON string.
fn quoted(word: &str) -> String {
    let mut out = "\"".to_owned();
    for c in word.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_json_has_them() {
        assert_eq!(quoted("a \"b\" \\ c\n"), r#""a \"b\" \\ c\u000a""#);
        missed("cuNothing");
        used("kernel");
        launches().store(5, Ordering::Relaxed);
        let report = json(3);
        for part in [
            "\"waits\": 3",
            "\"launches\": 5",
            "\"cuNothing\"",
            "\"kernels\": [\"kernel\"]",
            "\"without_ptx\": {",
        ] {
            assert!(report.contains(part), "{report}");
        }
    }
}
