//! The leader as the session knows it, and the intents that it hears.

use bus_schemas::{Column, CostRun, Epoch, Intent, LeaderId, LeaderNotice, WIRE_VERSION};
use bus_schemas::{OpNumber, limits};

use crate::buffer::Buffers;
use crate::event::{Action, Nanos};
use crate::run::Runs;

/// Limits on gathering intents that are not urgent: the longest time, and the number of ops.
const GATHERED: Nanos = 1_000_000;
const GATHERED_OPS: u64 = 1_024;

/// The newest epoch's leader, its progress, and the intents on their way to it.
#[derive(Debug)]
pub(super) struct Leader {
    epoch: Epoch,
    id: LeaderId,
    queued: OpNumber,
    /// Ops known to be granted by a leader.
    granted: OpNumber,
    queue_through: OpNumber,
    /// The last op announced, in this epoch or an earlier one.
    announced: OpNumber,
    /// True if the leader allows intents to be gathered; below, the time since which some are.
    alone: bool,
    gathering: Option<Nanos>,
    runs: Runs,
    rows: Vec<u8>,
}

impl Leader {
    pub(super) fn new((epoch, id): (Epoch, LeaderId)) -> Self {
        Self {
            epoch,
            id,
            queued: 0,
            granted: 0,
            queue_through: limits::FIRST_OPS,
            announced: 0,
            alone: false,
            gathering: None,
            runs: Runs::new(),
            rows: Vec::new(),
        }
    }

    /// The newest epoch known, and its leader.
    pub(super) fn epoch(&self) -> (Epoch, LeaderId) {
        (self.epoch, self.id)
    }

    /// Ops with intents that the leader has, without a gap.
    pub(super) fn queued(&self) -> OpNumber {
        self.queued
    }

    /// Ops known to be granted.
    pub(super) fn granted(&self) -> OpNumber {
        self.granted
    }

    /// True if no other session waits for the device.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Takes the cost of the next op.
    #[inline]
    pub(super) fn push(&mut self, number: OpNumber, cost: CostRun) {
        self.runs.push(number, cost);
    }

    /// Begins a new epoch. A new leader knows the ops that its workers accepted, which include at
    /// least those done; all later ones are announced again.
    pub(super) fn begin_epoch(&mut self, (epoch, id): (Epoch, LeaderId), done: OpNumber) {
        (self.epoch, self.id) = (epoch, id);
        self.alone = false;
        self.queued = done;
        self.granted = done;
        self.queue_through = done + limits::FIRST_OPS;
        self.runs.seek(done + 1);
    }

    /// Takes the progress that this leader tells, with the last op pushed and the last one done.
    /// Returns true if it has more intents, or allows more.
    pub(super) fn hear(
        &mut self,
        notice: &LeaderNotice,
        (last, done): (OpNumber, OpNumber),
    ) -> bool {
        self.granted = self.granted.max(notice.granted);
        self.alone = notice.alone;
        let mut moved = false;
        let queued = notice.queued.min(last);
        if queued > self.queued {
            self.queued = queued;
            self.runs.seek(self.runs.next().max(queued + 1));
            self.forget(done);
            moved = true;
        }
        if notice.queue_through > self.queue_through {
            self.queue_through = notice.queue_through;
            moved = true;
        }
        moved
    }

    /// Forgets the costs of ops that are done and that the leader has: under a standing grant they
    /// may be done before it has them. The last one stays, because the client repeats it to ask for
    /// a leader's position.
    pub(super) fn forget(&mut self, done: OpNumber) {
        let both = done.min(self.queued);
        self.runs.forget(both.saturating_sub(1));
    }

    /// Forgets all costs: no intent follows.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    /// Announces the ops through this one as far as the leader allows, unless they may wait for
    /// more; those of a session that ends may not.
    pub(super) fn announce_new(
        &mut self,
        (now, through, open): (Nanos, OpNumber, bool),
        notes: &mut Buffers,
        actions: &mut Vec<Action>,
    ) {
        let through = through.min(self.queue_through);
        if !self.gathers(now, through, open) {
            self.announce(through, notes, actions);
        }
    }

    /// Repeats an op that the leader has: the answer is its position.
    pub(super) fn ask(&mut self, notes: &mut Buffers, actions: &mut Vec<Action>) {
        let op = self.queued.max(1);
        self.runs.seek(op);
        self.announce(op, notes, actions);
    }

    /// Goes back to the first intent that the leader may lack; returns false if it lacks none.
    pub(super) fn rewind(&mut self) -> bool {
        let lacks = self.announced > self.queued;
        if lacks {
            self.runs.seek(self.queued + 1);
        }
        lacks
    }

    /// The time at which gathered intents are announced.
    pub(super) fn gathered(&self) -> Option<Nanos> {
        self.gathering.map(|since| since.saturating_add(GATHERED))
    }

    /// Gathers no longer.
    pub(super) fn stop_gathering(&mut self) {
        self.gathering = None;
    }

    /// True if the intents that the leader lacks, through this op, may wait for more. The session
    /// is alone on its device then, so no other session waits for it.
    fn gathers(&mut self, now: Nanos, through: OpNumber, open: bool) -> bool {
        let new = through.saturating_sub(self.announced);
        let may = self.alone && open && self.runs.next() > self.announced;
        if !may || !(1..GATHERED_OPS).contains(&new) {
            self.gathering = None;
            return false;
        }
        let since = *self.gathering.get_or_insert(now);
        let gathers = now < since.saturating_add(GATHERED);
        self.gathering = self.gathering.filter(|_| gathers);
        gathers
    }

    /// Announces the ops through this one, from the first one that the leader must hear next.
    fn announce(&mut self, through: OpNumber, notes: &mut Buffers, actions: &mut Vec<Action>) {
        loop {
            // Repeated intents go alone: a message belongs to the request of its first op, and new
            // ops mostly belong to a later one.
            let through = match self.runs.next() <= self.announced {
                true => through.min(self.announced),
                false => through,
            };
            let rows = &mut self.rows;
            let Some((first, count)) = self.runs.announce(through, limits::BATCH_OPS, rows) else {
                break;
            };
            self.announced = self.announced.max(first + u64::from(count) - 1);
            let message = Intent {
                v: WIRE_VERSION,
                first,
                count,
                runs: Column::<CostRun>::new(&self.rows).unwrap_or_default(),
            };
            let bytes = notes.encode(&message, self.rows.len());
            actions.push(Action::PublishIntent { bytes });
        }
    }
}
