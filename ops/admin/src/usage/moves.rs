//! Memory moves and savings besides charged memory, for printing with the usage.

use bus_schemas::MoveTotals;
use serde_json::{Value, json};

use crate::table::size;
use crate::target::duration;

/// Names of the counted values, in CSV and JSON.
pub const MOVED: [&str; 8] = [
    "swap_outs",
    "swap_out_bytes",
    "swap_ins",
    "swap_in_bytes",
    "swap_wait_seconds",
    "swapped_credits",
    "saved_credits",
    "unsent_bytes",
];

/// The head of the table for people.
pub const MOVED_HEAD: [&str; 6] = [
    "out>",
    "back>",
    "waited>",
    "swapped credits>",
    "saved credits>",
    "not sent>",
];

/// GiB-seconds.
fn credits(byte_ms: u64) -> f64 {
    byte_ms as f64 / 1e3 / f64::from(1 << 30)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The values of [`MOVED`] in CSV.
#[must_use]
pub fn in_csv(moves: &MoveTotals) -> [String; 8] {
    [
        moves.outs.to_string(),
        moves.out_bytes.to_string(),
        moves.ins.to_string(),
        moves.in_bytes.to_string(),
        format!("{:.9}", seconds(moves.waited_ns)),
        format!("{:.9}", credits(moves.swapped_byte_ms)),
        format!("{:.9}", credits(moves.saved_byte_ms)),
        moves.unsent_bytes.to_string(),
    ]
}

/// The values of [`MOVED`] in JSON.
#[must_use]
pub fn in_json(moves: &MoveTotals) -> [Value; 8] {
    [
        json!(moves.outs),
        json!(moves.out_bytes),
        json!(moves.ins),
        json!(moves.in_bytes),
        json!(seconds(moves.waited_ns)),
        json!(credits(moves.swapped_byte_ms)),
        json!(credits(moves.saved_byte_ms)),
        json!(moves.unsent_bytes),
    ]
}

/// The cells under [`MOVED_HEAD`].
#[must_use]
pub fn in_table(moves: &MoveTotals) -> [String; 6] {
    [
        format!("{}, {}", moves.outs, size(moves.out_bytes)),
        format!("{}, {}", moves.ins, size(moves.in_bytes)),
        duration(moves.waited_ns),
        format!("{:.4}", credits(moves.swapped_byte_ms)),
        format!("{:.4}", credits(moves.saved_byte_ms)),
        size(moves.unsent_bytes),
    ]
}

/// A remark on memory moves in missing blocks; `None` if there are none.
#[must_use]
pub fn remark(missing: &MoveTotals) -> Option<String> {
    let (out, back, wait) = (missing.outs, missing.ins, duration(missing.waited_ns));
    let of = |byte_ms| credits(byte_ms);
    (!missing.is_zero()).then(|| {
        format!(
            "of memory, blocks that the stream lacks have {out} swaps out, {back} back, {wait} waited, \
             {:.4} credits swapped out, {:.4} saved and {} not sent",
            of(missing.swapped_byte_ms),
            of(missing.saved_byte_ms),
            size(missing.unsent_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{fit, headed};

    #[test]
    fn the_table_fits_120_columns() {
        let moves = MoveTotals {
            outs: 12_345,
            out_bytes: 1_023 << 30,
            ins: 12_345,
            in_bytes: 1_023 << 30,
            waited_ns: 59_990_000_000,
            swapped_byte_ms: (99_999 << 30) * 1_000,
            saved_byte_ms: (99_999 << 30) * 1_000,
            unsent_bytes: 1_023 << 30,
        };
        let mut head = vec!["tenant"];
        head.extend(MOVED_HEAD);
        let mut table = headed(&head.join("|"));
        let name = "a".repeat(12);
        table.add_row([name].into_iter().chain(in_table(&moves)));
        let text = fit(&table, 120);
        assert_eq!(text, table.to_string(), "nothing is folded");
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{text}"
        );
        assert_eq!(in_csv(&moves)[5], "99999.000000000");
        assert_eq!(in_json(&moves)[4], json!(59.99));
        assert!(remark(&MoveTotals::default()).is_none());
        let said = remark(&moves).expect("something is missing");
        assert!(
            said.contains("12345 swaps out") && said.contains("99999.0000 saved"),
            "{said}"
        );
    }
}
