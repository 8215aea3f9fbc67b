//! An eye on what must stay as it is: the cluster's stored state, and the subjects on which no answer to
//! the hostile tenant may arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use admin::Administrator;
use anyhow::{Result, bail};
use async_nats::jetstream;
use bus_schemas::Tenant;
use bus_schemas::subject::Subjects;
use futures_util::{StreamExt, TryStreamExt};
use storage::{Storage, Stored};

use super::forge::MARK;
use crate::chaos::conduct::LOOK;

/// Answers on forbidden subjects, and the subject of the first.
#[derive(Debug, Clone, Default)]
pub(super) struct Astray {
    /// Number of answers.
    pub(super) answers: u64,
    /// Subject of the first answer.
    pub(super) first: Option<String>,
}

/// Listens for the lifetime of the runtime.
#[derive(Debug, Clone, Default)]
pub(super) struct Eyes(Arc<Mutex<Astray>>);

/// True if only the hostile tenant can have caused a message on this subject. `silent` is a tenant that
/// does nothing and hears only of new leaders.
fn is_astray(subjects: &Subjects, silent: &Tenant, subject: &str) -> bool {
    let marked = subject.rsplit('.').next() == Some(MARK);
    let theirs = subjects.is_inbound_of(silent, subject);
    marked || theirs && subject != subjects.term(silent)
}

impl Eyes {
    /// Starts to listen for messages to tenants that asked for nothing, and to leaders and workers.
    ///
    /// # Errors
    /// If the broker refuses the subscriptions.
    pub(super) async fn open(
        administrator: &Administrator,
        silent: &Tenant,
        neighbour: &Tenant,
    ) -> Result<Self> {
        let eyes = Self::default();
        let subjects = administrator.subjects();
        let root = subjects.all().replace('>', "s.*");
        let of_neighbour = format!("{}.*", subjects.tenant_inbox(neighbour));
        let of_silent = subjects.tenant_inbound(silent);
        for subject in [of_silent, of_neighbour, root] {
            let heard = administrator.client().subscribe(subject).await?;
            let (eyes, subjects, silent) = (eyes.clone(), subjects.clone(), silent.clone());
            tokio::spawn(heard.for_each(move |message| {
                if is_astray(&subjects, &silent, &message.subject) {
                    let astray = &mut eyes.0.lock().unwrap_or_else(PoisonError::into_inner);
                    astray.answers += 1;
                    astray
                        .first
                        .get_or_insert_with(|| message.subject.to_string());
                }
                std::future::ready(())
            }));
        }
        administrator.client().flush().await?;
        Ok(eyes)
    }

    /// Returns the answers seen so far.
    pub(super) fn seen(&self) -> Astray {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The cluster's stored state that the hostile tenant has no part in, each entry by its name.
pub(super) type Kept = BTreeMap<String, Vec<u8>>;

/// Returns tenants, settings and pins, and the configuration of streams and buckets.
///
/// # Errors
/// If the broker does not answer.
pub(super) async fn kept(administrator: &Administrator) -> Result<Kept> {
    let jetstream = jetstream::new(administrator.client().clone());
    let bucket = administrator.subjects().state_bucket();
    let state = jetstream.get_key_value(bucket).await?;
    let keys: Vec<String> = state.keys().await?.try_collect().await?;
    let mut kept = Kept::new();
    // Learned estimates and placements are the leaders' to write.
    for key in keys.into_iter().filter(|key| !is_leaders(key)) {
        let value = state.get(&key).await?;
        kept.insert(format!("key {key}"), value.unwrap_or_default().to_vec());
    }
    let mut streams = jetstream.streams();
    while let Some(stream) = streams.try_next().await? {
        let config = serde_json::to_vec(&stream.config)?;
        kept.insert(format!("stream {}", stream.config.name), config);
    }
    Ok(kept)
}

/// As [`kept`], but waits until every stream and bucket exists: leaders make them while programs start.
///
/// # Errors
/// As [`kept`], and if one of them is still missing after `patience`.
pub(super) async fn kept_whole(administrator: &Administrator, patience: Duration) -> Result<Kept> {
    let jetstream = jetstream::new(administrator.client().clone());
    let storage = Storage::new(jetstream, administrator.subjects());
    let names = Stored::ALL.map(|stored| storage.stream_name(stored));
    let asked = Instant::now();
    loop {
        let kept = kept(administrator).await?;
        match missing(&kept, &names) {
            None => return Ok(kept),
            Some(name) if asked.elapsed() > patience => {
                bail!("stream {name} is not there after {patience:?}")
            }
            Some(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The first of these streams that does not exist.
fn missing<'a>(kept: &Kept, streams: &'a [String]) -> Option<&'a String> {
    let mut streams = streams.iter();
    streams.find(|name| !kept.contains_key(&format!("stream {name}")))
}

fn is_leaders(key: &str) -> bool {
    key == "placement" || key == "profile"
}

/// Names of the entries that differ between both.
pub(super) fn changed(before: &Kept, after: &Kept) -> Vec<String> {
    let gone = before
        .iter()
        .filter(|(name, value)| after.get(*name) != Some(*value));
    let new = after.keys().filter(|name| !before.contains_key(*name));
    gone.map(|(name, _)| name).chain(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_hostile_tenant_can_have_caused_is_astray() {
        let subjects = Subjects::new(&"c".parse().unwrap());
        let silent = "silent".parse().unwrap();
        let astray = |subject: &str| is_astray(&subjects, &silent, subject);
        assert!(astray("wl.v1.c.t.silent.dn.inbox.forged"));
        assert!(astray("wl.v1.c.t.silent.dn.0000000000000003.result"));
        assert!(astray("wl.v1.c.s.forged"));
        assert!(astray("wl.v1.c.t.neighbour.dn.inbox.forged"));
        assert!(!astray("wl.v1.c.t.silent.dn.reign"));
        assert!(!astray("wl.v1.c.t.neighbour.dn.inbox.a1b2"));
        assert!(!astray("wl.v1.c.s.lost"));
    }

    #[test]
    fn what_is_gone_new_or_different_has_changed() {
        let kept = |pairs: &[(&str, u8)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), vec![*value]))
                .collect()
        };
        let before: Kept = kept(&[("a", 1), ("b", 2), ("c", 3)]);
        assert!(changed(&before, &before).is_empty());
        let after = kept(&[("a", 1), ("b", 9), ("d", 3)]);
        assert_eq!(changed(&before, &after), ["b", "c", "d"]);
    }

    #[test]
    fn what_leaders_have_not_made_yet_is_missing() {
        let kept = Kept::from([("stream a".to_owned(), Vec::new())]);
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(missing(&kept, &names), Some(&names[1]));
        assert_eq!(missing(&kept, &names[..1]), None);
    }
}
