//! Targets in the notation for people.

use anyhow::{Result, bail};

use crate::errors::UsageError;

/// Units, the longer name first if it ends in another.
const UNITS: [(&str, f64); 3] = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Maximum target; anything longer than an hour is a mistake.
const LONGEST: f64 = 3_600e9;

/// Parses `20ms`, `1.5s`, `800us`; `none` is 0, no target.
///
/// # Errors
/// [`UsageError`] with the expected notation.
pub fn parse_target(text: &str) -> Result<u64> {
    if text == "none" {
        return Ok(0);
    }
    let parsed = UNITS.iter().find_map(|(unit, scale)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * scale)
    });
    match parsed {
        Some(ns) if (1.0..=LONGEST).contains(&ns) => Ok(ns.round() as u64),
        _ => bail!(UsageError(format!(
            "target {text:?} is no time such as 20ms, 1.5s or 800us, at most an hour; `none` takes \
             it away"
        ))),
    }
}

/// Nanoseconds in a suitable unit: `20 ms`, `1.25 s`, `800 us`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let fits = |(_, scale): &&(&str, f64)| ns as f64 >= *scale;
    let (unit, scale) = UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]);
    let figure = format!("{:.2}", ns as f64 / scale);
    let figure = figure.trim_end_matches('0').trim_end_matches('.');
    format!("{figure} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for (text, ns) in [
            ("20ms", 20_000_000),
            ("1.5s", 1_500_000_000),
            ("800us", 800_000),
            ("0.25 ms", 250_000),
            ("none", 0),
        ] {
            assert_eq!(parse_target(text).unwrap(), ns, "{text}");
        }
        for text in ["", "20", "ms", "-3ms", "0ms", "2h", "1e30s", "NaNms"] {
            let error = parse_target(text).unwrap_err();
            assert!(
                error.downcast_ref::<UsageError>().is_some(),
                "{text}: {error}"
            );
        }
        let shown = [20_000_000, 1_250_000_000, 800_000, 1_500, 12].map(duration);
        assert_eq!(shown, ["20 ms", "1.25 s", "800 us", "1.5 us", "0.01 us"]);
    }
}
