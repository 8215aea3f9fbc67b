//! `warploom order hold` and `release`.

use admin::Administrator;
use admin::output;
use admin::settings::Settings;
use anyhow::Result;

/// Holds back all grants, or releases them: one recorded input.
pub(super) async fn hold(held: bool, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
    administrator.hold(held).await?;
    match (json, held) {
        (true, _) => output::line(serde_json::json!({ "held": held })),
        (false, true) => output::line("grants are held; `warploom order release` lets them go"),
        (false, false) => output::line("grants go"),
    }
}
