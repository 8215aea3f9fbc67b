//! The leader's events and actions.

use std::sync::Arc;

use bus_schemas::subject::{Author, LeaderSubject};
use bus_schemas::{
    ClusterSettings, CostRun, Epoch, Failure, GpuId, Incarnation, LeaderId, OpNumber, SessionId,
    StoreStatus, Tenant, TenantSettings,
};
use serde::{Deserialize, Serialize};

use crate::input::Profile;
use crate::queue::{QueueOpening, QueueProgress};
use crate::time::Nanos;

/// The lease's value: KV entry `leader`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
}

/// The state that outlives a term beside settings and tenants: KV entry `placement`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The epoch that wrote it: a writer of a lower one gives way.
    pub epoch: Epoch,
    /// Number of times that it was written, by this epoch and the earlier epochs that it continues.
    /// A later read is not always newer: a store may have forgotten writes.
    #[serde(default)]
    pub version: u64,
    /// The highest ordinal of each tenant.
    pub ordinals: Vec<(Tenant, u64)>,
    /// Incarnations declared lost, the latest last.
    pub lost: Vec<Incarnation>,
    /// True if grants are held.
    pub held: bool,
    /// Workers that administrators drain: they get no new sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drained: Vec<Incarnation>,
    /// Workers that obeyed the leader and are not lost. The next leader hears each of them, or
    /// declares it lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Incarnation>,
    /// The devices of these workers, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<(Incarnation, GpuId)>,
    /// Sessions of clients with closed connections, and their ends in nanoseconds since 1970. A
    /// client that is heard keeps its sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing: Vec<(SessionId, Nanos)>,
    /// Workers that announced that they leave, and are not lost. If no leader sees them go, the
    /// next one misses none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<Incarnation>,
    /// Lost workers that are missed, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Missed>,
}

/// A lost worker that did not say that it leaves, of a device that no other worker serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuId>,
    /// Description of the device, for people; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Time at which it was declared lost, nanoseconds since 1970.
    pub at: Nanos,
}

impl Placement {
    /// The device of a worker, if it is known.
    pub(super) fn gpu(&self, worker: Incarnation) -> Option<GpuId> {
        let mut gpus = self.gpus.iter();
        let found = gpus.find(|(known, _)| *known == worker);
        found.map(|(_, gpu)| *gpu)
    }

    /// The workers on this worker's device that first obeyed a leader after this worker did.
    pub(super) fn later_starts(&self, worker: Incarnation) -> impl Iterator<Item = Incarnation> {
        let gpu = self.gpu(worker);
        let mut workers = self.workers.iter().copied();
        let known = gpu.is_some() && workers.any(|other| other == worker);
        workers.filter(move |other| known && self.gpu(*other) == gpu)
    }

    /// Remembers that a worker obeys a leader, the latest of at most `most`. Returns true if that
    /// is news.
    pub(super) fn remember(
        &mut self,
        worker: Incarnation,
        gpu: Option<GpuId>,
        most: usize,
    ) -> bool {
        let known = self.workers.contains(&worker);
        if !known {
            self.workers.push(worker);
            let surplus = self.workers.len().saturating_sub(most);
            let gone: Vec<_> = self.workers.drain(..surplus).collect();
            self.gpus.retain(|(worker, _)| !gone.contains(worker));
            self.leaving.retain(|worker| !gone.contains(worker));
        }
        let gpu = gpu.filter(|_| self.gpu(worker).is_none());
        self.gpus.extend(gpu.map(|gpu| (worker, gpu)));
        !known || gpu.is_some()
    }

    /// Removes a lost worker and remembers it among the lost, of which at most `most` are kept.
    pub(super) fn lose(&mut self, worker: Incarnation, most: usize) {
        self.workers.retain(|other| *other != worker);
        self.gpus.retain(|(other, _)| *other != worker);
        self.drained.retain(|other| *other != worker);
        self.leaving.retain(|other| *other != worker);
        self.lost.push(worker);
        let surplus = self.lost.len().saturating_sub(most);
        self.lost.drain(..surplus);
    }

    /// Returns true if it was written after another.
    pub(super) fn follows(&self, other: &Self) -> bool {
        (self.epoch, self.version) > (other.epoch, other.version)
    }
}

/// The state bucket as a candidate has read it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateSnapshot {
    /// Entry `settings`.
    pub settings: ClusterSettings,
    /// Entries `tenant.<name>`.
    pub tenants: Vec<(Tenant, TenantSettings)>,
    /// Entry `profile`: the newest one learned.
    pub profile: Profile,
    /// Entry `pin`: the profile that the order uses in place of measurements.
    pub pinned: Option<Profile>,
    /// Entry `placement`.
    pub placement: Placement,
}

impl StateSnapshot {
    /// The profile that the order uses.
    #[must_use]
    pub fn profile_in_force(&self) -> &Profile {
        self.pinned.as_ref().unwrap_or(&self.profile)
    }

    /// The settings that the order uses: with a pinned profile, no measurement counts.
    #[must_use]
    pub fn settings_in_force(&self) -> ClusterSettings {
        let learn = self.settings.learn && self.pinned.is_none();
        ClusterSettings {
            learn,
            settle: self.settings.settle && learn,
            ..self.settings.clone()
        }
    }
}

/// An event of the leader.
#[derive(Debug)]
pub enum Event<'a> {
    /// Our own connection to the bus is up (at first, or again).
    Connected,
    /// Our own connection is down.
    Disconnected,
    /// The broker reports that a connection was closed.
    ConnectionClosed {
        /// Its name, chosen by the program that made it.
        name: &'a str,
        /// The owner of its login.
        author: &'a Author,
    },
    /// The present lease: the answer to [`Action::ReadLease`], or unasked from a watch.
    LeaseRead {
        /// The value, if the entry exists.
        lease: Option<Lease>,
        /// The revision that a compare-and-set must name, also that of a deletion's marker; 0
        /// without an entry.
        revision: u64,
    },
    /// Our write of the lease was accepted.
    LeaseWritten {
        /// The new revision.
        revision: u64,
    },
    /// Our write was refused: the entry has another revision.
    LeaseConflict,
    /// The store did not answer a read or a write. The write may have succeeded.
    LeaseUnavailable,
    /// The state bucket was read. Needed once before a candidate campaigns; may come again.
    State(&'a StateSnapshot),
    /// An administrator changed the settings.
    Settings(&'a ClusterSettings),
    /// An administrator changed or removed a tenant.
    TenantSet(&'a Tenant, Option<&'a TenantSettings>),
    /// A message on a subject of ours, except intents, which go to a [`crate::KernelQueue`].
    Message {
        /// The subject.
        subject: &'a LeaderSubject,
        /// The reply subject.
        reply: Option<&'a str>,
        /// The message.
        bytes: &'a [u8],
    },
    /// A worker's answer to a seal, on our inbox.
    SealReply {
        /// The worker.
        incarnation: Incarnation,
        /// The message.
        bytes: &'a [u8],
    },
    /// The next ops of a session, without a gap, from its kernel queue.
    Intent {
        /// The session.
        session: SessionId,
        /// Number of the first op.
        first: OpNumber,
        /// Their costs.
        runs: Vec<CostRun>,
    },
    /// The stream acknowledged a block.
    Recorded {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
    },
    /// The streams and buckets in the broker and their fill levels, for status requests.
    Stores(Vec<StoreStatus>),
    /// Hand over and leave (SIGTERM).
    Leave,
    /// Time has passed: due at [`crate::Leader::next_wakeup`].
    Timer,
}

/// The reason why a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// Another leader holds the lease.
    Lease,
    /// A worker, or another leader's heartbeat, named a higher epoch or another leader of ours.
    Fenced {
        /// The epoch that it named.
        epoch: Epoch,
    },
    /// The record had a gap and can continue: a new term begins with a checkpoint.
    RecordGap,
    /// The epoch reached its maximum size or age: another of ours begins at once.
    Renewed,
    /// We were told to leave.
    Left,
}

/// An action that the leader requests. No action blocks: every answer is an [`Event`].
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Publish a message.
    Publish {
        /// The subject.
        subject: Arc<str>,
        /// The reply subject.
        reply: Option<Arc<str>>,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Read the lease; answered by `LeaseRead` or `LeaseUnavailable`.
    ReadLease,
    /// Write the lease if its revision is `expected`; answered by `LeaseWritten`,
    /// `LeaseConflict` or `LeaseUnavailable`. One at a time.
    WriteLease {
        /// The value.
        lease: Lease,
        /// The revision that it replaces, 0 for none.
        expected: u64,
    },
    /// Append a block to the record, in order, with message id `<epoch>.<number>`, until `Recorded`
    /// acknowledges it or the term ends. If the term ends by [`TermEnd::Renewed`], go on until it
    /// is acknowledged, before any block of a later epoch.
    Append {
        /// The epoch.
        epoch: Epoch,
        /// The block's number in it, from 1.
        number: u64,
        /// The block.
        bytes: Vec<u8>,
    },
    /// Keep the placement, unless a higher epoch wrote it.
    WritePlacement(Placement),
    /// Keep the profile, unless a higher epoch (named here) wrote it.
    WriteProfile {
        /// Our epoch.
        epoch: Epoch,
        /// The whole profile.
        profile: Profile,
    },
    /// A session needs a kernel queue.
    QueueOpen(QueueOpening),
    /// A message on the session's intent subject that came before the session had a queue.
    QueueIntent {
        /// The session.
        session: SessionId,
        /// The message.
        bytes: Vec<u8>,
    },
    /// Ops of a session were granted or are done.
    QueueProgress {
        /// The session.
        session: SessionId,
        /// Its progress.
        progress: QueueProgress,
    },
    /// A session has ended: its queue tells the client and goes.
    QueueEnd {
        /// The session.
        session: SessionId,
        /// The reason.
        failure: Failure,
    },
    /// We lead from now on.
    TermBegan {
        /// The epoch.
        epoch: Epoch,
    },
    /// We lead no more: all queues go.
    TermEnded {
        /// The epoch that ended.
        epoch: Epoch,
        /// The reason.
        why: TermEnd,
    },
    /// The leader has handed over: the process may end.
    Left,
}
