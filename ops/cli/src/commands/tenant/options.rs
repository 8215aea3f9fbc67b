//! The options of `tenant create` and `set`, made from the table of a tenant's settings.

use admin::completion;
use admin::tenant_settings::{SettingKind, TENANT_SETTINGS, TenantSetting};
use anyhow::Result;
use bus_schemas::TenantSettings;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;

/// The option that removes all groups.
const NO_GROUP: &str = "no-group";

/// The settings that a command names, each with its value.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingOptions(Vec<(&'static TenantSetting, Value)>);

impl SettingOptions {
    /// Changes settings as the options say.
    pub(super) fn over(&self, mut settings: TenantSettings) -> Result<TenantSettings> {
        for (setting, value) in &self.0 {
            setting.set(&mut settings, value)?;
        }
        Ok(settings)
    }

    fn read(matches: &ArgMatches) -> Self {
        let value = |setting: &'static TenantSetting| {
            let mut values = matches.get_many::<Value>(setting.option);
            let groups = setting.kind == SettingKind::Groups;
            let value = match &mut values {
                // Each is a list of one.
                Some(values) if groups => values
                    .filter_map(Value::as_array)
                    .flatten()
                    .cloned()
                    .collect(),
                Some(values) => values.next()?.clone(),
                None if groups && matches.get_flag(NO_GROUP) => Value::Array(Vec::new()),
                None => return None,
            };
            Some((setting, value))
        };
        Self(rows().filter_map(value).collect())
    }
}

/// The settings that have an option.
fn rows() -> impl Iterator<Item = &'static TenantSetting> {
    let rows = TENANT_SETTINGS.iter();
    rows.filter(|setting| setting.kind != SettingKind::State)
}

fn option(setting: &'static TenantSetting) -> Arg {
    let option = Arg::new(setting.option)
        .long(setting.option)
        .value_name(setting.kind.placeholder())
        .help(setting.option_help())
        .value_parser(|text: &str| setting.parse(text));
    match setting.kind {
        SettingKind::Groups => option
            .action(ArgAction::Append)
            .conflicts_with(NO_GROUP)
            .add(completion::groups()),
        SettingKind::Switch => option.add(completion::words(&["on", "off"])),
        _ => option,
    }
}

impl Args for SettingOptions {
    fn augment_args(command: Command) -> Command {
        let no_group = Arg::new(NO_GROUP)
            .long(NO_GROUP)
            .action(ArgAction::SetTrue)
            .help(
                "Lets its sessions go to any group that is not exclusive, as those of a new tenant",
            );
        command.args(rows().map(option)).arg(no_group)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::read(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::read(matches);
        Ok(())
    }
}
