//! `warploom conform`: Warploom's own driver follows CUDA's manual, except for documented
//! deviations. If a driver has a fault, the suite finds it.

use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;
use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{WARPLOOM, compile_library, text, warploom};

/// Faults of `programs/planted.c` by number: the area that finds each, and its function.
const PLANTED: &[(u32, &str, &str)] = &[
    (1, "optional", "cuMemGetInfo"),
    (2, "values", "cuMemAlloc"),
    (3, "handles", "cuStreamDestroy"),
    (4, "values", "cuStreamCreate"),
    (5, "events", "cuEventQuery"),
    (6, "copies", "cuMemcpyDtoH"),
    (7, "copies", "cuMemsetD32"),
    (8, "modules", "cuModuleLoadData"),
    (9, "modules", "cuModuleGetFunction"),
    (10, "launches", "cuLaunchKernel"),
    (11, "captures", "cuMemAlloc"),
    (12, "captures", "cuStreamIsCapturing"),
    (13, "graphs", "cuGraphGetNodes"),
    (14, "pointers", "cuPointerGetAttribute"),
    (15, "devices", "cuGetErrorName"),
    (16, "devices", "cuDeviceGetAttribute"),
    (17, "contexts", "cuCtxPopCurrent"),
    (18, "memory", "cuMemGetAddressRange"),
    (19, "functions", "cuFuncGetAttribute"),
    (20, "contexts", "cuCtxSetLimit"),
    // The last check of its area.
    (21, "copies", "cuMemcpy2D"),
];
/// Drivers that are tested at the same time.
const AT_ONCE: usize = 3;

fn lines(said: &str) -> Vec<Value> {
    let lines = said.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn our_driver_deviates_from_the_manual_only_where_it_is_documented() {
    let dir = TempDir::new().expect("a directory");
    let output = warploom(dir.path()).args(["conform", "--json"]).output();
    let output = output.expect("it runs");
    let (out, err) = text(&output);
    let lines = lines(&out);
    let failed = lines.iter().filter(|it| it["verdict"] == "failed");
    let undocumented = failed.filter(|it| it["deviation"].is_null());
    let undocumented: Vec<&Value> = undocumented.collect();
    assert!(undocumented.is_empty(), "{undocumented:#?}");
    assert!(output.status.success(), "{err}");
    let value = |name: &str| {
        let found = lines.iter().find(|it| it["metric"] == name);
        found.and_then(|it| it["value"].as_f64()).expect("a value")
    };
    assert!(value("conform_checks") >= 400.0);
    assert_eq!(value("conform_failures"), 0.0);
    // Each deviation of the page is in the list, and fails.
    let page = include_str!("../../docs/reference/conformance.md");
    let deviating = lines.iter().filter(|it| it["deviation"].is_string());
    let names: Vec<String> = deviating
        .map(|it| {
            let word = |key: &str| it[key].as_str().expect("a text").to_owned();
            format!("| {}: {} |", word("function"), word("check"))
        })
        .collect();
    let missing: Vec<&String> = names.iter().filter(|it| !page.contains(*it)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(page.matches("\n| cu").count(), names.len(), "{names:#?}");
}

#[test]
fn a_driver_that_is_not_there_and_an_area_that_there_is_not_are_said() {
    let dir = TempDir::new().expect("a directory");
    for (arguments, code, said) in [
        (
            ["--libcuda", "/nonexistent/libcuda.so"],
            1,
            "cannot be loaded",
        ),
        (["--only", "everything"], 2, "there is no area everything"),
    ] {
        let mut command = warploom(dir.path());
        let output = command
            .arg("conform")
            .args(arguments)
            .output()
            .expect("it runs");
        let (_, stderr) = text(&output);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

/// The checks that fail in an area with a faulty driver, each named by its function.
fn failed(
    loaded: &LoadedCluster,
    (dir, library): (&Path, &Path),
    number: u32,
    area: &str,
) -> Vec<String> {
    let mut command = warploom(dir);
    let cluster = &loaded.demo.cluster;
    let output = command
        .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster)
        .env("TMPDIR", dir)
        .env("PLANTED", number.to_string())
        .args(["run", "--tenant", "a", "--", WARPLOOM, "conform", "--json"])
        .args(["--only", area, "--libcuda"])
        .arg(library)
        .output()
        .expect("it runs");
    let (out, err) = text(&output);
    let of = |line: &Value| line["function"].as_str().map(str::to_owned);
    let all = lines(&out);
    assert!(!all.is_empty(), "{err}");
    let failed = all.iter().filter(|it| it["verdict"] == "failed");
    failed.filter_map(of).collect()
}

#[tokio::test]
async fn each_fault_that_is_planted_in_a_driver_is_found() {
    let loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    let dir = TempDir::new().expect("a directory");
    let library = compile_library(dir.path(), "planted");
    let at = (dir.path(), library.as_path());
    let next = Mutex::new(PLANTED.iter());
    let find = || {
        while let Some((number, area, function)) = {
            let mut next = next.lock().expect("no thread panics");
            next.next()
        } {
            let failed = failed(&loaded, at, *number, area);
            assert!(
                failed.iter().any(|it| it == function),
                "fault {number}, of {function}, is not found: {failed:?}"
            );
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(find)).collect();
        for thread in threads {
            thread.join().expect("each is found");
        }
    });
    // Without a fault the library behaves like the driver that it wraps.
    for area in ["copies", "captures"] {
        assert_eq!(failed(&loaded, at, 0, area), [""; 0]);
    }
}
