//! The fake driver has the functions that the device's sources name, and few others.

use std::collections::BTreeSet;
use std::path::Path;

use fake_cuda::{FakeCuda, library};

/// Functions that the device does not call yet, for what is planned next.
const BEYOND: [&str; 5] = [
    "cuCtxSynchronize",
    "cuFuncGetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamWaitEvent",
    "cuStreamWriteValue32_v2",
];

/// Adds the driver's functions that the sources below a folder name.
fn named(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            named(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        for after in text.split("sys::cu").skip(1) {
            let end = after.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let name = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
            found.insert(format!("cu{name}"));
        }
    }
}

#[test]
fn it_has_the_functions_that_the_device_calls() {
    let mut wanted = BTreeSet::new();
    named(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut wanted,
    );
    assert!(wanted.len() > 40, "{wanted:?}");
    let fake = FakeCuda::load(&library()).expect("the library");
    let has: BTreeSet<String> = fake.functions().iter().cloned().collect();
    let beyond: Vec<&String> = has.difference(&wanted).collect();
    assert_eq!(beyond, BEYOND);
    let missing: Vec<&String> = wanted.difference(&has).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
