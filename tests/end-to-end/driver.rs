//! The driver API as C programs call it, one part after the other.

use std::path::Path;
use std::process::Command;

use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

/// Parts of the programs with these names.
const PARTS: &[(&str, &[&str])] = &[
    (
        "driver",
        &[
            "contexts",
            "launches",
            "streams",
            "memory",
            "graphs",
            "capture",
            "linking",
            "bad_image",
            "higher_target",
            "sticky",
            "forks",
            "leaves",
        ],
    ),
    ("images", &["fatbins", "large", "links", "grids", "mixed"]),
    ("textures", &["arrays", "objects", "reset"]),
    ("corners", &["rows", "advice", "attributes", "nodes"]),
    ("pools", &["figures", "current"]),
    (
        "mapping",
        &["mapping", "places", "large", "turns", "promised", "unified"],
    ),
    ("embedded", &["embedded"]),
    ("optional", &["optional"]),
    ("variants", &["variants"]),
    (
        "nothing",
        &["allocations", "copies", "sets", "boxes", "launches"],
    ),
];

#[tokio::test]
async fn c_programs_walk_through_the_driver_api() {
    let loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    let dir = TempDir::new().expect("a directory");
    for (name, parts) in PARTS {
        let program = compile(dir.path(), name);
        for part in *parts {
            run(&loaded, &dir, &program, part);
        }
    }
}

/// Parts of programs that count the device's free memory: nothing else runs beside them.
const ALONE: &[(&str, &[&str])] = &[("freed", &["freed"]), ("contexts", &["contexts"])];

#[test]
fn c_programs_count_what_is_free() {
    let dir = TempDir::new().expect("a directory");
    for (name, parts) in ALONE {
        let program = compile(dir.path(), name);
        for part in *parts {
            let mut command = warploom(dir.path());
            command.args(["run", "--"]).arg(&program).arg(part);
            is_well(&mut command, part);
        }
    }
}

fn run(loaded: &LoadedCluster, dir: &TempDir, program: &Path, part: &str) {
    let mut command = warploom(dir.path());
    command
        .env(
            "WARPLOOM_BROKER_CREDENTIALS",
            loaded.demo.cluster.credentials(),
        )
        .env(
            "WARPLOOM_CLUSTER_NAME",
            &loaded.demo.cluster.options().cluster,
        )
        .env("TMPDIR", dir.path())
        .args(["run", "--tenant", "a", "--"])
        .arg(program)
        .arg(part);
    is_well(&mut command, part);
}

#[track_caller]
fn is_well(command: &mut Command, part: &str) {
    let output = command.output().expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{part}: {out}{err}");
    assert_eq!(out, format!("{part}: well\n"), "{err}");
}
