//! The election: who leads, as one candidate knows it, and what that candidate does about the lease.

use bus_schemas::{Epoch, LeaderBeat, LeaderId};

use super::config::Config;
use super::event::{Action, Lease};
use super::lateness::Lateness;
use crate::time::Nanos;

/// The lease operation that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Read,
    Write(Lease),
}

/// What became of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing that concerns the role.
    None,
    /// A campaign was won.
    Won(Lease),
    /// The lease is somebody else's.
    Lost,
}

/// One candidate's view.
#[derive(Debug)]
pub(super) struct Election {
    id: LeaderId,
    lease: Option<Lease>,
    revision: u64,
    /// `lease` and `revision` were read and not doubted since.
    read: bool,
    pending: Option<Pending>,
    retry_at: Nanos,
    /// The leader as last heard of.
    leader: Option<Lease>,
    /// When it was last heard.
    seen_at: Nanos,
    /// It is known to be dead or leaving, or there is none.
    gone: bool,
    /// Its connection was closed, and it may have gone to another server: it is gone then, unless
    /// it is heard from `0` on.
    moves: Option<(Nanos, Nanos)>,
    /// A leader that is silent for so long is taken for dead.
    silence: Nanos,
    /// The highest epoch anybody named.
    highest: Epoch,
    renew_at: Nanos,
    /// Since when it is known that somebody has to lead.
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

    /// Our connection is up: nobody is silent before now.
    pub(super) fn connected(&mut self, now: Nanos) {
        self.seen_at = now;
        self.moves = None;
        self.read = false;
        self.retry_at = now;
    }

    /// We stood still for so long, and heard no leader.
    pub(super) fn stood_still(&mut self, by: Nanos) {
        self.seen_at = self.seen_at.saturating_add(by);
        self.moves = self
            .moves
            .map(|(from, gone)| (from.saturating_add(by), gone.saturating_add(by)));
    }

    /// How late the leader's heartbeat is that comes now, if one came before.
    pub(super) fn late(&self, now: Nanos, beat: &LeaderBeat, every: Nanos) -> Option<Nanos> {
        let known = self
            .leader
            .is_some_and(|it| (it.epoch, it.leader) == (beat.epoch, beat.leader));
        known.then(|| now.saturating_sub(self.seen_at.saturating_add(every)))
    }

    /// How long a leader may be silent.
    pub(super) fn bear(&mut self, silence: Nanos) {
        self.silence = silence;
    }

    /// Somebody named an epoch.
    pub(super) fn saw(&mut self, epoch: Epoch) {
        self.highest = self.highest.max(epoch);
    }

    /// A heartbeat of another leader.
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

    /// A leader's connection was closed.
    pub(super) fn closed(
        &mut self,
        now: Nanos,
        id: LeaderId,
        config: &Config,
        lateness: &Lateness,
    ) {
        let leader = self.leader.or(self.lease);
        if leader.is_none_or(|leader| leader.leader != id) {
            return;
        }
        match &config.cluster_of {
            None => self.gone = true,
            Some(servers) => {
                // Of its heartbeats at most the last was on its way.
                let from = now.saturating_add(config.beat);
                let (moves, most) = (servers.leader_moves, servers.leader_moves_most);
                let within = lateness.patience(now, moves, most);
                self.moves = Some((from, now.saturating_add(within)));
            }
        }
    }

    /// Our term over: from now on somebody else leads, or has to be found.
    pub(super) fn dethroned(&mut self, now: Nanos) {
        self.leader = None;
        self.gone = false;
        self.moves = None;
        self.seen_at = now;
        self.read = false;
    }

    /// Our term is to be followed by another of ours at once.
    pub(super) fn succeed_self(&mut self) {
        self.gone = true;
    }

    /// Since when it is known that somebody has to lead, if somebody has.
    pub(super) fn noticed_at(&self) -> Option<Nanos> {
        self.noticed_at
    }

    /// When the leader is taken for dead, if nothing is heard of it until then.
    fn silent_at(&self) -> Nanos {
        let silent = self.seen_at.saturating_add(self.silence);
        self.moves.map_or(silent, |(_, gone)| silent.min(gone))
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.gone || now >= self.silent_at()
    }

    /// As a candidate: reads the lease, or campaigns, if it is time.
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

    /// As the leader: renews the lease, if it is time.
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

    /// As the leader: whether somebody led above us, and may have gone before we knew: cut off from
    /// the others, we found the lease free again. What is written in our epoch is old to them.
    pub(super) fn is_passed(&self, ours: Lease) -> bool {
        self.highest > ours.epoch
    }

    /// As the leader: takes the lease for an epoch behind ours, if nothing else is under way.
    pub(super) fn advance(&mut self, now: Nanos, ours: Lease, actions: &mut Vec<Action>) {
        if self.pending.is_none() && self.read && now >= self.retry_at {
            let epoch = ours.epoch.max(self.highest) + 1;
            self.write(Lease { epoch, ..ours }, actions);
        }
    }

    /// When [`Self::campaign`] (as a candidate) or [`Self::renew`] (as the leader) is due.
    pub(super) fn deadline(&self, leading: bool) -> Option<Nanos> {
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

    /// The lease was read, because we asked or by a watch. `ours` is what we hold, if we lead.
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
            // Our write is under way: its answer says more than this.
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
            // Nobody's, ours, or an old one come back with a store that lost its tail.
            Some(ours) if lease.is_none_or(|lease| lease.epoch < ours.epoch || lease == ours) => {
                if lease != Some(ours) {
                    self.renew_at = now;
                }
                Outcome::None
            }
            Some(_) if asked => Outcome::Lost,
            Some(_) => {
                // Seen by the watch, which may be late: ask.
                (self.read, self.renew_at) = (false, now);
                Outcome::None
            }
        }
    }

    /// What a lease that was read says of who leads.
    fn judge(&mut self, now: Nanos, lease: Option<Lease>) {
        match lease {
            // A write of ours whose answer was lost, or a term of ours that ended: above it.
            Some(lease) if lease.leader == self.id => self.gone = true,
            Some(lease) if self.leader.is_none_or(|leader| lease.epoch > leader.epoch) => {
                self.leader = Some(lease);
                self.seen_at = now;
                self.gone = false;
                self.moves = None;
            }
            Some(_) => {}
            // There is no leader at all, unless one is heard.
            None => self.gone |= self.leader.is_none(),
        }
    }

    pub(super) fn written(&mut self, now: Nanos, revision: u64, config: &Config) -> Outcome {
        let Some(Pending::Write(lease)) = self.pending.take() else {
            return Outcome::None;
        };
        (self.lease, self.revision, self.read) = (Some(lease), revision, true);
        self.saw(lease.epoch);
        self.renew_at = now.saturating_add(config.renew);
        Outcome::Won(lease)
    }

    /// Somebody else wrote first, or our view was old: read again at once. Whoever won will be
    /// heard, or will be found silent.
    pub(super) fn conflict(&mut self, now: Nanos) {
        self.pending = None;
        self.read = false;
        self.renew_at = now;
    }

    pub(super) fn unavailable(&mut self, now: Nanos, config: &Config) {
        self.pending = None;
        self.read = false;
        self.retry_at = now.saturating_add(config.lease_retry);
    }
}
