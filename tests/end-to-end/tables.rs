//! The driver's tables that NVIDIA's CUDA runtime asks for: they are answered only if a user
//! enables them.

use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

#[tokio::test]
async fn the_runtimes_tables_are_answered_where_somebody_says_so() {
    let loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "tables");
    let run = |part: &str, flags: &[&str], setting: Option<&str>| {
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
            .env("TMPDIR", dir.path());
        if let Some(setting) = setting {
            command.env("WARPLOOM_CLIENT_RUNTIME_TABLES", setting);
        }
        command
            .args(["run", "--stats", "--tenant", "a"])
            .args(flags);
        let output = command.arg("--").arg(&program).arg(part).output();
        let output = output.expect("it runs");
        let (out, err) = text(&output);
        assert!(output.status.success(), "{part}: {out}{err}");
        assert_eq!(out, format!("{part}: well\n"), "{err}");
        err
    };
    let refused = run("off", &[], None);
    assert_eq!(refused.matches("--cuda-runtime").count(), 1, "{refused}");
    assert!(refused.contains("docs/howto/cuda-runtime.md"), "{refused}");
    assert!(refused.contains("0 answered, 14 refused"), "{refused}");
    let answered = run("on", &["--cuda-runtime"], None);
    assert!(!answered.contains("--cuda-runtime"), "{answered}");
    let counted = "12 answered, 1 refused (f8cff951-2146-8b4e-b9e2-fb469e7c0dd9 1 times)";
    assert!(answered.contains(counted), "{answered}");
    run("on", &[], Some("on"));
    run("off", &[], Some("off"));
}
