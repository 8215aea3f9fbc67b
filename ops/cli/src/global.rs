//! The flags of every command, and the settings that they lead to.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::completion;
use crate::exit::Misset;
use crate::settings::Settings;

/// The heading of the options that every command has, so that they do not lie among its own.
const HEADING: &str = "Options of every command";

/// Flags of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file (default: ./warploom.toml if there is one)
    #[arg(long, global = true, value_name = "FILE", env = "WARPLOOM_CONFIG", help_heading = HEADING)]
    pub config: Option<PathBuf>,
    /// Overrides a setting; `warploom config` lists them
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_value, help_heading = HEADING,
          add = completion::settings())]
    pub set: Vec<(String, String)>,
    /// Prints one JSON object a line instead of text
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
    /// Logs more to stderr: -v info, -vv debug, -vvv trace
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = HEADING)]
    pub verbose: u8,
}

impl Global {
    /// The settings of this invocation: of the file, the environment and the flags.
    ///
    /// # Errors
    /// [`Misset`] where one of them cannot be read.
    pub fn settings(&self) -> Result<Settings> {
        let mut flags = self.set.clone();
        let filter = match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        };
        flags.extend(filter.map(|filter| ("log.filter".to_owned(), filter.to_owned())));
        let variable = |name: &str| std::env::var(name).ok();
        let settings = Settings::resolve(self.config.as_deref(), variable, &flags);
        settings.map_err(|error| Misset(format!("{error:#}")).into())
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
