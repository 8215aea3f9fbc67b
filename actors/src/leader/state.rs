//! The state bucket: settings, tenants, profile, pin, placement; watched by every candidate, written
//! to by the leader.

use std::time::Duration;

use actix::Recipient;
use async_nats::jetstream::Context;
use async_nats::jetstream::kv::{self, Entry, Operation, Store};
use bus_schemas::subject::Subjects;
use bus_schemas::{Epoch, KernelKey, ProfileHash, Tenant, TenantSettings, limits};
use scheduler_leader_core::{Placement, Profile, StateSnapshot};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::next;
use super::record::Appender;
use super::told::Told;

/// Before the watch or a write is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// The entry that leaders write of what they have decided.
const PLACEMENT: &str = "placement";
/// How long the watch waits for the rest of what changed together.
const LINGER: Duration = Duration::from_millis(5);

/// Entries `profile`, a leader's, and `pin`, an administrator's copy of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ProfileEntry {
    #[serde(default)]
    epoch: Epoch,
    #[serde(default)]
    version: u64,
    /// For those who look at the entry: what is read is hashed anew.
    #[serde(default)]
    hash: ProfileHash,
    entries: Vec<(KernelKey, u64)>,
}

impl ProfileEntry {
    fn profile(self) -> Profile {
        Profile::of(self.version, self.entries)
    }
}

async fn open(jetstream: &Context, bucket: &str) -> Result<Store, String> {
    if let Ok(store) = jetstream.get_key_value(bucket).await {
        return Ok(store);
    }
    let config = kv::Config {
        bucket: bucket.to_owned(),
        history: limits::STATE_HISTORY,
        ..kv::Config::default()
    };
    let created = jetstream.create_key_value(config).await;
    created.map_err(|error| error.to_string())
}

/// Tells the leader the state, and every change of it, for ever.
pub(super) async fn watch(jetstream: Context, subjects: Subjects, leader: Recipient<Told>) {
    let mut told = String::new();
    loop {
        // Without the state nobody campaigns: say why, but once.
        if let Err(error) = follow(&jetstream, &subjects, &leader).await
            && error != told
        {
            tracing::warn!(error, "the state is not watched");
            told = error;
        }
        if !leader.connected() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Follows the bucket until the watch breaks.
async fn follow(
    jetstream: &Context,
    subjects: &Subjects,
    leader: &Recipient<Told>,
) -> Result<(), String> {
    let store = open(jetstream, &subjects.state_bucket()).await?;
    let mut state = StateSnapshot::default();
    state.placement.epoch = Appender::last_epoch(jetstream, subjects).await;
    let watch = store.watch_with_history(">").await;
    let mut watch = watch.map_err(|error| error.to_string())?;
    let status = store.status().await.map_err(|error| error.to_string())?;
    // Without a first entry nothing would say that there are none.
    let mut complete = status.values() == 0;
    loop {
        if complete {
            let told = Told::State(Box::new(state.clone()));
            leader.send(told).await.map_err(|error| error.to_string())?;
        }
        let mut entry = next(&mut watch).await;
        // What changed together is told together.
        let mut placed = false;
        loop {
            let this = entry.ok_or("the watch ended")?;
            let this = this.map_err(|error| error.to_string())?;
            let placement = this.key == PLACEMENT;
            if complete && placed && placement {
                // What the leader before us wrote last is told even where we have written over it
                // since: workers it was to drain are in no other place.
                let told = Told::State(Box::new(state.clone()));
                leader.send(told).await.map_err(|error| error.to_string())?;
            }
            placed |= placement;
            complete |= this.seen_current;
            take(&mut state, &this);
            match tokio::time::timeout(LINGER, next(&mut watch)).await {
                Ok(more) => entry = more,
                Err(_) => break,
            }
        }
    }
}

/// Takes a change in. What cannot be read changes nothing.
fn take(state: &mut StateSnapshot, entry: &Entry) {
    let put = entry.operation == Operation::Put;
    let key = entry.key.as_str();
    let read = match key {
        "settings" => set(&mut state.settings, entry),
        PLACEMENT => {
            let epoch = state.placement.epoch;
            let read = set(&mut state.placement, entry);
            state.placement.epoch = state.placement.epoch.max(epoch);
            read
        }
        "profile" => {
            let mut profile = ProfileEntry::default();
            let read = set(&mut profile, entry);
            if read.is_ok() {
                state.profile = profile.profile();
            }
            read
        }
        "pin" => {
            let mut pin = ProfileEntry::default();
            let read = set(&mut pin, entry);
            if read.is_ok() {
                state.pinned = put.then(|| pin.profile());
            }
            read
        }
        _ => match key.strip_prefix("tenant.").map(str::parse::<Tenant>) {
            Some(Ok(tenant)) => {
                let at = state
                    .tenants
                    .binary_search_by(|(name, _)| name.cmp(&tenant));
                let mut settings = TenantSettings::default();
                let read = set(&mut settings, entry);
                match (at, put && read.is_ok()) {
                    (Ok(at), true) => state.tenants[at].1 = settings,
                    (Err(at), true) => state.tenants.insert(at, (tenant, settings)),
                    (Ok(at), false) if !put => drop(state.tenants.remove(at)),
                    _ => {}
                }
                read
            }
            _ => Err("not a key of ours".into()),
        },
    };
    if let Err(error) = read {
        tracing::warn!(key, error, "an entry of the state is not understood");
    }
}

/// Sets a value from its entry; a deleted one is the default.
fn set<T: for<'a> Deserialize<'a> + Default>(value: &mut T, entry: &Entry) -> Result<(), String> {
    *value = match entry.operation {
        Operation::Put => {
            serde_json::from_slice(&entry.value).map_err(|error| error.to_string())?
        }
        Operation::Delete | Operation::Purge => T::default(),
    };
    Ok(())
}

/// Writes the leader's own entries: always the latest, never over a higher epoch's.
pub(super) struct Writer {
    placement: watch::Sender<(Epoch, Vec<u8>)>,
    profile: watch::Sender<(Epoch, Vec<u8>)>,
}

impl Writer {
    /// Starts the writers; they end when this is dropped.
    pub(super) fn start(jetstream: Context, subjects: &Subjects) -> Self {
        let start = |key| {
            let (sender, latest) = watch::channel((0, Vec::new()));
            let (jetstream, bucket) = (jetstream.clone(), subjects.state_bucket());
            actix::spawn(write(jetstream, bucket, key, latest));
            sender
        };
        Self {
            placement: start(PLACEMENT),
            profile: start("profile"),
        }
    }

    pub(super) fn placement(&self, placement: &Placement) {
        if let Ok(value) = serde_json::to_vec(placement) {
            self.placement.send_replace((placement.epoch, value));
        }
    }

    pub(super) fn profile(&self, epoch: Epoch, profile: Profile) {
        let entry = ProfileEntry {
            epoch,
            version: profile.version,
            hash: profile.hash,
            entries: profile.entries,
        };
        if let Ok(value) = serde_json::to_vec(&entry) {
            self.profile.send_replace((epoch, value));
        }
    }
}

/// Writes the latest value whenever there is one.
async fn write(
    jetstream: Context,
    bucket: String,
    key: &'static str,
    mut latest: watch::Receiver<(Epoch, Vec<u8>)>,
) {
    while latest.changed().await.is_ok() {
        loop {
            let (epoch, value) = latest.borrow_and_update().clone();
            match write_once(&jetstream, &bucket, key, epoch, value).await {
                Ok(()) => break,
                Err(error) => tracing::debug!(key, error, "an entry is not written yet"),
            }
            tokio::time::sleep(PAUSE).await;
            if latest.has_changed().is_err() {
                return;
            }
        }
    }
}

async fn write_once(
    jetstream: &Context,
    bucket: &str,
    key: &str,
    epoch: Epoch,
    value: Vec<u8>,
) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        epoch: Epoch,
    }
    let store = open(jetstream, bucket).await?;
    let entry = store.entry(key).await;
    let entry = entry.map_err(|error| error.to_string())?;
    let revision = entry.as_ref().map_or(0, |entry| entry.revision);
    let written = entry.and_then(|entry| serde_json::from_slice::<Written>(&entry.value).ok());
    if written.is_some_and(|written| written.epoch > epoch) {
        return Ok(());
    }
    let update = store.update(key, value.into(), revision).await;
    update.map(drop).map_err(|error| error.to_string())
}
