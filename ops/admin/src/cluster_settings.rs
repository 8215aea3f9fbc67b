//! The cluster's settings, which the leader orders by. Each has a name, a range and a description.
//! An entry of the state bucket holds those that were set.

mod chosen;
mod kind;

use anyhow::{Result, anyhow, bail};
use bus_schemas::{ClusterSettings, Status, limits};
use serde_json::Value;

pub use chosen::Chosen;
pub use kind::{show_bytes, show_time};

use crate::administrator::Administrator;
use crate::errors::UsageError;
use crate::nearest::meant;
use kind::{DAY, Kind, SECOND, US};

/// A setting of the cluster.
#[derive(Debug)]
pub struct ClusterSetting {
    /// Its name on the command line.
    pub key: &'static str,
    /// Its field in the entry.
    pub field: &'static str,
    /// Its description.
    pub help: &'static str,
    kind: Kind,
}

macro_rules! settings {
    ($($key:literal = $field:expr, $kind:expr, $help:literal;)*) => {
        /// All settings of the cluster.
        pub const CLUSTER_SETTINGS: &[ClusterSetting] = &[$(ClusterSetting {
            key: $key,
            field: $field,
            kind: $kind,
            help: $help,
        }),*];
    };
}

settings! {
    "window" = "window_ns", Kind::Time(10 * US, 10 * SECOND),
        "estimated work granted to a GPU and not done, of a priority and those above: what an arrival can wait behind";
    "quantum" = "quantum_ns", Kind::Time(US, 10 * SECOND),
        "estimated work of one slice: the unit in which tenants take turns";
    "unknown" = "unknown_ns", Kind::Time(US, 10 * SECOND),
        "what a kernel counts as that no profile knows yet";
    "learn" = "learn", Kind::Switch,
        "whether what is measured makes new profile versions; off, the order depends on nothing measured";
    "settle" = "settle", Kind::Switch,
        "whether work that took longer than estimated is charged the rest; needs learn";
    "standing" = "standing", Kind::Switch,
        "whether the foremost session of a GPU runs its ops as they arrive; off, each waits for the leader";
    "slo-window" = "slo_window_ns", Kind::Time(0, 10 * SECOND),
        "the window of priorities below that of a tenant with a target while that tenant is active; 0ns is the window that all have";
    "slo-wait" = "slo_wait_ticks", Kind::Ticks(1_000),
        "how long a slice too long for an active tenant's target is set aside at most";
    "floors" = "floors", Kind::Floors,
        "percent of a GPU's work that priorities 0 to 4 are left although a higher one has work";
    "record.max_bytes" = "record_max_bytes", Kind::Bytes(4 << 20, 1 << 50),
        "bytes that the record may hold; older epochs are cut off behind an anchor";
    "record.max_age" = "record_max_age_s", Kind::Age(8, 3_650 * DAY),
        "how long the record is kept at most";
    // The workers' answers to a seal must fit, or no term gets past its beginning.
    "record.buffer" = "record_buffer", Kind::Bytes(16 << 20, 64 << 30),
        "bytes of inputs that a leader keeps while they cannot be recorded; above it a gap is recorded";
    "usage.max_age" = "usage_max_age_s", Kind::Age(2 * DAY, 36_500 * DAY),
        "how long usage is kept in detail; what is older is kept by days";
    "broker.replicas" = REPLICAS, Kind::Copies,
        "copies of all that is kept, each on a server of its own; auto is what the broker allows";
    "tenant.sessions" = "tenant_sessions", Kind::Count(1, 1 << 24),
        "sessions at a time of a tenant for which `tenant set --sessions` says nothing else";
    "tenant.addresses" = "tenant_addresses",
        Kind::Bytes(limits::WINDOW_MIN_BYTES, limits::ADDRESS_LAST - limits::ADDRESS_FIRST),
        "device addresses on one device of the sessions of a tenant for which `tenant set --addresses` says nothing else; a session has the power of two from 2GiB up that is twice its quota";
    "tenant.modules" = "tenant_modules", Kind::Bytes(16 << 20, 1 << 40),
        "what the module images take on one worker that the sessions of a tenant have for which `tenant set --modules` says nothing else";
    "tenant.staged" = "tenant_staged", Kind::Bytes(16 << 20, 1 << 40),
        "bytes of large copies and images sent to one worker and not used yet, of the sessions of a tenant for which `tenant set --staged` says nothing else";
    "tenant.create_only" = "tenant_create_only", Kind::Switch,
        "whether `tenant create` alone makes tenants: `run` and `submit` then refuse one that there is not";
}

/// The field that needs enough servers.
const REPLICAS: &str = "broker_replicas";

impl ClusterSetting {
    /// The setting of this name.
    ///
    /// # Errors
    /// [`UsageError`] if there is none.
    pub fn named(key: &str) -> Result<&'static Self> {
        let found = CLUSTER_SETTINGS.iter().find(|setting| setting.key == key);
        found.ok_or_else(|| {
            let keys: Vec<_> = CLUSTER_SETTINGS.iter().map(|known| known.key).collect();
            let keys = keys.join(", ");
            let meant = meant(key, CLUSTER_SETTINGS.iter().map(|known| known.key));
            let why = format!("the cluster has no setting {key:?}{meant}; it has {keys}");
            anyhow!(UsageError(why))
        })
    }

    /// Parses a value in the notation for people.
    ///
    /// # Errors
    /// [`UsageError`] with the accepted range, if the value is invalid or out of range.
    pub fn parse(&self, text: &str) -> Result<Value> {
        self.kind.read(text).ok_or_else(|| {
            let (key, wanted) = (self.key, self.kind.wanted());
            anyhow!(UsageError(format!("{key}={text} is not {wanted}")))
        })
    }

    /// Keywords that it accepts, besides measures and counts.
    #[must_use]
    pub fn words(&self) -> &'static [&'static str] {
        self.kind.words()
    }

    /// A value in the notation for people.
    #[must_use]
    pub fn show(&self, value: &Value) -> String {
        self.kind.show(value)
    }
}

/// Checks the settings against one another.
fn check(settings: &ClusterSettings) -> Result<()> {
    let (quantum, window) = (settings.quantum_ns, settings.window_ns);
    if quantum > window {
        let (quantum, window) = (show_time(quantum), show_time(window));
        bail!(UsageError(format!(
            "a quantum of {quantum} does not fit in a window of {window}: set a larger window or a \
             smaller quantum, both in one command if both are to change"
        )));
    }
    Ok(())
}

/// Waits until the leader orders by the settings; without a leader, the next one reads them.
///
/// # Errors
/// [`crate::errors::Unreachable`] if the leader does not.
pub async fn applied(administrator: &Administrator) -> Result<()> {
    let unled = "no leader answers; the next one will order by these settings";
    let late = "the leader does not order by the new settings";
    loop {
        let wanted = in_force(administrator).await?;
        let done = |status: &Status| match &status.settings {
            Some(orders_by) => *orders_by == wanted,
            // A leader of an earlier version does not report the settings that it orders by.
            None => true,
        };
        match administrator.obeyed(unled, late, done).await {
            // They have been changed again in the meantime.
            Err(_) if in_force(administrator).await? != wanted => {}
            obeyed => return obeyed,
        }
    }
}

/// The settings as a leader applies them: with a pinned profile or without learning, nothing is
/// settled.
///
/// # Errors
/// As [`Administrator::chosen`].
pub async fn in_force(administrator: &Administrator) -> Result<ClusterSettings> {
    let mut settings = administrator.chosen().await?.settings()?;
    settings.learn &= administrator.pinned().await?.is_none();
    settings.settle &= settings.learn;
    Ok(settings)
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
        // A field that is missing from the entry has its default.
        let create_only = ClusterSetting::named("tenant.create_only").unwrap();
        assert_eq!(create_only.show(&defaults[create_only.field]), "off");
        check(&ClusterSettings::default()).unwrap();
    }

    #[test]
    fn what_is_refused_says_what_is_not() {
        for (key, text, says) in [
            ("window", "2", "such as"),
            ("window", "1us", "10us"),
            ("quantum", "20s", "10s"),
            ("learn", "maybe", "on or off"),
            ("tenant.create_only", "1", "on or off"),
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
            assert!(error.is::<UsageError>(), "{key}={text}");
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
}
