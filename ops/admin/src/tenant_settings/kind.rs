//! Types of values of a tenant's settings: parsing, accepted range and notation.

use bus_schemas::{Groups, Tenant, limits};
use serde_json::Value;

use crate::settings::parse_bytes;
use crate::target::parse_target;

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A number: minimum and maximum.
    Number(u64, u64),
    /// Percent, 0 to 100.
    Percent,
    /// Bytes.
    Bytes,
    /// Nanoseconds; an option has whole milliseconds.
    Millis,
    /// Nanoseconds; an option has a time with its unit, or `none`.
    Target,
    /// Names of groups.
    Groups,
    /// On or off.
    Switch,
    /// On or off, by commands of its own.
    State,
}

impl SettingKind {
    /// Parses the text of an option, for groups one name; `None` if it is not what is wanted.
    pub(super) fn read(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Number(..) | Self::Percent => text.parse::<u64>().ok()?.into(),
            Self::Bytes => parse_bytes(text)?.into(),
            Self::Millis => text.parse::<u64>().ok()?.saturating_mul(MS).into(),
            Self::Target => parse_target(text).ok()?.into(),
            Self::Groups => vec![text].into(),
            Self::Switch | Self::State => match text {
                "on" => true.into(),
                "off" => false.into(),
                _ => return None,
            },
        };
        self.accepts(&value).then_some(value)
    }

    /// True if a value is of this type and in range.
    pub(super) fn accepts(self, value: &Value) -> bool {
        let (least, most) = match self {
            Self::Number(least, most) => (least, most),
            Self::Percent => (0, 100),
            Self::Bytes | Self::Millis | Self::Target => (0, u64::MAX),
            Self::Groups => return groups(value).is_some(),
            Self::Switch | Self::State => return value.is_boolean(),
        };
        value
            .as_u64()
            .is_some_and(|value| (least..=most).contains(&value))
    }

    /// A description of the accepted values of the interface, for errors.
    pub(super) fn wanted_value(self) -> String {
        match self {
            Self::Number(..) | Self::Percent => self.wanted(),
            Self::Bytes => "a number of bytes".into(),
            Self::Millis | Self::Target => "a number of nanoseconds".into(),
            Self::Groups => format!("a list of at most {} names of groups", limits::GROUPS),
            Self::Switch | Self::State => "true or false".into(),
        }
    }

    /// A description of the accepted texts of an option, for errors.
    pub(super) fn wanted(self) -> String {
        match self {
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Percent => "a percentage, 0 to 100".into(),
            Self::Bytes => "a size such as 4GiB".into(),
            Self::Millis => "a number of milliseconds".into(),
            Self::Target => {
                "a time such as 20ms, 1.5s or 800us, at most an hour; `none` takes it away".into()
            }
            Self::Groups => "the name of a group".into(),
            Self::Switch | Self::State => "on or off".into(),
        }
    }

    /// The notation of an option, behind its description.
    pub(super) fn notation(self) -> String {
        match self {
            Self::Number(0, most) if most == u64::from(u32::MAX) => String::new(),
            Self::Number(least, most) => format!(", {least} to {most}"),
            Self::Percent => ", 0 to 100".into(),
            Self::Bytes => ", such as 4GiB".into(),
            Self::Millis => ", in milliseconds".into(),
            Self::Target => ", such as 20ms (units us, ms, s); `none` removes it. Lower priorities make room for \
                             it (docs/howto/slo.md)"
                .into(),
            Self::Groups => "; may be repeated to allow several groups".into(),
            Self::Switch | Self::State => ": on or off".into(),
        }
    }

    /// The placeholder of an option's value.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Number(..) => "NUMBER",
            Self::Percent => "PERCENT",
            Self::Bytes => "SIZE",
            Self::Millis => "MS",
            Self::Target => "TARGET",
            Self::Groups => "NAME",
            Self::Switch | Self::State => "on|off",
        }
    }
}

/// The groups of a list of names; `None` if it is no such list, or has too many.
pub(super) fn groups(value: &Value) -> Option<Groups> {
    let names = value.as_array()?.iter();
    let names = names.map(|name| name.as_str()?.parse::<Tenant>().ok());
    Groups::new(names.collect::<Option<Vec<_>>>()?)
}
