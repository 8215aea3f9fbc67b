//! The flags of every command, and the resulting settings.

use std::path::PathBuf;

use admin::completion;
use admin::output;
use admin::settings::Settings;
use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

/// The heading of the common options, which separates them from the command's own.
const HEADING: &str = "Options of every command";
/// Flags that count both before and after a subcommand.
const EVERYWHERE: [&str; 3] = ["config", "set", "verbose"];

/// Flags of every command. The command line must be [`everywhere`]'s.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file (default: ./warploom.toml if there is one)
    #[arg(long, value_name = "FILE", env = "WARPLOOM_CONFIG", help_heading = HEADING)]
    pub config: Option<PathBuf>,
    /// Overrides a setting; `warploom config` lists them. If one is given twice, the last counts
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value, help_heading = HEADING,
          add = completion::settings())]
    pub set: Vec<(String, String)>,
    /// Prints one JSON object a line instead of text
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
    /// Logs more to stderr: -v info, -vv debug, -vvv trace
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = HEADING)]
    pub verbose: u8,
}

/// Adds the common flags to each subcommand, so that they may stand before and after it. With
/// clap's global arguments, those before would be forgotten if others follow.
#[must_use]
pub fn everywhere(command: Command) -> Command {
    let flags = command.get_arguments();
    let flags = flags.filter(|flag| EVERYWHERE.contains(&flag.get_id().as_str()));
    let flags: Vec<_> = flags.cloned().collect();
    below(command, &flags)
}

fn below(command: Command, flags: &[clap::Arg]) -> Command {
    command.mut_subcommands(|inner| below(inner.args(flags), flags))
}

impl Global {
    /// Adds the flags that follow a subcommand.
    pub fn take(&mut self, matches: &ArgMatches) {
        let mut next = matches.subcommand();
        while let Some((_, matches)) = next {
            next = matches.subcommand();
            // The environment counts once.
            let given = |flag| {
                matches.try_contains_id(flag).is_ok()
                    && matches.value_source(flag) == Some(ValueSource::CommandLine)
            };
            if given("config") {
                self.config = matches.get_one::<PathBuf>("config").cloned();
            }
            if given("set") {
                let set = matches.get_many::<(String, String)>("set");
                self.set.extend(set.into_iter().flatten().cloned());
            }
            if given("verbose") {
                self.verbose = self.verbose.saturating_add(matches.get_count("verbose"));
            }
        }
    }

    /// The settings of this invocation: from the file, the environment and the flags.
    ///
    /// # Errors
    /// [`admin::errors::Class::Usage`] if one of them cannot be read.
    pub fn settings(&self) -> Result<Settings> {
        for key in twice(&self.set) {
            output::note(format_args!(
                "--set {key} is given more than once: the last counts"
            ));
        }
        let mut flags = self.set.clone();
        let filter = match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        };
        flags.extend(filter.map(|filter| ("log.filter".to_owned(), filter.to_owned())));
        let variable = |name: &str| std::env::var(name).ok();
        Settings::resolve(self.config.as_deref(), variable, &flags)
    }
}

/// Keys that are given more than once, each listed once.
fn twice(set: &[(String, String)]) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, (key, _)) in set.iter().enumerate() {
        let before = set[..at].iter().any(|(other, _)| other == key);
        if before && !found.contains(&key.as_str()) {
            found.push(key.as_str());
        }
    }
    found
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    fn read(line: &str) -> Global {
        let inner = Command::new("show").arg(clap::Arg::new("rest").num_args(..).last(true));
        let group = Command::new("order").subcommand(inner);
        let command = everywhere(Global::augment_args(Command::new("w").subcommand(group)));
        let matches = command
            .try_get_matches_from(line.split(' '))
            .expect("a line");
        let mut global = Global::from_arg_matches(&matches).expect("flags");
        global.take(&matches);
        global
    }

    #[test]
    fn flags_count_before_every_subcommand_and_behind_it() {
        let global =
            read("w --set a=1 -v order --set b=2 show --set=c=3 --set a=4 -v -- --set d=5");
        let text = |(key, value): &(String, String)| format!("{key}={value}");
        let set: Vec<_> = global.set.iter().map(text).collect();
        assert_eq!(set, ["a=1", "b=2", "c=3", "a=4"]);
        assert_eq!(twice(&global.set), ["a"]);
        assert_eq!(global.verbose, 2);
        let global = read("w --config one --json order show --config other");
        assert_eq!((global.config, global.json), (Some("other".into()), true));
        assert!(read("w order --json show").json);
        assert_eq!(read("w --config one order show").config, Some("one".into()));
    }
}
