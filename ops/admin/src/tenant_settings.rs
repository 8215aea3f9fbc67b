//! A tenant's settings, each in one row. The options of `tenant set`, the list, the interface's models and the
//! page's form are made from the rows.

mod kind;
mod value;

use anyhow::{Result, anyhow};
use bus_schemas::{TenantLimits, TenantSettings};
use serde_json::Value;

use crate::errors::UsageError;
use crate::table::size;
use crate::target::duration;
pub use kind::SettingKind;
use value::Field;

/// A setting of a tenant.
#[derive(Debug)]
pub struct TenantSetting {
    /// Its option of `tenant set`, and its column in a list.
    pub option: &'static str,
    /// Its field in the interface.
    pub field: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Meaning of 0 or of an empty list; empty if the value has no such meaning.
    pub none: &'static str,
    /// Its type and range.
    pub kind: SettingKind,
    get: fn(&TenantSettings) -> Value,
    set: fn(&mut TenantSettings, &Value) -> Option<()>,
    limit: Option<fn(&TenantLimits) -> u64>,
}

/// The refusal of an option's text.
#[derive(Debug, thiserror::Error)]
#[error("not {0}")]
pub struct NotAccepted(String);

macro_rules! settings {
    ($($field:ident, $option:literal, $title:literal, $kind:expr, $help:literal, $none:expr $(, $limit:ident)?;)*) => {
        /// All settings of a tenant.
        pub const TENANT_SETTINGS: &[TenantSetting] = &[$(TenantSetting {
            option: $option,
            field: stringify!($field),
            title: $title,
            help: $help,
            none: $none,
            kind: $kind,
            get: |settings| settings.$field.value(),
            set: |settings, value| {
                settings.$field = Field::of(value)?;
                Some(())
            },
            limit: settings!(@limit $($limit)?),
        }),*];

        #[cfg(test)]
        fn destructured(settings: TenantSettings) -> usize {
            // A field without a row does not compile.
            let TenantSettings { $($field: _),* } = settings;
            TENANT_SETTINGS.len()
        }
    };
    (@limit) => { None };
    (@limit $limit:ident) => { Some(|limits| limits.$limit) };
}

/// The meaning of 0 for a limit that the cluster sets for all tenants.
const CLUSTERS: &str = "the cluster's limit";

settings! {
    priority, "priority", "Priority", SettingKind::Number(0, 4),
        "Priority (0 is the highest)", "";
    weight, "weight", "Weight", SettingKind::Number(1, 1000),
        "Share within the priority", "";
    quota, "quota", "Memory", SettingKind::Bytes,
        "Device memory on one device", "the device's capacity";
    sessions, "sessions", "Sessions", SettingKind::Number(0, u32::MAX as u64),
        "Maximum number of open sessions", CLUSTERS, sessions;
    addresses, "addresses", "Addresses", SettingKind::Bytes,
        "Device address space of its sessions on one device", CLUSTERS, addresses;
    modules, "modules", "Modules", SettingKind::Bytes,
        "Maximum size of its sessions' module images on one worker", CLUSTERS, modules;
    staged, "staged", "Staged", SettingKind::Bytes,
        "Maximum size of its sessions' staged data on one worker", CLUSTERS, staged;
    outstanding_ns, "outstanding", "Outstanding work", SettingKind::Millis,
        "Maximum charged work that is granted and not done", "no bound";
    cap, "cap", "Cap", SettingKind::Percent,
        "Maximum percentage of each device's time", "no cap";
    slo_ns, "slo", "Target", SettingKind::Target,
        "Target for 99 of 100 requests", "no target";
    swap, "swap", "Swapping", SettingKind::Switch,
        "Swapping of its sessions' memory", "";
    groups, "group", "Groups", SettingKind::Groups,
        "Groups of workers for its sessions", "every group that is not exclusive";
    suspended, "", "Suspended", SettingKind::State,
        "Suspension: no new sessions, and no grants to open ones", "";
}

impl TenantSetting {
    /// Returns its value: bytes, nanoseconds, a number, a switch or a list of names.
    #[must_use]
    pub fn get(&self, settings: &TenantSettings) -> Value {
        (self.get)(settings)
    }

    /// Sets it to such a value.
    ///
    /// # Errors
    /// [`UsageError`] with the accepted values, if the value is of another type or out of range.
    pub fn set(&self, settings: &mut TenantSettings, value: &Value) -> Result<()> {
        let accepted = self
            .kind
            .accepts(value)
            .then(|| (self.set)(settings, value));
        accepted.flatten().ok_or_else(|| {
            let (field, wanted) = (self.field, self.kind.wanted_value());
            anyhow!(UsageError(format!("{field} {value} is not {wanted}")))
        })
    }

    /// Parses the text of an option, for groups one name, as a list of one.
    ///
    /// # Errors
    /// [`NotAccepted`] with the accepted values.
    pub fn parse(&self, text: &str) -> Result<Value, NotAccepted> {
        let value = self.kind.read(text);
        value.ok_or_else(|| NotAccepted(self.kind.wanted()))
    }

    /// Shows its value in a list: the limit in force, `none` where there is none.
    #[must_use]
    pub fn show(&self, settings: &TenantSettings, limits: &TenantLimits) -> String {
        let value = self.get(settings);
        let number = match self.limit {
            Some(limit) => limit(limits),
            None => value.as_u64().unwrap_or(0),
        };
        match self.kind {
            SettingKind::Switch | SettingKind::State if value == true => "on".into(),
            SettingKind::Switch | SettingKind::State => "off".into(),
            SettingKind::Groups if settings.groups.is_empty() => "any".into(),
            SettingKind::Groups => settings.groups.names().collect::<Vec<_>>().join(" "),
            SettingKind::Number(..) => number.to_string(),
            _ if number == 0 => "none".into(),
            SettingKind::Bytes => size(number),
            SettingKind::Millis => format!("{} ms", number / kind::MS),
            SettingKind::Percent => format!("{number} %"),
            SettingKind::Target => duration(number),
        }
    }

    /// Describes the option: its accepted values, and the meaning of 0.
    #[must_use]
    pub fn option_help(&self) -> String {
        let usual = self.get(&TenantSettings::default());
        let cluster = format!("the cluster's `tenant.{}`", self.option);
        let none = match self.limit {
            Some(_) => &cluster,
            None => self.none,
        };
        let behind = match self.kind {
            SettingKind::Groups | SettingKind::Target | SettingKind::State => String::new(),
            SettingKind::Switch => "; a new tenant has on".into(),
            _ if none.is_empty() => format!("; a new tenant has {usual}"),
            _ => format!("; 0 is {none}"),
        };
        format!("{}{}{behind}", self.help, self.kind.notation())
    }

    /// Describes the field of the interface: its unit, and the meaning of 0.
    #[must_use]
    pub fn field_help(&self) -> String {
        let unit = match self.kind {
            SettingKind::Bytes => ", bytes",
            SettingKind::Millis | SettingKind::Target => ", nanoseconds",
            _ => "",
        };
        let none = match (self.none, self.kind) {
            (_, SettingKind::Switch | SettingKind::State) => "; true is on".into(),
            ("", _) => String::new(),
            (none, SettingKind::Groups) => format!("; empty is {none}"),
            (none, _) => format!("; 0 is {none}"),
        };
        format!("{}{unit}{none}.", self.help)
    }
}

/// Returns the setting of a field of the interface.
#[must_use]
pub fn tenant_setting(field: &str) -> Option<&'static TenantSetting> {
    TENANT_SETTINGS.iter().find(|it| it.field == field)
}

/// Refuses settings out of range.
///
/// # Errors
/// [`UsageError`] with the accepted values of the first.
pub fn check(settings: &TenantSettings) -> Result<()> {
    let mut same = settings.clone();
    let mut all = TENANT_SETTINGS.iter();
    all.try_for_each(|it| it.set(&mut same, &it.get(settings)))
}

#[cfg(test)]
mod tests;
