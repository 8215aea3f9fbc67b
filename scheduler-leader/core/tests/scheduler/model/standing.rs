//! A worker's standing grants: ops run as they come, until the next grant closes them.

use bus_schemas::{CostRun, DoneReport, Grant, GrantKind, Incarnation, Outcome, SessionId, fold};

use super::{Model, cost};

/// Maximum number of ops of a part.
const PART: u64 = 7;

impl Model {
    /// Returns true if a session's standing grant is open, or not accounted yet.
    pub(crate) fn stands(&self, id: SessionId) -> bool {
        self.scheduler.stands_for(id)
    }

    /// The worker holds a standing grant open, and reports that.
    pub(super) fn stand(&mut self, incarnation: Incarnation, position: u64, grant: &Grant) {
        let own = self.priority(grant.session);
        assert!(!self.is_suspended(grant.session), "it runs as it comes");
        let others = self.sessions.iter().filter(|(id, session)| {
            **id != grant.session && session.worker == incarnation && !session.closed
        });
        for (id, _) in others {
            assert!(own < self.priority(*id), "another is as urgent");
            assert_eq!(self.settings.floors, [0; 5], "others have their turns");
        }
        assert!(self.settings.standing);
        let mut grant = *grant;
        let session = self.sessions.get_mut(&grant.session).unwrap();
        if grant.first == 0 {
            assert!(session.stood > 0, "there is one to go on from");
            grant.first = session.started + 1;
        } else {
            assert_eq!(session.done + 1, grant.first, "nothing of it is under way");
            (session.started, session.stood) = (session.done, grant.first);
        }
        let worker = self.workers.get_mut(&incarnation).unwrap();
        worker.open = true;
        worker.queue.push_back((position, grant));
        self.tell(incarnation, position, Outcome::Part, 0);
    }

    /// Closes the standing grant, as any next grant does.
    pub(super) fn close_standing(&mut self, incarnation: Incarnation) {
        let worker = self.workers.get_mut(&incarnation).unwrap();
        if !std::mem::take(&mut worker.open) {
            return;
        }
        let (position, grant) = worker.queue.back_mut().unwrap();
        let (position, session) = (*position, grant.session);
        let session = self.sessions.get_mut(&session).unwrap();
        // If no op ran, a slice in progress goes on.
        if session.started >= session.stood {
            session.base = session.started;
        }
        grant.last = session.started;
        let grant = *grant;
        self.enter(incarnation, position, &grant);
        self.tell(incarnation, position, Outcome::Closed, 0);
    }

    /// Advances the standing grant that is next: its position ends, or an op of it begins or ends.
    /// `None` if there is nothing to do.
    pub(super) fn go_on(&mut self, incarnation: Incarnation) -> Option<bool> {
        let worker = &self.workers[&incarnation];
        let (position, grant) = *worker.queue.front()?;
        let open = worker.open && worker.queue.len() == 1;
        let session = self.sessions.get_mut(&grant.session).unwrap();
        if session.started > session.done {
            let ops = &session.ops[session.done as usize..session.started as usize];
            let part = Grant {
                kind: GrantKind::Run,
                first: session.done + 1,
                last: session.started,
                cost: ops.iter().map(cost).sum(),
                ..grant
            };
            session.done = session.started;
            let measured = (self.measure)(&part);
            self.tell(incarnation, position, Outcome::Part, measured);
            return Some(true);
        }
        if open {
            let last = session.received.min(session.done + PART);
            let some = last > session.started;
            session.started = last.max(session.started);
            return some.then_some(true);
        }
        Some(false)
    }

    fn tell(&mut self, incarnation: Incarnation, position: u64, outcome: Outcome, measured: u64) {
        let worker = self.workers.get_mut(&incarnation).unwrap();
        let grant = worker.queue.iter().find(|(at, _)| *at == position);
        let (_, grant) = grant.unwrap();
        let session = &self.sessions[&grant.session];
        let (measured, received, declared) = match outcome {
            Outcome::Closed => (grant.first, grant.last, 0),
            _ => {
                let ops = &session.ops[session.stood as usize - 1..session.done as usize];
                let declared = ops.iter().map(CostRun::declared);
                let declared = fold(declared.fold(0, u64::wrapping_add));
                (measured, session.done, declared)
            }
        };
        worker.told.push(DoneReport {
            position,
            session: grant.session,
            measured,
            received,
            outcome,
            declared,
        });
    }
}
