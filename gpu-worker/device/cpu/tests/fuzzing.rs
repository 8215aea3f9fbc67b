//! The fuzz target without a fuzzer: its earlier findings, and seeded mutations of the kernels.

#[path = "../../../../tests/fuzz/src/exercise.rs"]
mod exercise;
#[path = "../../../../tests/fuzz/src/mutate.rs"]
mod mutate;

use std::path::PathBuf;

/// Files under a folder of the repository, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
    let entries = std::fs::read_dir(PathBuf::from(root).join(folder)).expect("committed");
    let mut list: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    list.retain(|path| path.extension().is_some_and(|ext| ext == "ptx"));
    list.sort();
    list
}

#[test]
fn what_was_found_stays_mended() {
    let found = files("tests/fuzz/regressions");
    assert!(!found.is_empty());
    for path in found {
        exercise::exercise(&std::fs::read(path).expect("readable"));
    }
}

/// Every mutation ends in a result or an error: no panic, no hang, and the same bytes from both
/// kinds of lane loops.
#[test]
fn mutated_kernels_end_in_a_result_or_an_error() {
    let mut numbers = mutate::Numbers::new(20_261_121);
    for path in files("tests/kernels") {
        let text = std::fs::read(path).expect("readable");
        if text.len() > 40_000 {
            continue;
        }
        exercise::exercise(&text);
        for _ in 0..24 {
            let mut text = text.clone();
            mutate::mutate(&mut text, &mut numbers);
            exercise::exercise(&text);
        }
    }
}
