//! Rows as files: CSV, or one JSON object a line.

use std::io::Write;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::PositionRow;
use crate::csv::{self, CsvRow};

/// The format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated values, with a line of names.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// A record from which the order can be recomputed.
    Record,
}

/// The names of the columns: the fields of a row.
const NAMES: [&str; 19] = [
    "gpu",
    "incarnation",
    "position",
    "global",
    "epoch",
    "tenant",
    "ordinal",
    "session",
    "kind",
    "first",
    "last",
    "input",
    "priority",
    "kernels",
    "cost_ns",
    "outcome",
    "measured_ns",
    "adopted",
    "chain",
];

/// Writes rows.
///
/// # Errors
/// If they cannot be written.
pub fn write_listing(rows: &[PositionRow], format: Format, out: &mut impl Write) -> Result<()> {
    if format == Format::Jsonl {
        for row in rows {
            serde_json::to_writer(&mut *out, row)?;
            out.write_all(b"\n")?;
        }
        return Ok(());
    }
    out.write_all(csv::line(NAMES).as_bytes())?;
    for row in rows {
        let Value::Object(fields) = serde_json::to_value(row)? else {
            continue;
        };
        let cells = NAMES.iter().map(|name| match &fields[*name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        out.write_all(csv::line(cells).as_bytes())?;
    }
    Ok(())
}

/// Parses rows of either format.
///
/// # Errors
/// If they have neither format.
pub fn read_listing(bytes: &[u8]) -> Result<Vec<PositionRow>> {
    let text = std::str::from_utf8(bytes).context("neither a record nor text")?;
    if text.starts_with('{') {
        let lines = text.lines().enumerate();
        return lines
            .map(|(at, line)| {
                serde_json::from_str(line).with_context(|| format!("line {}", at + 1))
            })
            .collect();
    }
    if !text.starts_with("gpu,") {
        bail!("neither a record nor rows of an order");
    }
    let table = csv::rows(text)?;
    let Some((columns, rows)) = table.split_first() else {
        return Ok(Vec::new());
    };
    let read = |row: &CsvRow| {
        let text = || format!("line {}: {}", row.line, row.cells.join(","));
        position(&columns.cells, &row.cells).with_context(text)
    };
    rows.iter().map(read).collect()
}

/// Parses a line of values as a row.
fn position(columns: &[String], cells: &[String]) -> Result<PositionRow> {
    if cells.len() != columns.len() {
        bail!("{} values for {} columns", cells.len(), columns.len());
    }
    let texts = [
        "incarnation",
        "tenant",
        "session",
        "kind",
        "outcome",
        "chain",
    ];
    let fields = columns.iter().zip(cells).map(|(name, cell)| {
        let value = match cell.as_str() {
            "" => Value::Null,
            text if texts.contains(&name.as_str()) => Value::from(text),
            other => serde_json::from_str(other).unwrap_or_else(|_| Value::from(other)),
        };
        (name.clone(), value)
    });
    let fields: Map<String, Value> = fields.collect();
    serde_json::from_value(Value::Object(fields)).context("not a row of an order")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<PositionRow> {
        let row = PositionRow {
            gpu: 1,
            incarnation: "00000000000000e1".into(),
            position: 3,
            tenant: "chat".into(),
            session: "0000000001000002".into(),
            kind: "run".into(),
            first: 7,
            last: 9,
            kernels: Some(2),
            outcome: Some("ran".into()),
            measured_ns: Some(1_234),
            chain: Some("00e1".repeat(16)),
            ..PositionRow::default()
        };
        let mut other = row.clone();
        (other.position, other.kernels, other.outcome) = (4, None, None);
        (other.measured_ns, other.adopted) = (None, true);
        vec![row, other]
    }

    #[test]
    fn rows_come_back_from_either_kind_of_file() {
        for format in [Format::Csv, Format::Jsonl] {
            let mut bytes = Vec::new();
            write_listing(&rows(), format, &mut bytes).unwrap();
            assert_eq!(read_listing(&bytes).unwrap(), rows(), "{format:?}");
        }
        // Every field of a row has a column.
        let row = serde_json::to_value(PositionRow::default()).unwrap();
        assert_eq!(row.as_object().unwrap().len(), NAMES.len());
    }

    #[test]
    fn what_is_no_listing_is_refused_with_its_line() {
        let mut bytes = Vec::new();
        write_listing(&rows(), Format::Csv, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let short = text.replace(",true,", ",");
        let wrong = text.replace("chat,", ",");
        for (text, says) in [
            (short.as_str(), "line 3"),
            (&wrong, "line 2"),
            ("{\"gpu\":1}", "line 1"),
            ("what,ever\n", "neither"),
        ] {
            let error = read_listing(text.as_bytes()).unwrap_err();
            assert!(format!("{error:#}").contains(says), "{error:#}");
        }
    }
}
