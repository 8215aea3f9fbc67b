//! How the cluster orders, as administrators set it: a name, a range and a sentence for each
//! setting, and the entry of the state bucket that holds those that were set.

mod chosen;

use anyhow::{Result, anyhow, bail};
use bus_schemas::{ClusterSettings, limits};
use scheduler_leader_core::TICK_NS;
use serde_json::Value;

pub use chosen::Chosen;

use crate::exit::Usage;
use crate::settings::parse_bytes;

/// A setting of the cluster.
#[derive(Debug)]
pub struct ClusterSetting {
    /// Its name on the command line.
    pub key: &'static str,
    /// Its field in the entry.
    pub field: &'static str,
    /// What it does.
    pub help: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Nanoseconds, at least and at most.
    Time(u64, u64),
    /// Ticks, at most; a time of whole ticks to people.
    Ticks(u64),
    Switch,
    /// Percent by priority.
    Floors,
    /// Bytes, at least and at most.
    Bytes(u64, u64),
    /// Seconds, at least and at most.
    Age(u64, u64),
    /// Copies; 0 is `auto`.
    Copies,
    /// How many, at least and at most.
    Count(u64, u64),
}

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// Seconds.
const DAY: u64 = 86_400;

const fn time(
    key: &'static str,
    field: &'static str,
    (least, most): (u64, u64),
    help: &'static str,
) -> ClusterSetting {
    let kind = Kind::Time(least, most);
    ClusterSetting {
        key,
        field,
        help,
        kind,
    }
}

const fn switch(key: &'static str, help: &'static str) -> ClusterSetting {
    let kind = Kind::Switch;
    ClusterSetting {
        key,
        field: key,
        help,
        kind,
    }
}

/// Every setting of the cluster there is.
pub const CLUSTER_SETTINGS: &[ClusterSetting] = &[
    time(
        "window",
        "window_ns",
        (10 * US, 10 * SECOND),
        "estimated work granted to a GPU and not done, of a priority and those above: what an arrival can wait behind",
    ),
    time(
        "quantum",
        "quantum_ns",
        (US, 10 * SECOND),
        "estimated work of one slice: the unit in which tenants take turns",
    ),
    time(
        "unknown",
        "unknown_ns",
        (US, 10 * SECOND),
        "what a kernel counts as that no profile knows yet",
    ),
    switch(
        "learn",
        "whether what is measured makes new profile versions; off, the order depends on nothing measured",
    ),
    switch(
        "settle",
        "whether work that took longer than estimated is charged the rest; needs learn",
    ),
    switch(
        "standing",
        "whether the foremost session of a GPU runs its ops as they arrive; off, each waits for the leader",
    ),
    time(
        "slo-window",
        "slo_window_ns",
        (0, 10 * SECOND),
        "the window of priorities below that of a tenant with a target while that tenant is active; 0ns is the window that all have",
    ),
    ClusterSetting {
        key: "slo-wait",
        field: "slo_wait_ticks",
        help: "how long a slice too long for an active tenant's target is set aside at most",
        kind: Kind::Ticks(1_000),
    },
    ClusterSetting {
        key: "floors",
        field: "floors",
        help: "percent of a GPU's work that priorities 0 to 4 are left although a higher one has work",
        kind: Kind::Floors,
    },
    ClusterSetting {
        key: "record.max_bytes",
        field: "record_max_bytes",
        help: "bytes that the record may hold; older epochs are cut off behind an anchor",
        kind: Kind::Bytes(4 << 20, 1 << 50),
    },
    ClusterSetting {
        key: "record.max_age",
        field: "record_max_age_s",
        help: "how long the record is kept at most",
        kind: Kind::Age(8, 3_650 * DAY),
    },
    ClusterSetting {
        key: "record.buffer",
        field: "record_buffer",
        help: "bytes of inputs that a leader keeps while they cannot be recorded; above it a gap is recorded",
        // What the workers say when they are sealed must fit, or no reign gets beyond its beginning.
        kind: Kind::Bytes(16 << 20, 64 << 30),
    },
    ClusterSetting {
        key: "usage.max_age",
        field: "usage_max_age_s",
        help: "how long usage is kept in detail; what is older is kept by days",
        kind: Kind::Age(2 * DAY, 36_500 * DAY),
    },
    ClusterSetting {
        key: "broker.replicas",
        field: REPLICAS,
        help: "copies of all that is kept, each on a server of its own; auto is what the broker allows",
        kind: Kind::Copies,
    },
    ClusterSetting {
        key: "tenant.sessions",
        field: "tenant_sessions",
        help: "sessions at a time of a tenant for which `tenant set --sessions` says nothing else",
        kind: Kind::Count(1, 1 << 24),
    },
    ClusterSetting {
        key: "tenant.addresses",
        field: "tenant_addresses",
        help: "device addresses on one device of the sessions of a tenant for which `tenant set --addresses` says nothing else; a session has the power of two from 2GiB up that is twice its quota",
        kind: Kind::Bytes(
            limits::WINDOW_MIN_BYTES,
            limits::ADDRESS_LAST - limits::ADDRESS_FIRST,
        ),
    },
    ClusterSetting {
        key: "tenant.modules",
        field: "tenant_modules",
        help: "what the module images take on one worker that the sessions of a tenant have for which `tenant set --modules` says nothing else",
        kind: Kind::Bytes(16 << 20, 1 << 40),
    },
    ClusterSetting {
        key: "tenant.staged",
        field: "tenant_staged",
        help: "bytes of large copies and images sent to one worker and not used yet, of the sessions of a tenant for which `tenant set --staged` says nothing else",
        kind: Kind::Bytes(16 << 20, 1 << 40),
    },
];

/// The field that needs servers.
const REPLICAS: &str = "broker_replicas";
/// Copies of which most can be there without some: an even number bears no more losses.
const COPIES: [u64; 3] = [1, 3, 5];

impl ClusterSetting {
    /// The setting of this name.
    ///
    /// # Errors
    /// [`Usage`] where there is none.
    pub fn named(key: &str) -> Result<&'static Self> {
        let found = CLUSTER_SETTINGS.iter().find(|setting| setting.key == key);
        found.ok_or_else(|| {
            let keys: Vec<_> = CLUSTER_SETTINGS.iter().map(|known| known.key).collect();
            let keys = keys.join(", ");
            let why = format!("the cluster has no setting {key:?}; it has {keys}");
            anyhow!(Usage(why))
        })
    }

    /// Reads a value as people write it.
    ///
    /// # Errors
    /// [`Usage`] where it is none, or out of range: says what is.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let key = self.key;
        let refuse = |wanted: String| anyhow!(Usage(format!("{key}={text} is not {wanted}")));
        match self.kind {
            Kind::Time(least, most) => {
                let range = || {
                    let (least, most) = (show_time(least), show_time(most));
                    refuse(format!(
                        "a time from {least} to {most}, such as 500us or 2ms"
                    ))
                };
                let ns = parse_time(text).ok_or_else(range)?;
                if !(least..=most).contains(&ns) {
                    return Err(range());
                }
                Ok(ns.into())
            }
            Kind::Ticks(most) => {
                let (tick, most) = (show_time(TICK_NS), most * TICK_NS);
                let ns = parse_time(text).filter(|ns| *ns <= most && ns.is_multiple_of(TICK_NS));
                let ns = ns.ok_or_else(|| {
                    let most = show_time(most);
                    refuse(format!(
                        "a time of whole ticks of {tick} up to {most}, such as 200ms"
                    ))
                })?;
                Ok((ns / TICK_NS).into())
            }
            Kind::Switch => match text {
                "on" | "true" | "yes" => Ok(true.into()),
                "off" | "false" | "no" => Ok(false.into()),
                _ => Err(refuse("on or off".into())),
            },
            Kind::Bytes(least, most) => {
                let bytes = parse_bytes(text).filter(|bytes| (least..=most).contains(bytes));
                let range = || {
                    let (least, most) = (show_bytes(least), show_bytes(most));
                    refuse(format!(
                        "a size from {least} to {most}, such as 64MiB or 8GiB"
                    ))
                };
                Ok(bytes.ok_or_else(range)?.into())
            }
            Kind::Age(least, most) => {
                let seconds = parse_age(text).filter(|age| (least..=most).contains(age));
                let range = || {
                    let (least, most) = (show_age(least), show_age(most));
                    refuse(format!("a time from {least} to {most}, such as 12h or 7d"))
                };
                Ok(seconds.ok_or_else(range)?.into())
            }
            Kind::Copies => {
                let copies = text.parse().ok().filter(|copies| COPIES.contains(copies));
                let copies = copies.or_else(|| (text == "auto").then_some(0));
                Ok(copies
                    .ok_or_else(|| refuse("1, 3, 5 or auto".into()))?
                    .into())
            }
            Kind::Count(least, most) => {
                let count = text.parse::<u64>().ok();
                let count = count.filter(|count| (least..=most).contains(count));
                let range = || refuse(format!("a number from {least} to {most}"));
                Ok(count.ok_or_else(range)?.into())
            }
            Kind::Floors => {
                let wanted = "five percentages, of priorities 0 to 4, of 100 together at most, such \
                              as 0,0,0,0,10, or none";
                let refuse = || refuse(wanted.into());
                if text == "none" {
                    return Ok(vec![0; 5].into());
                }
                let parts = text.split(',').map(|part| part.trim().parse::<u8>());
                let parts: Vec<u8> = parts.collect::<Result<_, _>>().map_err(|_| refuse())?;
                let sum: u64 = parts.iter().map(|part| u64::from(*part)).sum();
                if parts.len() != 5 || sum > 100 {
                    return Err(refuse());
                }
                Ok(parts.into())
            }
        }
    }

    /// A value as people write it.
    #[must_use]
    pub fn show(&self, value: &Value) -> String {
        match (&self.kind, value) {
            (Kind::Time(..), Value::Number(ns)) => show_time(ns.as_u64().unwrap_or(0)),
            (Kind::Ticks(_), Value::Number(ticks)) => {
                show_time(ticks.as_u64().unwrap_or(0) * TICK_NS)
            }
            (Kind::Bytes(..), Value::Number(bytes)) => show_bytes(bytes.as_u64().unwrap_or(0)),
            (Kind::Age(..), Value::Number(age)) => show_age(age.as_u64().unwrap_or(0)),
            (Kind::Copies, Value::Number(copies)) if copies.as_u64() == Some(0) => "auto".into(),
            (Kind::Switch, Value::Bool(on)) => if *on { "on" } else { "off" }.to_owned(),
            (Kind::Floors, Value::Array(floors)) => {
                if floors.iter().all(|floor| floor == 0) {
                    return "none".into();
                }
                let floors: Vec<_> = floors.iter().map(ToString::to_string).collect();
                floors.join(",")
            }
            (_, other) => other.to_string(),
        }
    }
}

/// Whole nanoseconds in the largest unit that keeps them whole.
#[must_use]
pub fn show_time(ns: u64) -> String {
    let units = [(SECOND, "s"), (1_000_000, "ms"), (US, "us")];
    let whole = |(size, _): &&(u64, &str)| ns > 0 && ns.is_multiple_of(*size);
    match units.iter().find(whole) {
        Some((size, unit)) => format!("{}{unit}", ns / size),
        None => format!("{ns}ns"),
    }
}

/// Bytes in the largest unit that keeps them whole.
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

/// What the settings mean together.
fn check(settings: &ClusterSettings) -> Result<()> {
    let (quantum, window) = (settings.quantum_ns, settings.window_ns);
    if quantum > window {
        let (quantum, window) = (show_time(quantum), show_time(window));
        bail!(Usage(format!(
            "a quantum of {quantum} does not fit in a window of {window}: set a larger window or a \
             smaller quantum, both in one command if both are to change"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_setting_and_its_default_is_one_that_may_be_set() {
        let defaults = serde_json::to_value(ClusterSettings::default()).unwrap();
        for (field, value) in defaults.as_object().unwrap() {
            let setting = CLUSTER_SETTINGS.iter().find(|it| it.field == field);
            let setting = setting.unwrap_or_else(|| panic!("{field} cannot be set"));
            let text = setting.show(value);
            assert_eq!(setting.parse(&text).unwrap(), *value, "{field}={text}");
        }
        check(&ClusterSettings::default()).unwrap();
    }

    #[test]
    fn what_is_refused_says_what_is_not() {
        for (key, text, says) in [
            ("window", "2", "such as"),
            ("window", "1us", "10us"),
            ("quantum", "20s", "10s"),
            ("learn", "maybe", "on or off"),
            ("slo-wait", "15ms", "10ms"),
            ("floors", "10", "five"),
            ("record.max_bytes", "1MiB", "4MiB"),
            ("record.max_bytes", "9", "4MiB"),
            ("tenant.sessions", "0", "from 1 to"),
            ("tenant.addresses", "1GiB", "2GiB"),
            ("tenant.addresses", "65TiB", "64TiB"),
            ("record.max_age", "1s", "7d"),
            ("record.buffer", "8GB", "16MiB"),
            ("record.buffer", "64KiB", "16MiB"),
            ("usage.max_age", "30", "12h"),
            ("broker.replicas", "2", "1, 3, 5 or auto"),
            ("broker.replicas", "0", "1, 3, 5 or auto"),
            ("floors", "0,0,50,50,50", "100"),
            ("floors", "0,0,0,0,300", "five"),
        ] {
            let error = ClusterSetting::named(key).unwrap().parse(text).unwrap_err();
            assert!(error.is::<Usage>(), "{key}={text}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let error = ClusterSetting::named("windows").unwrap_err().to_string();
        assert!(error.contains("window, quantum"), "{error}");
        let wide = ClusterSettings {
            quantum_ns: 3_000_000,
            ..ClusterSettings::default()
        };
        let error = check(&wide).unwrap_err().to_string();
        assert!(error.contains("3ms") && error.contains("2ms"), "{error}");
    }

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
