//! `warploom config`: each setting and whence it came.

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use crate::output;
use crate::settings::{KNOWN, Settings};
use crate::table::fitted;

/// Prints every setting.
///
/// # Errors
/// Where it cannot be printed.
pub fn config(settings: &Settings, json: bool) -> Result<()> {
    if json {
        for (key, value, source) in settings.iter() {
            let source = source.to_string();
            output::line(serde_json::json!({"key": key, "value": value, "source": source}))?;
        }
        return Ok(());
    }
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(["setting", "value", "from", "what it does"]);
    for (key, value, source) in settings.iter() {
        let help = KNOWN
            .iter()
            .find(|known| known.key == key)
            .map_or("", |known| known.help);
        table.add_row([key, value, &source.to_string(), help]);
    }
    output::line(fitted(&table))
}
