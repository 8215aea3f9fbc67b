//! `warploom config`: each setting, with its value and the source of the value.

use admin::output;
use admin::settings::{KNOWN, Settings};
use admin::table::{fitted, headed};
use anyhow::Result;

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

#[cfg(test)]
mod tests {
    use admin::settings::KNOWN;

    use super::*;

    /// The settings name the models without linking the device.
    #[test]
    fn every_model_of_the_device_can_be_set() {
        let known = KNOWN.iter().find(|known| known.key == "worker.model");
        let known = known.expect("a setting");
        let resolve = |word: &str| {
            let flags = [(known.key.to_owned(), word.to_owned())];
            Settings::resolve(None, |_| None, &flags)
        };
        for word in device_cpu::DeviceModel::words() {
            assert!(resolve(word).is_ok(), "{word}");
            assert!(known.help.contains(word), "{word}");
        }
        assert!(resolve("no-model").is_err());
    }
}
