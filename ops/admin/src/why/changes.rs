//! Changes that administrators made in the explained time.

use bus_schemas::{ClusterSettings, TenantSettings};
use comfy_table::Table;
use scheduler_leader_core::replay::{Change, ReplayedChange};
use serde::Serialize;
use serde_json::Value;

use crate::calendar::precise;
use crate::cluster_settings::CLUSTER_SETTINGS;
use crate::table::headed;
use crate::tenant_settings::TENANT_SETTINGS;

/// A setting that an administrator changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeRow {
    /// Time at which a leader heard of it, nanoseconds since 1970.
    pub at_ns: u64,
    /// The tenant; `None` for a setting of the cluster.
    pub tenant: Option<String>,
    /// The setting, as the command names it; `tenant` for a new or removed one.
    pub setting: String,
    /// The value before.
    pub before: String,
    /// The value since.
    pub after: String,
}

/// The settings that changes changed, one row for each.
#[must_use]
pub fn change_rows(changes: &[ReplayedChange]) -> Vec<ChangeRow> {
    let rows = changes.iter().flat_map(|told| {
        let row = |tenant: Option<&str>, (setting, before, after): Setting| ChangeRow {
            at_ns: told.at,
            tenant: tenant.map(str::to_owned),
            setting,
            before,
            after,
        };
        match &told.change {
            Change::Tenant {
                tenant,
                before,
                after,
                cluster,
            } => {
                let settings = of_tenant(before.as_ref(), after.as_ref(), cluster).into_iter();
                let rows = settings.map(|it| row(Some(tenant.as_str()), it));
                rows.collect::<Vec<_>>()
            }
            Change::Settings { before, after } => {
                let [before, after] =
                    [before, after].map(|it| serde_json::to_value(it).unwrap_or_default());
                let settings = of_cluster(&before, &after).into_iter();
                settings.map(|it| row(None, it)).collect()
            }
            Change::Hold(held) => vec![row(None, differing("hold", *held))],
        }
    });
    rows.collect()
}

/// Name, value before and value since.
type Setting = (String, String, String);

fn of_tenant(
    before: Option<&TenantSettings>,
    after: Option<&TenantSettings>,
    cluster: &ClusterSettings,
) -> Vec<Setting> {
    let (Some(before), Some(after)) = (before, after) else {
        let exists = |it: bool| if it { "there" } else { "none" }.to_owned();
        return vec![(
            "tenant".into(),
            exists(before.is_some()),
            exists(after.is_some()),
        )];
    };
    let differ = TENANT_SETTINGS
        .iter()
        .filter(|it| it.get(before) != it.get(after));
    let setting = differ.map(|it| {
        let name = if it.option.is_empty() {
            it.field
        } else {
            it.option
        };
        let shown = [before, after].map(|of| it.show(of, &of.limits(cluster)));
        // Of a setting with a limit of the cluster, the limit in force is shown.
        let [before, after] = match shown[0] == shown[1] {
            true => [before, after].map(|settings| it.get(settings).to_string()),
            false => shown,
        };
        (name.to_owned(), before, after)
    });
    setting.collect()
}

fn of_cluster(before: &Value, after: &Value) -> Vec<Setting> {
    let value = |of: &Value, field: &str| of.get(field).cloned().unwrap_or(Value::Null);
    let setting = CLUSTER_SETTINGS.iter().filter_map(|it| {
        let [before, after] = [before, after].map(|of| value(of, it.field));
        (before != after).then(|| (it.key.to_owned(), it.show(&before), it.show(&after)))
    });
    setting.collect()
}

fn differing(name: &str, is_on: bool) -> Setting {
    let text = |on: bool| if on { "on" } else { "off" }.to_owned();
    (name.to_owned(), text(!is_on), text(is_on))
}

/// Changes as a table.
#[must_use]
pub fn change_table(rows: &[ChangeRow]) -> Table {
    let mut table = headed("changed at (UTC) | tenant | setting | before | since");
    for row in rows {
        table.add_row([
            precise(row.at_ns / 1_000_000),
            row.tenant.clone().unwrap_or_else(|| "-".into()),
            row.setting.clone(),
            row.before.clone(),
            row.after.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_tenant_has_a_row_for_each_setting() {
        let before = TenantSettings::default();
        let after = TenantSettings {
            priority: 0,
            slo_ns: 25_000_000,
            ..before.clone()
        };
        let change = |before: Option<&TenantSettings>, after: Option<&TenantSettings>| {
            let change = Change::Tenant {
                tenant: "train".parse().expect("a name"),
                before: before.cloned(),
                after: after.cloned(),
                cluster: Box::default(),
            };
            let rows = change_rows(&[ReplayedChange { at: 7, change }]).into_iter();
            rows.map(|it| (it.setting, it.before, it.after))
                .collect::<Vec<_>>()
        };
        let row = |setting: &str, before: &str, after: &str| {
            (setting.to_owned(), before.to_owned(), after.to_owned())
        };
        assert_eq!(
            change(Some(&before), Some(&after)),
            [row("priority", "2", "0"), row("slo", "none", "25 ms")]
        );
        assert_eq!(change(None, Some(&after)), [row("tenant", "none", "there")]);
        assert_eq!(change(Some(&after), None), [row("tenant", "there", "none")]);
    }

    #[test]
    fn a_hold_and_a_changed_setting_of_the_cluster_have_rows() {
        let usual = ClusterSettings::default;
        let waiting = ClusterSettings {
            standing: !usual().standing,
            ..usual()
        };
        let create_only = ClusterSettings {
            tenant_create_only: true,
            ..usual()
        };
        let settings = |before: &ClusterSettings, after: &ClusterSettings| Change::Settings {
            before: Box::new(before.clone()),
            after: Box::new(after.clone()),
        };
        let changes = [
            settings(&usual(), &waiting),
            settings(&usual(), &create_only),
            settings(&create_only, &usual()),
            Change::Hold(true),
        ];
        let changes = changes.map(|change| ReplayedChange { at: 7, change });
        let rows = change_rows(&changes);
        let rows: Vec<_> = rows
            .iter()
            .map(|it| (&*it.setting, &*it.before, &*it.after))
            .collect();
        assert_eq!(
            rows,
            [
                ("standing", "on", "off"),
                ("tenant.create_only", "off", "on"),
                ("tenant.create_only", "on", "off"),
                ("hold", "off", "on"),
            ]
        );
    }
}
