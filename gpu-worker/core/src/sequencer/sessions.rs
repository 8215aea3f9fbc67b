//! The sessions that are not forgotten, and which of them leaders are told of.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Grant, GrantKind, OpNumber, Received, SessionFault, SessionId, Tenant};

use super::session::{Doubt, Session};

/// The sessions of a worker.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Box<Session>>,
    /// The highest ordinal of each tenant's sessions, forgotten ones too.
    ordinals: BTreeMap<Tenant, u64>,
    /// Failed sessions for which no close grant is accepted.
    faulted: BTreeSet<SessionId>,
    /// Sessions with a void that leaders may not have learnt of.
    doubted: BTreeSet<SessionId>,
}

impl Sessions {
    /// Adds a session.
    pub(super) fn open(&mut self, session: Session) {
        let highest = self.ordinals.entry(session.tenant.clone()).or_default();
        *highest = session.ordinal.max(*highest);
        self.all.insert(session.id, Box::new(session));
    }

    /// Removes a session. Its tenant keeps the ordinal.
    pub(super) fn forget(&mut self, session: SessionId) -> Option<Box<Session>> {
        self.all.remove(&session)
    }

    pub(super) fn get(&self, session: SessionId) -> Option<&Session> {
        self.all.get(&session).map(|session| &**session)
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.all.get_mut(&session).map(|session| &mut **session)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.all.values().map(|session| &**session)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.all.values_mut().map(|session| &mut **session)
    }

    /// The highest ordinal of each tenant.
    pub(super) fn ordinals(&self) -> Vec<(Tenant, u64)> {
        let ordinals = self.ordinals.iter();
        ordinals.map(|(tenant, it)| (tenant.clone(), *it)).collect()
    }

    /// Notes that a session has failed.
    pub(super) fn fail(&mut self, session: SessionId) {
        self.faulted.insert(session);
    }

    /// Notes an accepted grant of a session: a close grant ends its fault, and a grant above what it has received
    /// its doubt.
    pub(super) fn accept(&mut self, grant: &Grant) -> Option<&Session> {
        let session = self.all.get_mut(&grant.session)?;
        if grant.kind == GrantKind::Close {
            session.closing = true;
            self.faulted.remove(&grant.session);
        }
        let standing = grant.kind == GrantKind::Standing;
        let lifted = session.doubt.as_mut().is_some_and(|doubt| {
            doubt.granted = doubt.granted.max(grant.last);
            grant.last > session.received || standing
        });
        if lifted {
            session.doubt = None;
            self.doubted.remove(&grant.session);
        }
        Some(session)
    }

    /// True if a failed session is not to be closed yet.
    pub(super) fn any_faulted(&self) -> bool {
        !self.faulted.is_empty()
    }

    /// The faults of failed sessions.
    pub(super) fn faults(&self) -> impl Iterator<Item = SessionFault> {
        let failed = self.faulted.iter().filter_map(|id| self.get(*id));
        failed.filter_map(Session::fault)
    }

    /// Notes a void of a session, of which ops up to `granted` are granted.
    pub(super) fn doubt(&mut self, session: SessionId, granted: OpNumber) {
        let Some(entry) = self.all.get_mut(&session) else {
            return;
        };
        match &mut entry.doubt {
            Some(doubt) => doubt.granted = doubt.granted.min(granted),
            None => entry.doubt = Some(Doubt { granted }),
        }
        self.doubted.insert(session);
    }

    /// Leaves a session out of those that leaders are told of.
    pub(super) fn end_doubt(&mut self, session: SessionId) {
        self.doubted.remove(&session);
    }

    /// Ends all doubts: a new leader believes clients until it learns of a void.
    pub(super) fn trust(&mut self) {
        for session in std::mem::take(&mut self.doubted) {
            if let Some(entry) = self.all.get_mut(&session) {
                entry.doubt = None;
            }
        }
    }

    /// True if a doubted session has received more than it was granted.
    pub(super) fn any_ungranted(&self) -> bool {
        let mut doubted = self.doubted.iter().filter_map(|id| self.get(*id));
        doubted.any(|entry| entry.doubt.is_some_and(|it| entry.received > it.granted))
    }

    /// Numbers of the last ops that doubted sessions have received.
    pub(super) fn received(&self) -> Vec<Received> {
        let doubted = self.doubted.iter().filter_map(|id| self.get(*id));
        let received = doubted.map(|entry| Received {
            session: entry.id,
            received: entry.received,
        });
        received.collect()
    }
}
