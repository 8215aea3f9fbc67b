//! What administrators changed, as `why --since` tells it.

use serde_json::Value;

use crate::order::Tool;

pub(super) const SECOND: u64 = 1_000_000_000;

/// A second since 1970, as commands take it.
pub(super) fn moment(second: u64) -> String {
    let mut date = std::process::Command::new("date");
    let date = date.args(["--utc", &format!("--date=@{second}"), "+%FT%TZ"]);
    let said = date.output().expect("date runs").stdout;
    String::from_utf8(said).expect("text").trim().to_owned()
}

pub(super) fn number(row: &Value, key: &str) -> u64 {
    let value = row[key].as_u64();
    value.unwrap_or_else(|| panic!("{key}: {row}"))
}

/// Checks that the changes of the run are told in their order, with the values before and since.
pub(super) fn are_told(tool: &Tool) {
    let rows_of_hour = tool.json(&["why", "--since", "1h"]);
    let changes = rows_of_hour.iter();
    let changes: Vec<_> = changes.filter_map(|row| row.get("change")).collect();
    let told = changes.iter().map(|change| {
        let text = |key: &str| change[key].as_str().unwrap_or("-").to_owned();
        [
            text("tenant"),
            text("setting"),
            text("before"),
            text("after"),
        ]
        .join(" ")
    });
    let told: Vec<_> = told.collect();
    let expected = [
        "- standing on off",
        "- hold off on",
        "- hold on off",
        "train suspended off on",
        "train suspended on off",
        "train cap none 1 %",
        "train cap 1 % none",
    ];
    assert_eq!(told, expected);
    let at: Vec<_> = changes.iter().map(|it| number(it, "at_ns")).collect();
    assert!(at.is_sorted(), "{at:?}");
    // Each state lasted, and the next run of the command is asked for one of them only.
    let [.., cap, uncapped] = at[..] else {
        panic!("{at:?}");
    };
    assert!(uncapped - cap > SECOND, "{at:?}");
    let (since, until) = (moment(uncapped / SECOND), moment(uncapped / SECOND + 1));
    let rows = tool.json(&["why", "--since", &since, "--until", &until]);
    let changes = rows.iter().filter_map(|row| row.get("change"));
    let changes: Vec<_> = changes.map(|it| it["after"].as_str()).collect();
    assert_eq!(changes, [Some("none")]);
    let begins = "the record begins at ";
    let text = tool.well(&["why", "--since", "1h"]);
    assert!(
        text.contains("changed at (UTC)") && text.contains(begins),
        "{text}"
    );
    let whole = tool.json(&["why"]);
    let told = |key: &str| whole.iter().any(|row| row.get(key).is_some());
    assert!(!told("change") && !told("record"));
    // An hour ago there was no record.
    let begin = &rows_of_hour.last().expect("rows")["record"];
    assert_eq!(begin["was_cut"], false, "{begin}");
    assert!(number(begin, "begins_ns") <= at[0], "{begin}");
    let before = ["--tenant", "train", "--since", "2h", "--until", "1h"];
    tool.fails(&[&["why"], &before[..]].concat(), begins);
}
