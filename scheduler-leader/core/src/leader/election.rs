//! The election as one candidate sees it: the leader, and the candidate's lease operations.

use bus_schemas::{Epoch, LeaderBeat, LeaderId};

use super::config::LeaderConfig;
use super::event::{Action, Lease};
use super::lateness::Lateness;
use crate::time::Nanos;

/// The lease operation that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Read,
    Write(Lease),
}

/// The outcome of a lease operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No change of the role.
    None,
    /// A campaign was won.
    Won(Lease),
    /// Another candidate holds the lease.
    Lost,
}

/// One candidate's view.
#[derive(Debug)]
pub(super) struct Election {
    id: LeaderId,
    lease: Option<Lease>,
    revision: u64,
    /// True if `lease` and `revision` were read and not doubted since.
    read: bool,
    pending: Option<Pending>,
    retry_at: Nanos,
    /// The last known leader.
    leader: Option<Lease>,
    /// Time at which it was last heard.
    seen_at: Nanos,
    /// True if it is known to be dead or leaving, or if no leader exists.
    gone: bool,
    /// Set if its connection was closed, and it may have gone to another server. It is gone at `1`,
    /// unless it is heard from `0` on.
    moves: Option<(Nanos, Nanos)>,
    /// Silence after which the leader counts as dead.
    silence: Nanos,
    /// The highest epoch that any message named.
    highest: Epoch,
    renew_at: Nanos,
    /// Time at which the candidate first saw that no leader exists.
    noticed_at: Option<Nanos>,
}

impl Election {
    pub(super) fn new(id: LeaderId) -> Self {
        Self {
            id,
            lease: None,
            revision: 0,
            read: false,
            pending: None,
            retry_at: 0,
            leader: None,
            seen_at: 0,
            gone: false,
            moves: None,
            silence: Nanos::MAX,
            highest: 0,
            renew_at: 0,
            noticed_at: None,
        }
    }

    /// Notes that our connection is up: no leader counts as silent before now.
    pub(super) fn connected(&mut self, now: Nanos) {
        self.seen_at = now;
        self.moves = None;
        self.read = false;
        self.retry_at = now;
    }

    /// Adds a time in which we stood still and heard no leader.
    pub(super) fn stood_still(&mut self, by: Nanos) {
        self.seen_at = self.seen_at.saturating_add(by);
        self.moves = self
            .moves
            .map(|(from, gone)| (from.saturating_add(by), gone.saturating_add(by)));
    }

    /// Lateness of the leader's heartbeat that arrives now, if one arrived before.
    pub(super) fn late(&self, now: Nanos, beat: &LeaderBeat, every: Nanos) -> Option<Nanos> {
        let known = self
            .leader
            .is_some_and(|it| (it.epoch, it.leader) == (beat.epoch, beat.leader));
        known.then(|| now.saturating_sub(self.seen_at.saturating_add(every)))
    }

    /// Sets the silence after which a leader counts as dead.
    pub(super) fn bear(&mut self, silence: Nanos) {
        self.silence = silence;
    }

    /// Notes an epoch that a message named.
    pub(super) fn saw(&mut self, epoch: Epoch) {
        self.highest = self.highest.max(epoch);
    }

    /// Handles a heartbeat of another leader.
    pub(super) fn beat(&mut self, now: Nanos, beat: &LeaderBeat) {
        self.saw(beat.epoch);
        if self.leader.is_none_or(|leader| beat.epoch >= leader.epoch) {
            self.leader = Some(Lease {
                epoch: beat.epoch,
                leader: beat.leader,
            });
            self.seen_at = now;
            self.gone = beat.leaving;
            self.moves = self.moves.filter(|(from, _)| now < *from);
        }
    }

    /// Notes that a leader's connection was closed.
    pub(super) fn closed(
        &mut self,
        now: Nanos,
        id: LeaderId,
        config: &LeaderConfig,
        lateness: &Lateness,
    ) {
        let leader = self.leader.or(self.lease);
        if leader.is_none_or(|leader| leader.leader != id) {
            return;
        }
        match &config.cluster_of {
            None => self.gone = true,
            Some(servers) => {
                // At most the last of its heartbeats was still on its way.
                let from = now.saturating_add(config.beat);
                let (moves, most) = (servers.leader_moves, servers.leader_moves_most);
                let within = lateness.patience(now, moves, most);
                self.moves = Some((from, now.saturating_add(within)));
            }
        }
    }

    /// Ends our term: from now on another candidate leads, or a leader must be found.
    pub(super) fn dethroned(&mut self, now: Nanos) {
        self.leader = None;
        self.gone = false;
        self.moves = None;
        self.seen_at = now;
        self.read = false;
    }

    /// Notes that another term of ours follows ours at once.
    pub(super) fn succeed_self(&mut self) {
        self.gone = true;
    }

    /// Time at which the candidate first saw that no leader exists, if none exists.
    pub(super) fn noticed_at(&self) -> Option<Nanos> {
        self.noticed_at
    }

    /// Time at which the leader counts as dead, if it is not heard until then.
    fn silent_at(&self) -> Nanos {
        let silent = self.seen_at.saturating_add(self.silence);
        self.moves.map_or(silent, |(_, gone)| silent.min(gone))
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.gone || now >= self.silent_at()
    }

    /// As a candidate: reads the lease, or campaigns, if it is due.
    pub(super) fn campaign(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if !self.is_due(now) {
            self.noticed_at = None;
        } else if self.noticed_at.is_none() {
            self.noticed_at = Some(now);
        }
        if self.pending.is_some() || now < self.retry_at {
            return;
        }
        if !self.read {
            self.pending = Some(Pending::Read);
            actions.push(Action::ReadLease);
        } else if self.is_due(now) {
            let replaced = self.lease.map_or(0, |lease| lease.epoch);
            let lease = Lease {
                epoch: replaced.max(self.highest) + 1,
                leader: self.id,
            };
            self.write(lease, actions);
        }
    }

    /// As the leader: renews the lease, if it is due.
    pub(super) fn renew(&mut self, now: Nanos, ours: Lease, actions: &mut Vec<Action>) {
        if self.pending.is_some() || now < self.retry_at.max(self.renew_at) {
            return;
        }
        if self.read {
            self.write(ours, actions);
        } else {
            self.pending = Some(Pending::Read);
            actions.push(Action::ReadLease);
        }
    }

    /// As the leader: returns true if another leader led above us, and may have gone before we
    /// knew. This happens if we were cut off from the others and found the lease free again. They
    /// reject writes of our epoch as old.
    pub(super) fn is_passed(&self, ours: Lease) -> bool {
        self.highest > ours.epoch
    }

    /// As the leader: takes the lease for an epoch above ours, if no other operation is under way.
    pub(super) fn advance(&mut self, now: Nanos, ours: Lease, actions: &mut Vec<Action>) {
        if self.pending.is_none() && self.read && now >= self.retry_at {
            let epoch = ours.epoch.max(self.highest) + 1;
            self.write(Lease { epoch, ..ours }, actions);
        }
    }

    /// Time at which [`Self::campaign`] (as a candidate) or [`Self::renew`] (as the leader) is due.
    pub(super) fn next_wakeup(&self, leading: bool) -> Option<Nanos> {
        if self.pending.is_some() {
            return None;
        }
        let due = match (leading, self.read) {
            (true, _) => self.renew_at,
            (false, false) => 0,
            (false, true) if self.gone => 0,
            (false, true) => self.silent_at(),
        };
        Some(due.max(self.retry_at))
    }

    fn write(&mut self, lease: Lease, actions: &mut Vec<Action>) {
        self.pending = Some(Pending::Write(lease));
        actions.push(Action::WriteLease {
            lease,
            expected: self.revision,
        });
    }

    /// Handles a read lease, which we asked for or a watch brought. `ours` is our lease, if we
    /// lead.
    pub(super) fn was_read(
        &mut self,
        now: Nanos,
        lease: Option<Lease>,
        revision: u64,
        ours: Option<Lease>,
    ) -> Outcome {
        let asked = self.pending == Some(Pending::Read);
        if asked {
            self.pending = None;
        }
        if let Some(Pending::Write(_)) = self.pending {
            // Our write is under way: its answer says more than this read.
            return Outcome::None;
        }
        (self.lease, self.revision, self.read) = (lease, revision, true);
        if let Some(lease) = lease {
            self.saw(lease.epoch);
        }
        match ours {
            None => {
                self.judge(now, lease);
                Outcome::None
            }
            // Free, ours, or an old one that came back with a store that lost its tail.
            Some(ours) if lease.is_none_or(|lease| lease.epoch < ours.epoch || lease == ours) => {
                if lease != Some(ours) {
                    self.renew_at = now;
                }
                Outcome::None
            }
            Some(_) if asked => Outcome::Lost,
            Some(_) => {
                // The watch brought it and may be late: read the lease.
                (self.read, self.renew_at) = (false, now);
                Outcome::None
            }
        }
    }

    /// Updates the known leader from a lease that was read.
    fn judge(&mut self, now: Nanos, lease: Option<Lease>) {
        match lease {
            // A write of ours that lost its answer, or a past term of ours: campaign above it.
            Some(lease) if lease.leader == self.id => self.gone = true,
            Some(lease) if self.leader.is_none_or(|leader| lease.epoch > leader.epoch) => {
                self.leader = Some(lease);
                self.seen_at = now;
                self.gone = false;
                self.moves = None;
            }
            Some(_) => {}
            // No leader exists, unless one is heard.
            None => self.gone |= self.leader.is_none(),
        }
    }

    pub(super) fn written(&mut self, now: Nanos, revision: u64, config: &LeaderConfig) -> Outcome {
        let Some(Pending::Write(lease)) = self.pending.take() else {
            return Outcome::None;
        };
        (self.lease, self.revision, self.read) = (Some(lease), revision, true);
        self.saw(lease.epoch);
        self.renew_at = now.saturating_add(config.renew);
        Outcome::Won(lease)
    }

    /// Handles a lost write: another candidate wrote first, or our view was old. The lease is read
    /// again at once. The winner will be heard, or will be found silent.
    pub(super) fn conflict(&mut self, now: Nanos) {
        self.pending = None;
        self.read = false;
        self.renew_at = now;
    }

    pub(super) fn unavailable(&mut self, now: Nanos, config: &LeaderConfig) {
        self.pending = None;
        self.read = false;
        self.retry_at = now.saturating_add(config.lease_retry);
    }
}
