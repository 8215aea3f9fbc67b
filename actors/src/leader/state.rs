//! The state bucket: settings, tenants, profile, pin, placement. Every candidate watches it, and
//! the leader writes to it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use actix::Recipient;
use async_nats::jetstream::kv::{self, Entry, Operation, Store};
use async_nats::jetstream::{Context, stream};
use bus_schemas::subject::Subjects;
use bus_schemas::{Epoch, KernelKey, ProfileHash, Tenant, TenantSettings};
use bytes::Bytes;
use futures_util::StreamExt as _;
use scheduler_leader_core::{Placement, Profile, StateSnapshot};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::messages::LeaderMessage;
use super::record::Appender;
use crate::repeated::Repeated;
use storage::{Storage, Stored};

/// Timeout of the bucket while it is opened. A cluster of servers may first have to elect a leader
/// for it, and a quick retry learns the result soon.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Pause before the watch or a write is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// Key of the entry with the leaders' decisions.
const PLACEMENT: &str = "placement";
/// Time that the watch waits for the rest of a joint change.
const LINGER: Duration = Duration::from_millis(5);
/// Interval of the checks that the bucket is still the one that is watched.
const LOOK: Duration = Duration::from_secs(1);

/// Format of the entries `profile`, written by a leader, and `pin`, an administrator's copy of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ProfileEntry {
    #[serde(default)]
    epoch: Epoch,
    #[serde(default)]
    version: u64,
    /// For people who look at the entry; a reader computes the hash anew.
    #[serde(default)]
    hash: ProfileHash,
    entries: Vec<(KernelKey, u64)>,
}

impl ProfileEntry {
    fn profile(self) -> Profile {
        Profile::of(self.version, self.entries)
    }
}

/// Last contents of the bucket, in case it must be created anew.
#[derive(Default)]
struct Known {
    /// Time at which the bucket was created, which identifies it.
    made: Option<i128>,
    entries: BTreeMap<String, Bytes>,
    /// The record's last epoch.
    last_epoch: Option<Epoch>,
}

impl Known {
    /// Returns the record's last epoch. A candidate that never knew it may repeat it. A candidate
    /// that knew it hears of the epochs of other leaders, and finds the last one in the bucket.
    async fn last_epoch(
        &mut self,
        storage: &Storage,
        subjects: &Subjects,
    ) -> Result<Epoch, String> {
        let last = match (
            Appender::last_epoch(storage, subjects).await,
            self.last_epoch,
        ) {
            (Ok(last), _) | (Err(_), Some(last)) => last,
            (Err(error), None) => return Err(format!("the record's last epoch: {error}")),
        };
        self.last_epoch = Some(last);
        Ok(last)
    }
}

/// Sends the leader the state, and then every change of it, until the leader's actor is gone.
pub(super) async fn watch(storage: Storage, subjects: Subjects, leader: Recipient<LeaderMessage>) {
    let mut jetstream = storage.jetstream().clone();
    jetstream.set_timeout(TIMEOUT);
    let storage = storage.over(jetstream);
    let (mut known, mut repeated) = (Known::default(), Repeated::default());
    loop {
        // Without the state no candidate campaigns, so the reason is logged.
        if let Err(error) = follow(&storage, &subjects, &leader, &mut known, &mut repeated).await
            && let Some(unsaid) = repeated.happened(Instant::now())
        {
            tracing::warn!(error, unsaid, "the state is not watched");
        }
        if !leader.connected() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the time at which a bucket was created, which distinguishes it from an earlier one of
/// the same name.
fn made(info: &stream::Info) -> i128 {
    info.created.unix_timestamp_nanos()
}

/// Restores the entries of the previous bucket, except those that were set anew.
async fn put_back(store: &Store, known: &Known) -> Result<(), String> {
    let mut entries = 0;
    for (key, value) in &known.entries {
        // A value that another candidate or an administrator set first is kept.
        let entry = store.entry(key).await.map_err(|error| error.to_string())?;
        if entry.is_none() {
            let put = store.update(key, value.clone(), 0).await;
            match put {
                Ok(_) => entries += 1,
                Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {}
                Err(error) => return Err(format!("{key} is not put back: {error}")),
            }
        }
    }
    tracing::warn!(entries, "the state's bucket was gone: it is put back");
    Ok(())
}

/// Follows the bucket until the watch breaks, or another bucket replaces it.
async fn follow(
    storage: &Storage,
    subjects: &Subjects,
    leader: &Recipient<LeaderMessage>,
    known: &mut Known,
    repeated: &mut Repeated,
) -> Result<(), String> {
    let store = storage.bucket(Stored::State).await?;
    let now = made(store.stream.cached_info());
    if known.made.is_some_and(|before| before != now) {
        put_back(&store, known).await?;
    }
    let mut state = StateSnapshot::default();
    state.placement.epoch = known.last_epoch(storage, subjects).await?;
    let mut entries = BTreeMap::new();
    let watch = store.watch_with_history(">").await;
    let mut watch = watch.map_err(|error| error.to_string())?;
    // Read again: the information from the opening predates the restored entries.
    let info = info_of(&store, now).await?;
    // In an empty bucket no entry would end the initial state.
    let mut complete = info.state.messages == 0;
    let mut look = tokio::time::interval(LOOK);
    loop {
        if complete {
            (known.made, known.entries) = (Some(now), entries.clone());
            if repeated.is_over() {
                tracing::info!("the state is watched again");
            }
            send_state(leader, &state).await?;
        }
        // A watch does not always notice that its bucket was deleted.
        let mut entry = loop {
            tokio::select! {
                entry = watch.next() => break entry,
                _ = look.tick() => drop(info_of(&store, now).await?),
            }
        };
        // Entries that changed together are sent together.
        let mut placed = false;
        loop {
            let this = entry.ok_or("the watch ended")?;
            let this = this.map_err(|error| error.to_string())?;
            let placement = this.key == PLACEMENT;
            if complete && placed && placement {
                // The previous leader's last entry is sent even if we have overwritten it since. It
                // alone tells which workers were to drain.
                send_state(leader, &state).await?;
            }
            placed |= placement;
            complete |= this.seen_current;
            take(&mut state, &this);
            match this.operation {
                Operation::Put => entries.insert(this.key, this.value),
                Operation::Delete | Operation::Purge => entries.remove(&this.key),
            };
            match tokio::time::timeout(LINGER, watch.next()).await {
                Ok(more) => entry = more,
                Err(_) => break,
            }
        }
    }
}

/// Returns the broker's information about the bucket created at `expected`.
async fn info_of(store: &Store, expected: i128) -> Result<stream::Info, String> {
    let info = store.stream.get_info().await;
    let info = info.map_err(|error| error.to_string())?;
    match made(&info) == expected {
        true => Ok(info),
        false => Err("another bucket is in its place".into()),
    }
}

async fn send_state(
    leader: &Recipient<LeaderMessage>,
    state: &StateSnapshot,
) -> Result<(), String> {
    let message = LeaderMessage::State(Box::new(state.clone()));
    leader
        .send(message)
        .await
        .map_err(|error| error.to_string())
}

/// Applies a change. An unreadable value changes nothing.
fn take(state: &mut StateSnapshot, entry: &Entry) {
    let put = entry.operation == Operation::Put;
    let key = entry.key.as_str();
    let read = match key {
        "settings" => {
            let read = set(&mut state.settings, entry);
            state.settings = std::mem::take(&mut state.settings).with_limits();
            read
        }
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

/// Sets a value from its entry; a deleted entry gives the default.
fn set<T: for<'a> Deserialize<'a> + Default>(value: &mut T, entry: &Entry) -> Result<(), String> {
    *value = match entry.operation {
        Operation::Put => {
            serde_json::from_slice(&entry.value).map_err(|error| error.to_string())?
        }
        Operation::Delete | Operation::Purge => T::default(),
    };
    Ok(())
}

/// Writes the leader's own entries: always the latest, never over one of a higher epoch.
pub(super) struct Writer {
    placement: watch::Sender<(Epoch, Vec<u8>)>,
    profile: watch::Sender<(Epoch, Vec<u8>)>,
}

impl Writer {
    /// Starts the writers; they end when the value is dropped.
    pub(super) fn start(jetstream: Context, subjects: &Subjects) -> Self {
        let storage = Storage::new(jetstream, subjects);
        let start = |key| {
            let (sender, latest) = watch::channel((0, Vec::new()));
            actix::spawn(write(storage.clone(), key, latest));
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

/// Writes each new latest value.
async fn write(storage: Storage, key: &'static str, mut latest: watch::Receiver<(Epoch, Vec<u8>)>) {
    while latest.changed().await.is_ok() {
        loop {
            let (epoch, value) = latest.borrow_and_update().clone();
            match write_once(&storage, key, epoch, value).await {
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
    storage: &Storage,
    key: &str,
    epoch: Epoch,
    value: Vec<u8>,
) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        epoch: Epoch,
    }
    let store = storage.bucket(Stored::State).await?;
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
