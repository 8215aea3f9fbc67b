//! The settings of `warploom up` and of other commands, as far as the demo takes them. It starts a
//! cluster of its own, so it takes them from the command line only: a file and the environment are
//! about the user's cluster. The command line's are obeyed or refused, never ignored.

use admin::errors::UsageError;
use admin::settings::{SettingSource, Settings};
use anyhow::{Result, bail};
use warploom_cli::local::LocalOptions;

/// The settings that the demo refuses, each a name or a section, with what holds instead.
const REFUSED: &[(&str, &str)] = &[
    ("up.brokers", "its cluster has one broker"),
    ("up.leaders", "--leaders says how many it starts"),
    ("up.workers", "--workers says how many it starts"),
    ("up.tenants", "--tenants names a file with them"),
    ("cluster.", "it starts a cluster of its own"),
    ("broker.url", "it starts a broker of its own"),
    ("broker.credentials", "it starts a broker of its own"),
    ("broker.port", "its broker takes a free port"),
    ("broker.sync", "its broker stores nothing for later"),
    ("worker.gpu", "its workers are numbered from 0 on"),
    ("run.", "its tenants are not started by `warploom run`"),
    ("client.opening", "its tenants have 30 s"),
    ("client.runtime_tables", NO_CUDA),
    ("client.driver_version", NO_CUDA),
    ("client.swap", NO_CUDA),
    ("weights.", "it publishes no weights"),
];
const NO_CUDA: &str = "its tenants use the Rust client, not CUDA";

/// Changes the demo's own options as the command line says.
///
/// # Errors
/// [`UsageError`] for a setting that the demo cannot obey.
pub(super) fn obeying(own: LocalOptions, settings: &Settings) -> Result<LocalOptions> {
    let mut options = own;
    let given = settings
        .iter()
        .filter(|(_, _, source)| **source == SettingSource::Flag);
    let given: Vec<&str> = given.map(|(key, _, _)| key).collect();
    for key in &given {
        let of = |(name, _): &&(&str, &str)| match name.ends_with('.') {
            true => key.starts_with(name),
            false => key == name,
        };
        if let Some((_, instead)) = REFUSED.iter().find(of) {
            bail!(UsageError(format!("the demo cannot obey {key}: {instead}")));
        }
        match *key {
            "up.controllers" => options.controllers = settings.number(key)?,
            "up.deadline" => options.deadline = settings.duration(key)?,
            "up.metrics" => options.take_metrics(settings)?,
            _ => {}
        }
    }
    let controllers = |key: &&&str| key.starts_with("controller.");
    if let Some(key) = given.iter().find(controllers)
        && options.controllers == 0
    {
        bail!(UsageError(format!(
            "the demo cannot obey {key}: it starts no controller with --json, unless up.controllers says so"
        )));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use admin::settings::KNOWN;

    use super::*;

    /// The demo's options with these flags and this environment variable.
    fn options(flags: &[(&str, &str)], variable: Option<(&str, &str)>) -> Result<LocalOptions> {
        let flags = flags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let flags: Vec<_> = flags.collect();
        let environment = |name: &str| {
            let set = variable.filter(|(set, _)| *set == name);
            set.map(|(_, value)| value.to_owned())
        };
        let settings = Settings::resolve(None, environment, &flags)?;
        obeying(LocalOptions::new("unused", "demo")?, &settings)
    }

    #[test]
    fn each_setting_of_up_is_obeyed_or_refused_with_what_to_write_instead() {
        let flags = [
            ("up.controllers", "2"),
            ("up.deadline", "90s"),
            ("up.metrics", "9464"),
        ];
        let obeyed = options(&flags, None).expect("they are obeyed");
        assert_eq!((obeyed.controllers, obeyed.metrics), (2, Some(9_464)));
        assert_eq!(obeyed.deadline, Duration::from_secs(90));
        let of_up = KNOWN.iter().filter(|known| known.key.starts_with("up."));
        for known in of_up.filter(|known| flags.iter().all(|(key, _)| *key != known.key)) {
            let refused = options(&[(known.key, "3")], None);
            let why = refused.expect_err("it is refused").to_string();
            assert!(why.contains(known.key), "{why}");
        }
        let why = options(&[("up.workers", "2")], None).expect_err("it is refused");
        assert!(why.is::<UsageError>() && why.to_string().contains("--workers"));
    }

    #[test]
    fn what_names_another_cluster_is_refused_only_on_the_command_line() {
        for (key, value) in [
            ("cluster.name", "other"),
            ("broker.url", "nats://127.0.0.1:1"),
            ("run.library", "libcuda.so"),
            ("controller.listen", "127.0.0.1:1"),
        ] {
            options(&[(key, value)], None).expect_err(key);
        }
        let variable = Some(("WARPLOOM_UP_WORKERS", "7"));
        let others = options(&[], variable).expect("it is about another cluster");
        assert_eq!((others.workers, others.controllers), (1, 0));
        let listens = [
            ("up.controllers", "1"),
            ("controller.listen", "127.0.0.1:1"),
        ];
        options(&listens, None).expect("there is a controller");
        options(&[("broker.server", "nats-server")], None).expect("it is its broker's");
    }

    #[test]
    fn every_refused_name_is_that_of_a_setting() {
        for (name, _) in REFUSED {
            let of = |key: &str| key == *name || name.ends_with('.') && key.starts_with(name);
            assert!(KNOWN.iter().any(|known| of(known.key)), "{name}");
        }
    }
}
