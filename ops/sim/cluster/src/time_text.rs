//! Times as text, in milliseconds with nanosecond resolution. For serde,
//! `#[serde(with = "sim_cluster::time_text")]`.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::{MILLI, Nanos};

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no time such as 12.5ms")]
pub struct NoTime(String);

/// Formats a time in milliseconds, with nanosecond resolution.
#[must_use]
pub fn text(time: Nanos) -> String {
    let (whole, part) = (time / MILLI, time % MILLI);
    let digits = format!("{part:06}");
    match digits.trim_end_matches('0') {
        "" => format!("{whole}ms"),
        digits => format!("{whole}.{digits}ms"),
    }
}

/// Parses a time that [`text`] wrote.
///
/// # Errors
/// If the text is no time.
pub fn time(text: &str) -> Result<Nanos, NoTime> {
    let none = || Err(NoTime(text.to_owned()));
    let Some(number) = text.strip_suffix("ms") else {
        return none();
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let (Ok(whole), Ok(parts)) = (whole.parse::<u64>(), part.parse::<u64>()) else {
        return none();
    };
    if part.len() > 6 || whole > u64::MAX / MILLI / 2 {
        return none();
    }
    Ok(whole * MILLI + parts * 10_u64.pow(6 - part.len() as u32))
}

/// Writes a time.
///
/// # Errors
/// The format's.
pub fn serialize<S: Serializer>(time: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(*time))
}

/// Reads a time.
///
/// # Errors
/// The format's, and if the text is no time.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
    time(&String::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_to_the_nanosecond() {
        for at in [0, 1, 999_999, MILLI, 12_345_678, 7_000_100_000] {
            assert_eq!(time(&text(at)), Ok(at));
        }
        assert_eq!(text(12_500_000), "12.5ms");
        let wrong = [
            "",
            "ms",
            "12",
            "1.0000001ms",
            "-1ms",
            "1.5s",
            "99999999999999999ms",
        ];
        for wrong in wrong {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
