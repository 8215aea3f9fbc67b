//! Shell completion of the word being typed. Tenants, sessions, workers and other objects have the
//! names that the cluster has now; settings have their own.

mod bash;
mod candidate;
mod cluster;
mod kernels;
mod line;
mod rows;
mod shell;

use std::ffi::OsStr;
use std::future::Future;

use anyhow::Result;
use clap_complete::engine::ArgValueCompleter;

pub use candidate::Candidate;
pub use shell::{Shell, answer, registration};

use crate::administrator::Administrator;
use crate::cluster_settings::CLUSTER_SETTINGS;
use crate::settings::KNOWN;
use candidate::offered;

/// A completer from a function of the typed text.
fn completer(find: impl Fn(&str) -> Vec<Candidate> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| match typed.to_str() {
        Some(typed) => offered(find(typed), typed),
        None => Vec::new(),
    })
}

/// Completes names that are known without a cluster.
pub fn listed<I>(all: impl Fn() -> I + Send + Sync + 'static) -> ArgValueCompleter
where
    I: IntoIterator<Item = Candidate>,
{
    completer(move |_| all().into_iter().collect())
}

/// Completes one of a few words.
#[must_use]
pub fn words(all: &'static [&'static str]) -> ArgValueCompleter {
    listed(move || all.iter().map(|word| Candidate::new(*word, "")))
}

/// Completes names that an administrator finds in the cluster, if it answers in half a second.
pub fn live<F>(
    find: impl Fn(Administrator) -> F + Copy + Send + Sync + 'static,
) -> ArgValueCompleter
where
    F: Future<Output = Result<Vec<Candidate>>>,
{
    completer(move |_| cluster::asked(find))
}

/// Completes tenants.
#[must_use]
pub fn tenants() -> ArgValueCompleter {
    completer(|_| cluster::tenants())
}

/// Completes sessions' ids.
#[must_use]
pub fn sessions() -> ArgValueCompleter {
    completer(cluster::sessions)
}

/// Completes targets of `why`: sessions, and devices as `gpu:N`.
#[must_use]
pub fn explained() -> ArgValueCompleter {
    completer(|typed| match typed.starts_with('g') {
        true => {
            let devices = cluster::asked(cluster::gpus).into_iter();
            devices.map(|it| it.behind("gpu:")).collect()
        }
        false => cluster::sessions(typed),
    })
}

/// Completes workers, by the numbers of their devices and by their ids.
#[must_use]
pub fn workers() -> ArgValueCompleter {
    live(cluster::workers)
}

/// Completes devices' numbers.
#[must_use]
pub fn gpus() -> ArgValueCompleter {
    live(cluster::gpus)
}

/// Completes groups of workers.
#[must_use]
pub fn groups() -> ArgValueCompleter {
    live(cluster::groups)
}

/// Completes versions of the profile.
#[must_use]
pub fn profiles() -> ArgValueCompleter {
    live(cluster::profiles)
}

/// Completes names of published weights.
#[must_use]
pub fn weights() -> ArgValueCompleter {
    live(cluster::weights)
}

/// Completes kernels of the PTX file on the command line.
#[must_use]
pub fn kernels() -> ArgValueCompleter {
    completer(|_| cluster::in_time(|| kernels::kernels(&line::words())))
}

/// Completes `KEY=VALUE`: the keys of settings, and the values of those that have only a few.
#[must_use]
pub fn settings() -> ArgValueCompleter {
    completer(|typed| {
        let all = KNOWN
            .iter()
            .map(|known| (known.key, known.help, known.words()));
        assignments(typed, all)
    })
}

/// Completes `KEY=VALUE` of the cluster's settings.
#[must_use]
pub fn cluster_settings() -> ArgValueCompleter {
    completer(|typed| {
        let all = CLUSTER_SETTINGS.iter();
        assignments(typed, all.map(|it| (it.key, it.help, it.words())))
    })
}

/// Completes the values of a setting that has only a few.
///
/// # Panics
/// If there is no such setting, on the first completion: a mistake in this program.
#[must_use]
pub fn values_of(key: &'static str) -> ArgValueCompleter {
    listed(move || {
        let known = KNOWN.iter().find(|known| known.key == key);
        let words = known.expect("settings are named in KNOWN").words();
        words.iter().map(|word| Candidate::new(*word, ""))
    })
}

/// Keys with `=`; after a complete key, its values.
fn assignments<'k>(
    typed: &str,
    all: impl Iterator<Item = (&'k str, &'k str, &'k [&'k str])>,
) -> Vec<Candidate> {
    let Some((key, _)) = typed.split_once('=') else {
        return all
            .map(|(key, help, _)| Candidate::new(format!("{key}="), help))
            .collect();
    };
    let mut all = all;
    let words = all.find(|(known, ..)| *known == key);
    let words = words.map_or(&[][..], |(_, _, words)| words);
    let assigned = words.iter().map(|word| format!("{key}={word}"));
    assigned.map(|it| Candidate::new(it, "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(completer: &ArgValueCompleter, typed: &str) -> Vec<String> {
        let offered = completer.complete(OsStr::new(typed)).into_iter();
        offered
            .map(|it| it.get_value().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_settings_key_is_completed_and_then_its_value_where_there_are_few() {
        let settings = settings();
        assert_eq!(
            names(&settings, ""),
            KNOWN
                .iter()
                .map(|it| format!("{}=", it.key))
                .collect::<Vec<_>>()
        );
        assert_eq!(names(&settings, "worker.eng"), ["worker.engine="]);
        let engines = ["worker.engine=native", "worker.engine=interpreter"];
        assert_eq!(names(&settings, "worker.engine="), engines);
        assert_eq!(names(&settings, "worker.engine=i"), engines[1..]);
        assert_eq!(names(&settings, "worker.threads="), [""; 0]);
        assert_eq!(names(&settings, "no.such="), [""; 0]);
        let cluster = cluster_settings();
        assert_eq!(names(&cluster, "lea"), ["learn="]);
        assert_eq!(names(&cluster, "learn=o"), ["learn=on", "learn=off"]);
        assert_eq!(names(&cluster, "window=d"), ["window=default"]);
        assert_eq!(names(&values_of("worker.device"), "c"), ["cpu", "cuda"]);
        assert_eq!(names(&words(&["one", "two"]), "t"), ["two"]);
    }

    #[test]
    fn every_word_offered_for_a_setting_is_one_that_it_takes() {
        for known in KNOWN {
            for word in known.words() {
                let flags = [(known.key.to_owned(), (*word).to_owned())];
                let set = crate::settings::Settings::resolve(None, |_| None, &flags);
                assert!(set.is_ok(), "{}={word}", known.key);
            }
        }
        for setting in CLUSTER_SETTINGS {
            for word in setting.words().iter().filter(|word| **word != "default") {
                assert!(setting.parse(word).is_ok(), "{}={word}", setting.key);
            }
        }
    }
}
