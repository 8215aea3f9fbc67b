//! CUDA's own environment variables work as they do with a GPU.

use std::process::Command;

use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

#[tokio::test]
async fn the_drivers_variables_are_obeyed() {
    let loaded = LoadedCluster::start(1, 2, &[plan("a", "search", 1)]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "variables");
    let begun = |variables: &[(&str, &str)]| {
        let mut command = warploom(dir.path());
        let credentials = loaded.demo.cluster.credentials();
        let cluster = &loaded.demo.cluster.options().cluster;
        command
            .env("WARPLOOM_BROKER_CREDENTIALS", credentials)
            .env("WARPLOOM_CLUSTER_NAME", cluster)
            .env("TMPDIR", dir.path())
            .envs(variables.iter().copied())
            .args(["run", "--tenant", "a", "--devices", "2"]);
        command
    };
    let run = |part: &str, variables: &[(&str, &str)]| {
        let mut command = begun(variables);
        command.arg("--").arg(&program).arg(part);
        let output = command.output().expect("it runs");
        let (out, err) = text(&output);
        assert!(
            output.status.success(),
            "{part} with {variables:?}: {out}{err}"
        );
        out
    };
    for (part, variables) in [
        ("hidden", &[("CUDA_VISIBLE_DEVICES", "")][..]),
        ("hidden", &[("CUDA_VISIBLE_DEVICES", "-1")]),
        ("lazy", &[]),
        ("lazy", &[("CUDA_MODULE_LOADING", "LAZY")]),
        ("eager", &[("CUDA_MODULE_LOADING", "EAGER")]),
        ("running on", &[]),
        ("running on", &[("CUDA_LAUNCH_BLOCKING", "0")]),
        ("blocking", &[("CUDA_LAUNCH_BLOCKING", "1")]),
    ] {
        assert_eq!(run(part, variables), format!("{part}: well\n"));
    }
    let all = run("uuids", &[]);
    let [first, second] = all.lines().collect::<Vec<_>>()[..] else {
        panic!("two devices: {all}");
    };
    assert_ne!(first, second);
    for (visible, wanted) in [
        ("1", vec![second]),
        ("1,0", vec![second, first]),
        // Devices after an invalid number are not visible.
        ("0,7,1", vec![first]),
        (second, vec![second]),
        (&format!("{second},{first}"), vec![second, first]),
    ] {
        let seen = run("uuids", &[("CUDA_VISIBLE_DEVICES", visible)]);
        assert_eq!(seen.lines().collect::<Vec<_>>(), wanted, "{visible}");
    }
    for (variable, value, wanted) in [
        // Of the GPUs of an outer run.
        ("WARPLOOM_GPU_DRIVER_VERSION", "12.4", "13000\n"),
        ("WARPLOOM_CLIENT_DRIVER_VERSION", "12.4", "12040\n"),
        ("WARPLOOM_CLIENT_DRIVER_VERSION", "13.4", "13040\n"),
    ] {
        assert_eq!(run("version", &[(variable, value)]), wanted, "{value}");
    }
    forced(begun);
}

/// Both workers compute on CPUs, so programs compile to PTX, unless the user says otherwise.
fn forced(begun: impl Fn(&[(&str, &str)]) -> Command) {
    for (setting, variables, wanted) in [
        (
            "auto",
            &[("CUPY_COMPILE_WITH_PTX", "0")][..],
            "1 preloaded\n",
        ),
        ("auto", &[], "1 preloaded\n"),
        ("cpu", &[], "1 preloaded\n"),
        ("gpu", &[], "none\n"),
    ] {
        let mut command = begun(variables);
        let script = "echo ${CUPY_COMPILE_WITH_PTX:-none} ${LD_PRELOAD:+preloaded}";
        command.args(["--set", &format!("run.device={setting}"), "--"]);
        let output = command.args(["sh", "-c", script]).output();
        let (out, err) = text(&output.expect("it runs"));
        assert_eq!(out, wanted, "{setting} with {variables:?}: {err}");
    }
}
