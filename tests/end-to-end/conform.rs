//! `warploom conform`: Warploom's own driver does what CUDA's manual says, but for documented deviations.

use serde_json::Value;
use test_cluster::TempDir;

use crate::run::{text, warploom};

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
    // Each deviation of the page is one of the list, and fails.
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
