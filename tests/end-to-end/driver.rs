//! The driver API as a C program calls it, one part after the other.

use broker::testing::TempDir;

use crate::run::{compile, text, warploom};
use crate::stage::{Scene, plan};

/// Parts of `programs/driver.c`.
const PARTS: [&str; 11] = [
    "contexts",
    "launches",
    "streams",
    "memory",
    "graphs",
    "capture",
    "linking",
    "bad_image",
    "sticky",
    "forks",
    "leaves",
];

#[tokio::test]
async fn a_c_program_walks_through_the_driver_api() {
    let scene = Scene::start(1, 1, &[plan("a", "search", 1)]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "driver");
    for part in PARTS {
        let output = warploom(dir.path())
            .env(
                "WARPLOOM_BROKER_CREDENTIALS",
                scene.stage.cluster.credentials(),
            )
            .env(
                "WARPLOOM_CLUSTER_NAME",
                &scene.stage.cluster.options().cluster,
            )
            .args(["run", "--tenant", "a", "--"])
            .arg(&program)
            .arg(part)
            .output()
            .expect("it runs");
        let (out, err) = text(&output);
        assert!(output.status.success(), "{part}: {out}{err}");
        assert_eq!(out, format!("{part}: well\n"), "{err}");
    }
}
