//! Types of values of the cluster's settings: parsing, accepted range and display.

use scheduler_leader_core::TICK_NS;
use serde_json::Value;

use crate::settings::parse_bytes;

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Nanoseconds: minimum and maximum.
    Time(u64, u64),
    /// Maximum number of ticks; shown to people as a time of whole ticks.
    Ticks(u64),
    Switch,
    /// Percent by priority.
    Floors,
    /// Bytes: minimum and maximum.
    Bytes(u64, u64),
    /// Seconds: minimum and maximum.
    Age(u64, u64),
    /// Copies; 0 is `auto`.
    Copies,
    /// A count: minimum and maximum.
    Count(u64, u64),
}

pub(super) const US: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000_000;
/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;
/// Allowed numbers of replicas: an even number tolerates no more losses than the odd one below it.
const COPIES: [u64; 3] = [1, 3, 5];

impl Kind {
    /// Parses a text; `None` if the value is not [`Kind::wanted`].
    pub(super) fn read(self, text: &str) -> Option<Value> {
        let within = |value: Option<u64>, least, most| {
            let value = value.filter(|value| (least..=most).contains(value));
            value.map(Value::from)
        };
        match self {
            Self::Time(least, most) => within(parse_time(text), least, most),
            Self::Bytes(least, most) => within(parse_bytes(text), least, most),
            Self::Age(least, most) => within(parse_age(text), least, most),
            Self::Count(least, most) => within(text.parse().ok(), least, most),
            Self::Ticks(most) => {
                let ns = parse_time(text).filter(|ns| ns.is_multiple_of(TICK_NS));
                within(ns.map(|ns| ns / TICK_NS), 0, most)
            }
            Self::Switch => match text {
                "on" | "true" | "yes" => Some(true.into()),
                "off" | "false" | "no" => Some(false.into()),
                _ => None,
            },
            Self::Copies if text == "auto" => Some(0.into()),
            Self::Copies => {
                let copies = text.parse().ok();
                let copies = copies.filter(|copies| COPIES.contains(copies));
                copies.map(Value::from)
            }
            Self::Floors if text == "none" => Some(vec![0; 5].into()),
            Self::Floors => {
                let parts = text.split(',').map(|part| part.trim().parse::<u8>());
                let parts: Vec<u8> = parts.collect::<Result<_, _>>().ok()?;
                let sum: u64 = parts.iter().map(|part| u64::from(*part)).sum();
                (parts.len() == 5 && sum <= 100).then(|| parts.into())
            }
        }
    }

    /// Keywords that a value may be; `default` removes the value.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Switch => &["on", "off", "default"],
            Self::Copies => &["auto", "1", "3", "5", "default"],
            Self::Floors => &["none", "default"],
            Self::Time(..) | Self::Ticks(_) | Self::Bytes(..) | Self::Age(..) | Self::Count(..) => {
                &["default"]
            }
        }
    }

    /// A description of the accepted values, with their range.
    pub(super) fn wanted(self) -> String {
        match self {
            Self::Time(least, most) => {
                let (least, most) = (show_time(least), show_time(most));
                format!("a time from {least} to {most}, such as 500us or 2ms")
            }
            Self::Ticks(most) => {
                let (tick, most) = (show_time(TICK_NS), show_time(most * TICK_NS));
                format!("a time of whole ticks of {tick} up to {most}, such as 200ms")
            }
            Self::Bytes(least, most) => {
                let (least, most) = (show_bytes(least), show_bytes(most));
                format!("a size from {least} to {most}, such as 64MiB or 8GiB")
            }
            Self::Age(least, most) => {
                let (least, most) = (show_age(least), show_age(most));
                format!("a time from {least} to {most}, such as 12h or 7d")
            }
            Self::Count(least, most) => format!("a number from {least} to {most}"),
            Self::Switch => "on or off".into(),
            Self::Copies => "1, 3, 5 or auto".into(),
            Self::Floors => {
                "five percentages, of priorities 0 to 4, of 100 together at most, such as \
                             0,0,0,0,10, or none"
                    .into()
            }
        }
    }

    /// A value in the notation for people.
    pub(super) fn show(self, value: &Value) -> String {
        let number = || value.as_u64().unwrap_or(0);
        match (self, value) {
            (Self::Time(..), Value::Number(_)) => show_time(number()),
            (Self::Ticks(_), Value::Number(_)) => show_time(number() * TICK_NS),
            (Self::Bytes(..), Value::Number(_)) => show_bytes(number()),
            (Self::Age(..), Value::Number(_)) => show_age(number()),
            (Self::Copies, Value::Number(_)) if number() == 0 => "auto".into(),
            // The field may be missing if the switch is off.
            (Self::Switch, value) => match value.as_bool() {
                Some(true) => "on".into(),
                _ => "off".into(),
            },
            (Self::Floors, Value::Array(floors)) if floors.iter().all(|floor| floor == 0) => {
                "none".into()
            }
            (Self::Floors, Value::Array(floors)) => {
                let floors: Vec<_> = floors.iter().map(ToString::to_string).collect();
                floors.join(",")
            }
            (_, other) => other.to_string(),
        }
    }
}

/// Whole nanoseconds, in the largest unit that keeps the number whole.
#[must_use]
pub fn show_time(ns: u64) -> String {
    let units = [(SECOND, "s"), (1_000_000, "ms"), (US, "us")];
    let whole = |(size, _): &&(u64, &str)| ns > 0 && ns.is_multiple_of(*size);
    match units.iter().find(whole) {
        Some((size, unit)) => format!("{}{unit}", ns / size),
        None => format!("{ns}ns"),
    }
}

/// Bytes, in the largest unit that keeps the number whole.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match units.iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

const AGES: [(u64, &str); 4] = [(DAY, "d"), (3_600, "h"), (60, "m"), (1, "s")];

fn show_age(seconds: u64) -> String {
    let whole = |(size, _): &&(u64, &str)| seconds.is_multiple_of(*size);
    let (size, unit) = AGES.iter().find(whole).unwrap_or(&AGES[3]);
    format!("{}{unit}", seconds / size)
}

fn parse_age(text: &str) -> Option<u64> {
    let found = AGES
        .iter()
        .find_map(|(size, unit)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, size) = found?;
    digits.trim().parse::<u64>().ok()?.checked_mul(size)
}

fn parse_time(text: &str) -> Option<u64> {
    let units = [("ns", 1), ("us", US), ("ms", 1_000_000), ("s", SECOND)];
    let (digits, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    digits.trim().parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_written() {
        for text in ["2ms", "500us", "1s", "1500us", "7ns"] {
            assert_eq!(show_time(parse_time(text).unwrap()), text);
        }
        for text in ["7d", "36h", "90m", "61s"] {
            assert_eq!(show_age(parse_age(text).unwrap()), text);
        }
        for text in ["8GiB", "1536MiB", "7KiB", "5B"] {
            assert_eq!(show_bytes(parse_bytes(text).unwrap()), text);
        }
        assert_eq!(parse_time("20"), None);
        assert_eq!(show_time(0), "0ns");
    }
}
