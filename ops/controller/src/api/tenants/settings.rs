//! The interface's models of a tenant's settings, made from their table.

use admin::tenant_settings::{SettingKind, TENANT_SETTINGS, TenantSetting, tenant_setting};
use bus_schemas::TenantSettings;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::openapi::schema::{AdditionalProperties, SchemaType};
use utoipa::openapi::{ArrayBuilder, Object, ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::api::settings::ChangeModel;
use crate::problem::Problem;

/// The settings of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TenantSettingsModel(TenantSettings);

impl From<&TenantSettings> for TenantSettingsModel {
    fn from(settings: &TenantSettings) -> Self {
        Self(settings.clone())
    }
}

impl Serialize for TenantSettingsModel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = TENANT_SETTINGS.iter();
        serializer.collect_map(rows.map(|setting| (setting.field, setting.get(&self.0))))
    }
}

// By hand, as for the changes: the derive sees no table.
impl PartialSchema for TenantSettingsModel {
    fn schema() -> RefOr<Schema> {
        let rows = TENANT_SETTINGS.iter();
        let text = "The settings of a tenant. 0 means no limit, or the cluster's setting.";
        rows.fold(ObjectBuilder::new(), |object, setting| {
            object
                .property(setting.field, schema(setting, false))
                .required(setting.field)
        })
        .description(Some(text))
        .into()
    }
}

impl ToSchema for TenantSettingsModel {}

/// Changes of a tenant; an absent field stays unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct TenantChangeModel(Vec<(&'static TenantSetting, Value)>);

impl TenantChangeModel {
    /// Applies these changes to settings.
    pub(crate) fn over(self, mut settings: TenantSettings) -> Result<TenantSettings, Problem> {
        for (setting, value) in self.0 {
            let set = setting.set(&mut settings, &value);
            set.map_err(|error| Problem::invalid(error.to_string()))?;
        }
        Ok(settings)
    }
}

impl<'de> Deserialize<'de> for TenantChangeModel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut changes = Vec::new();
        for (field, value) in Map::<String, Value>::deserialize(deserializer)? {
            let wanted = "a setting of a tenant";
            let setting = tenant_setting(&field);
            let unknown = || D::Error::invalid_value(Unexpected::Str(&field), &wanted);
            let setting = setting.ok_or_else(unknown)?;
            if !value.is_null() {
                changes.push((setting, value));
            }
        }
        Ok(Self(changes))
    }
}

impl PartialSchema for TenantChangeModel {
    fn schema() -> RefOr<Schema> {
        let rows = TENANT_SETTINGS.iter();
        rows.fold(ObjectBuilder::new(), |object, setting| {
            object.property(setting.field, schema(setting, true))
        })
        .description(Some(
            "Changes of a tenant; an absent field stays unchanged.",
        ))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .into()
    }
}

impl ToSchema for TenantChangeModel {}

/// The schema of a setting's value; of a change, which may be absent or null.
fn schema(setting: &TenantSetting, change: bool) -> Schema {
    let typed = |is: Type| match change {
        true => SchemaType::Array(vec![is, Type::Null]),
        false => SchemaType::Type(is),
    };
    let number = |least: u64, most: u64| {
        ObjectBuilder::new()
            .schema_type(typed(Type::Integer))
            .minimum(Some(least))
            .maximum(Some(most))
    };
    let help = Some(setting.field_help());
    let object = match setting.kind {
        SettingKind::Groups => {
            let names = Object::with_type(Type::String);
            let list = ArrayBuilder::new()
                .items(names)
                .schema_type(typed(Type::Array));
            return list.description(help).into();
        }
        SettingKind::Switch | SettingKind::State => {
            ObjectBuilder::new().schema_type(typed(Type::Boolean))
        }
        SettingKind::Number(least, most) => number(least, most),
        SettingKind::Percent => number(0, 100),
        SettingKind::Bytes | SettingKind::Millis | SettingKind::Target => number(0, u64::MAX),
    };
    object.description(help).into()
}

/// Each setting that differs, by its name in the interface.
pub(super) fn differences(before: &TenantSettings, after: &TenantSettings) -> Vec<ChangeModel> {
    let values = TENANT_SETTINGS
        .iter()
        .map(|setting| (setting, setting.get(before), setting.get(after)));
    let differ = values.filter(|(_, before, after)| before != after);
    let change = differ.map(|(setting, before, after)| ChangeModel {
        key: setting.field.into(),
        before: before.to_string(),
        after: after.to_string(),
    });
    change.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's list of settings; `WARPLOOM_BLESS=1` rewrites it.
    const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page/parts/tenantsettings.js");

    /// The list as the page has it.
    fn list() -> String {
        let mut text = String::from(
            "// A tenant's settings. Made from the code by WARPLOOM_BLESS=1 cargo test -p controller --lib.\n\
             export const TENANT_SETTINGS = [\n",
        );
        for setting in TENANT_SETTINGS {
            let (kind, range) = match setting.kind {
                SettingKind::Number(least, most) => ("number", Some((least, most))),
                SettingKind::Percent => ("percent", Some((0, 100))),
                SettingKind::Bytes => ("bytes", None),
                SettingKind::Millis | SettingKind::Target => ("time", None),
                SettingKind::Groups => ("names", None),
                SettingKind::Switch => ("switch", None),
                SettingKind::State => ("state", None),
            };
            let start = setting.get(&TenantSettings::default());
            let TenantSetting {
                field,
                title,
                help,
                none,
                ..
            } = setting;
            text +=
                &format!("  {{\n    key: {field:?},\n    title: {title:?},\n    kind: {kind:?},\n");
            if let Some((least, most)) = range {
                text += &format!("    least: {least},\n    most: {most},\n");
            }
            text +=
                &format!("    start: {start},\n    help: {help:?},\n    none: {none:?},\n  }},\n");
        }
        text + "];\n"
    }

    #[test]
    fn the_page_has_every_setting() {
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(LIST, list()).unwrap();
        }
        let has = std::fs::read_to_string(LIST).unwrap_or_default();
        assert!(
            has == list(),
            "page/parts/tenantsettings.js differs: WARPLOOM_BLESS=1 cargo test -p controller --lib"
        );
    }

    #[test]
    fn what_is_not_named_stays_and_what_differs_is_told() {
        let before = TenantSettings {
            cap: 40,
            ..TenantSettings::default()
        };
        let change: TenantChangeModel = serde_json::from_str(
            r#"{"priority":0,"groups":["batch"],"modules":1048576,"weight":null}"#,
        )
        .unwrap();
        let after = change.over(before.clone()).unwrap();
        assert_eq!((after.priority, after.cap, after.weight), (0, 40, 1));
        let keys: Vec<_> = differences(&before, &after)
            .into_iter()
            .map(|change| change.key)
            .collect();
        assert_eq!(keys, ["priority", "modules", "groups"]);
        assert!(differences(&after, &after).is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            r#"{"priority":5}"#,
            r#"{"weight":0}"#,
            r#"{"cap":101}"#,
            r#"{"groups":["No Name"]}"#,
            r#"{"swap":"off"}"#,
            r#"{"quota":-1}"#,
        ] {
            let change: TenantChangeModel = serde_json::from_str(bad).unwrap();
            let refused = change.over(TenantSettings::default());
            assert_eq!(refused.unwrap_err().status().as_u16(), 422, "{bad}");
        }
        for unknown in [r#"{"prio":1}"#, r#"{"prio":null}"#] {
            assert!(serde_json::from_str::<TenantChangeModel>(unknown).is_err());
        }
    }
}
