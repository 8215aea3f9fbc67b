//! One session's intents: deduplicated, trimmed, put in op order, within a credit.

use std::collections::BTreeMap;
use std::sync::Arc;

use bus_schemas::subject::{Subjects, ToClient};
use bus_schemas::{
    Code, CostRun, Epoch, Failure, Intent, LeaderId, LeaderNotice, OpNumber, Rejected, SessionId,
    Tenant, WIRE_VERSION, decode, encode,
};

use crate::time::Nanos;

/// Maximum number of ops that a session may have queued and not done.
const CREDIT: u64 = 65_536;
/// Maximum number of intents that are kept because an earlier one is missing.
const AHEAD: usize = 256;
/// Time that a notice waits for more to say; half of the time after which a client sends again.
const LINGER: Nanos = 2_000_000;
/// Delay before the first notice is repeated. It doubles with each of [`GREETINGS`] repetitions,
/// until the client is heard.
const GREETING: Nanos = 20_000_000;
const GREETINGS: u32 = 9;

/// The order's progress with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueProgress {
    /// Ops granted so far.
    pub granted: OpNumber,
    /// Ops done.
    pub done: OpNumber,
    /// True if the session is alone on its device, its ops run as they arrive, and its tenant has
    /// no watched target. Then its intents may come late.
    pub alone: bool,
}

/// The owner of a queue, and its first op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOpening {
    /// The session.
    pub session: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// The epoch that it is opened in.
    pub epoch: Epoch,
    /// Ops that need no intent any more: the queue's next op is the one after them.
    pub queued: OpNumber,
}

/// An event of a kernel queue.
#[derive(Debug)]
pub enum QueueEvent<'a> {
    /// A message on the session's intent subject.
    Message(&'a [u8]),
    /// From [`crate::Action::QueueProgress`].
    Progress(QueueProgress),
    /// From [`crate::Action::QueueEnd`].
    End(&'a Failure),
    /// Time has passed: due at [`KernelQueue::next_wakeup`]. Also sent once at the start.
    Timer,
}

/// An answer of a kernel queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueAction {
    /// The next ops without a gap, for [`crate::Event::Intent`].
    Ready {
        /// Number of the first op.
        first: OpNumber,
        /// Their costs.
        runs: Vec<CostRun>,
    },
    /// Publish a notice or an error to the client.
    Publish {
        /// The subject.
        subject: Arc<str>,
        /// The message.
        bytes: Vec<u8>,
    },
}

/// One session's intents in op order, and its credit.
#[derive(Debug)]
pub struct KernelQueue {
    tenant: Tenant,
    notices: Arc<str>,
    errors: Arc<str>,
    ahead: BTreeMap<OpNumber, (OpNumber, Vec<CostRun>)>,
    epoch: Epoch,
    leader: LeaderId,
    queued: OpNumber,
    // The fields from here on change with every grant and report, or are read by them.
    granted: OpNumber,
    done: OpNumber,
    /// The credit that the client was last told.
    notified: OpNumber,
    /// True if the client may gather its intents.
    alone: bool,
    notice_at: Option<Nanos>,
    /// Number of greetings sent; set to the maximum once the client was heard.
    greetings: u32,
}

impl KernelQueue {
    /// The queue that a leader opens. Its first notice is due at once.
    #[must_use]
    pub fn new(cluster: &Tenant, leader: LeaderId, opening: &QueueOpening) -> Self {
        let subjects = Subjects::new(cluster);
        let (tenant, session) = (&opening.tenant, opening.session);
        let (epoch, queued) = (opening.epoch, opening.queued);
        let to = |what| subjects.to_client(tenant, session, what).into();
        Self {
            tenant: tenant.clone(),
            notices: to(ToClient::Leader),
            errors: to(ToClient::Error),
            epoch,
            leader,
            queued,
            granted: queued,
            done: queued,
            notified: 0,
            ahead: BTreeMap::new(),
            alone: false,
            notice_at: Some(0),
            greetings: 0,
        }
    }

    /// The session's tenant.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Ops queued without a gap.
    #[must_use]
    pub fn queued(&self) -> OpNumber {
        self.queued
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Nanos, event: QueueEvent<'_>, actions: &mut Vec<QueueAction>) {
        match event {
            QueueEvent::Message(bytes) => self.message(now, bytes, actions),
            QueueEvent::Progress(progress) => {
                self.granted = progress.granted;
                self.done = self.done.max(progress.done);
                if std::mem::replace(&mut self.alone, progress.alone) && !progress.alone {
                    // Another session came; it must wait behind the ops that this one has ready.
                    self.due(now);
                }
                // A quarter of the credit is used up: the client should not have to wait for more.
                if self.through().saturating_sub(self.notified) >= CREDIT / 4 {
                    self.due(now);
                }
            }
            QueueEvent::End(failure) => self.notice(Some(failure.clone()), actions),
            QueueEvent::Timer => {}
        }
        if self.notice_at.is_some_and(|at| now >= at) {
            self.notice(None, actions);
            self.greet_again(now);
        }
    }

    /// Time at which it wants [`QueueEvent::Timer`].
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.notice_at
    }

    fn message(&mut self, now: Nanos, bytes: &[u8], actions: &mut Vec<QueueAction>) {
        self.greetings = GREETINGS;
        match decode::<Intent<'_>>(bytes) {
            Ok(intent) => match self.take(now, &intent, actions) {
                Ok(()) => {}
                Err(why) => self.error(Failure::new(Code::Protocol, why), actions),
            },
            Err(error) => self.error(error.into(), actions),
        }
    }

    fn take(
        &mut self,
        now: Nanos,
        intent: &Intent<'_>,
        actions: &mut Vec<QueueAction>,
    ) -> Result<(), &'static str> {
        let ops: u64 = intent.runs.iter().map(|run| u64::from(run.count)).sum();
        if ops == 0 || ops != u64::from(intent.count) {
            return Err("the intent's runs do not add up to its ops");
        }
        let last = intent.first.checked_add(ops - 1);
        let last = last.filter(|_| intent.first > 0);
        let last = last.ok_or("the intent's op numbers are out of range")?;
        if last <= self.queued || last > self.through() {
            // A duplicate, or beyond the credit: the client lacks our latest notice.
            self.due(now);
            return Ok(());
        }
        if intent.first > self.queued + 1 {
            if self.ahead.len() < AHEAD {
                let runs = intent.runs.iter().collect();
                self.ahead.insert(intent.first, (last, runs));
            }
            self.due(now.saturating_add(LINGER / 2));
            return Ok(());
        }
        let (first, mut runs) = (self.queued + 1, Vec::new());
        self.append(intent.first, last, intent.runs.iter(), &mut runs);
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= self.queued + 1
        {
            let (first, (last, more)) = entry.remove_entry();
            self.append(first, last, more.into_iter(), &mut runs);
        }
        actions.push(QueueAction::Ready { first, runs });
        self.due(now.saturating_add(LINGER));
        Ok(())
    }

    /// Queues the ops `first..=last` that are not queued already.
    fn append(
        &mut self,
        first: OpNumber,
        last: OpNumber,
        runs: impl Iterator<Item = CostRun>,
        out: &mut Vec<CostRun>,
    ) {
        let mut known = (self.queued + 1).saturating_sub(first);
        for mut run in runs {
            let skip = known.min(u64::from(run.count));
            known -= skip;
            run.count -= skip as u32;
            if run.count > 0 {
                out.push(run);
            }
        }
        self.queued = self.queued.max(last);
    }

    fn through(&self) -> OpNumber {
        self.done.saturating_add(CREDIT)
    }

    fn due(&mut self, at: Nanos) {
        self.notice_at = Some(self.notice_at.map_or(at, |before| before.min(at)));
    }

    fn greet_again(&mut self, now: Nanos) {
        if self.greetings < GREETINGS {
            self.due(now.saturating_add(GREETING << self.greetings));
            self.greetings += 1;
        }
    }

    fn notice(&mut self, ended: Option<Failure>, actions: &mut Vec<QueueAction>) {
        (self.notified, self.notice_at) = (self.through(), None);
        let notice = LeaderNotice {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            queued: self.queued,
            granted: self.granted,
            queue_through: self.notified,
            ended,
            alone: self.alone,
        };
        actions.push(QueueAction::Publish {
            subject: self.notices.clone(),
            bytes: encode(&notice),
        });
    }

    fn error(&self, failure: Failure, actions: &mut Vec<QueueAction>) {
        let rejected = Rejected {
            v: WIRE_VERSION,
            failure,
        };
        actions.push(QueueAction::Publish {
            subject: self.errors.clone(),
            bytes: encode(&rejected),
        });
    }
}
