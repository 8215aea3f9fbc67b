//! The tenants of a demo.

use std::path::Path;

use anyhow::{Result, bail};
use bus_schemas::{Tenant, TenantSettings};
use serde::Deserialize;

use admin::errors::{ErrorCode, UsageError, named};

/// One tenant of a demo.
#[derive(Debug, Clone)]
pub struct TenantPlan {
    /// Its name.
    pub tenant: Tenant,
    /// Its priority, weight and quota.
    pub settings: TenantSettings,
    /// `chat`, `search` or `train`.
    pub workload: String,
    /// Milliseconds between an answer and the next request.
    pub think_ms: u64,
}

/// A `[[tenant]]` of a tenants file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Tenant,
    workload: String,
    #[serde(default = "default_priority")]
    priority: u8,
    #[serde(default = "default_weight")]
    weight: u32,
    #[serde(default)]
    quota: u64,
    #[serde(default)]
    think_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tenant: Vec<Entry>,
}

fn default_priority() -> u8 {
    2
}

fn default_weight() -> u32 {
    1
}

/// The demo's own three tenants: interactive, weighted and greedy.
#[must_use]
pub fn standard() -> Vec<TenantPlan> {
    let plan = |name: &str, priority, weight, think_ms| TenantPlan {
        tenant: name.parse().expect("a tenant's name"),
        settings: TenantSettings {
            priority,
            weight,
            ..TenantSettings::default()
        },
        workload: name.to_owned(),
        think_ms,
    };
    vec![
        plan("chat", 0, 1, 20),
        plan("search", 2, 2, 0),
        plan("train", 4, 1, 0),
    ]
}

/// Reads a tenants file.
///
/// # Errors
/// [`UsageError`] if it does not follow docs/howto/demo.md.
pub(super) fn read(path: &Path) -> Result<Vec<TenantPlan>> {
    let shown = path.display();
    let text = named(
        std::fs::read_to_string(path),
        ErrorCode::DemoTenants,
        format_args!("reading {shown}"),
    )?;
    let file: File = toml::from_str(&text)
        .map_err(|error| UsageError(format!("{shown} is no tenants file: {error}")))?;
    let mut plans = Vec::new();
    for entry in file.tenant {
        if !workloads::NAMES.contains(&entry.workload.as_str()) {
            let names = workloads::NAMES.join(", ");
            bail!(UsageError(format!(
                "{shown}: workload {:?} is none of {names}",
                entry.workload
            )));
        }
        let settings = TenantSettings {
            priority: entry.priority,
            weight: entry.weight,
            quota: entry.quota,
            ..TenantSettings::default()
        };
        plans.push(TenantPlan {
            tenant: entry.name,
            settings,
            workload: entry.workload,
            think_ms: entry.think_ms,
        });
    }
    if plans.is_empty() {
        bail!(UsageError(format!("{shown} names no tenant")));
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_files() {
        let dir = test_cluster::TempDir::new().unwrap();
        let path = dir.path().join("tenants.toml");
        std::fs::write(
            &path,
            "[[tenant]]\nname = 'a'\nworkload = 'train'\nweight = 3\n",
        )
        .unwrap();
        let plans = read(&path).unwrap();
        assert_eq!(
            (
                plans.len(),
                plans[0].settings.weight,
                plans[0].settings.priority
            ),
            (1, 3, 2)
        );
        for bad in [
            "",
            "[[tenant]]\nname = 'a'\nworkload = 'mine'",
            "[[tenant]]\nname = 'A b'",
        ] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(
                warploom_cli::exit::code(&read(&path).unwrap_err()),
                warploom_cli::exit::USAGE,
                "{bad}"
            );
        }
    }
}
