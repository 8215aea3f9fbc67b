//! `warploom config`: each setting, with its value and the source of the value.

use anyhow::Result;

use crate::output;
use crate::settings::{KNOWN, Settings};
use crate::table::{fitted, headed};

/// Prints every setting.
///
/// # Errors
/// If it cannot be printed.
pub fn config(settings: &Settings, json: bool) -> Result<()> {
    if json {
        for (key, value, source) in settings.printable() {
            let source = source.to_string();
            output::line(serde_json::json!({"key": key, "value": value, "source": source}))?;
        }
        return Ok(());
    }
    let mut table = headed("setting | value | from | what it does");
    for (key, value, source) in settings.printable() {
        let help = KNOWN
            .iter()
            .find(|known| known.key == key)
            .map_or("", |known| known.help);
        table.add_row([key, &value, &source.to_string(), help]);
    }
    output::line(fitted(&table))
}
