//! The state bucket: settings, tenants, profile, pin, placement; watched by every candidate, written
//! to by the leader.

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
use crate::storage::{Storage, Stored};

/// How long the bucket may take to answer while it is opened: of several servers, one may have to
/// be chosen first that answers for it, and who asks again soon knows soon.
const TIMEOUT: Duration = Duration::from_millis(1_500);
/// Before the watch or a write is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// The entry that leaders write of what they have decided.
const PLACEMENT: &str = "placement";
/// How long the watch waits for the rest of what changed together.
const LINGER: Duration = Duration::from_millis(5);
/// Between two looks whether the bucket is still the one that is watched.
const LOOK: Duration = Duration::from_secs(1);

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

/// What the bucket held when it was last read, should it have to be made anew.
#[derive(Default)]
struct Known {
    /// Which bucket: when it was made.
    made: Option<i128>,
    entries: BTreeMap<String, Bytes>,
    /// The record's last epoch.
    last_epoch: Option<Epoch>,
}

impl Known {
    /// The record's last epoch. Who never knew it may repeat it. Who did hears of those that lead, and
    /// finds the last of them in the bucket.
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

/// Sends the leader the state, and every change of it, for ever.
pub(super) async fn watch(storage: Storage, subjects: Subjects, leader: Recipient<LeaderMessage>) {
    let mut jetstream = storage.jetstream().clone();
    jetstream.set_timeout(TIMEOUT);
    let storage = storage.over(jetstream);
    let (mut known, mut repeated) = (Known::default(), Repeated::default());
    loop {
        // Without the state nobody campaigns: say why.
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

/// When a bucket was made: what tells it from one of the same name before it.
fn made(info: &stream::Info) -> i128 {
    info.created.unix_timestamp_nanos()
}

/// Puts back what the bucket held that was here before this one, unless it was set anew.
async fn put_back(store: &Store, known: &Known) -> Result<(), String> {
    let mut entries = 0;
    for (key, value) in &known.entries {
        // Whoever was faster, another candidate or an administrator, is right.
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

/// Follows the bucket until the watch breaks, or another is in its place.
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
    // As it is now: what was known when it was opened is from before anything was put back.
    let info = info_of(&store, now).await?;
    // Without a first entry nothing would say that there are none.
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
        // What changed together is sent together.
        let mut placed = false;
        loop {
            let this = entry.ok_or("the watch ended")?;
            let this = this.map_err(|error| error.to_string())?;
            let placement = this.key == PLACEMENT;
            if complete && placed && placement {
                // What the leader before us wrote last is sent even where we have written over it
                // since: workers it was to drain are in no other place.
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

/// What the broker says of the bucket that was made at `expected`.
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

/// Takes a change in. What cannot be read changes nothing.
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

/// Writes the latest value whenever there is one.
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
