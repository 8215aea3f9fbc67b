//! Sessions: lists them, with the cause of each one's wait and its memory, and ends one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use bus_schemas::subject::Admin;
use bus_schemas::{
    CloseReason, CloseRequest, Failure, GpuId, Incarnation, MemoryStatus, SessionId, SessionStatus,
    SessionWait, Sessions, SessionsRequest, Tenant, WIRE_VERSION, decode, encode,
};
use futures_util::future::join_all;
use serde::{Serialize, Serializer};

use super::retries::Pauses;
use super::{ASK, Administrator};
use crate::errors::ErrorCode;
use crate::memory::{place, place_name};

/// Maximum number of pages of sessions.
const PAGES: usize = 4_096;

/// Filter of sessions; all sessions by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only those of this tenant.
    pub tenant: Option<Tenant>,
    /// Only those on this device.
    pub gpu: Option<GpuId>,
    /// Only those of this worker.
    pub worker: Option<Incarnation>,
}

/// One session, as its leader knows it. Its memory is added if its worker answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionRow {
    /// The session.
    #[serde(serialize_with = "as_text")]
    pub id: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// Its number among all that the tenant ever had, from 1.
    pub ordinal: u64,
    /// Its worker.
    #[serde(serialize_with = "as_text")]
    pub incarnation: Incarnation,
    /// The device of that worker.
    pub gpu: GpuId,
    /// Ops that are queued at the leader and not granted.
    pub queued: u64,
    /// Charged nanoseconds granted and not done.
    pub outstanding_ns: u64,
    /// The reason that its next work is not granted.
    #[serde(serialize_with = "as_wait")]
    pub waits_for: SessionWait,
    /// Bytes that it holds. This and all fields below are `None` if its worker does not report
    /// them.
    pub held: Option<u64>,
    /// The part of the last second in which one of its launches ran, in parts per million.
    pub busy_ppm: Option<u32>,
    /// Location of its memory: `resident`, `leaving`, `out` or `coming`.
    pub place: Option<&'static str>,
    /// True if its memory must stay on the device.
    pub pinned: Option<bool>,
    /// The client process, if reported.
    pub process: Option<SessionProcess>,
}

/// The client process of a session, as it reported itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionProcess {
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// Its program.
    pub name: String,
}

fn as_text<S: Serializer>(id: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

fn as_wait<S: Serializer>(wait: &SessionWait, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(wait.name())
}

impl SessionRow {
    /// Merges the leader's and the worker's reports.
    fn of(status: SessionStatus, said: Option<&MemoryStatus>) -> Self {
        let own = said.and_then(|said| {
            let mut sessions = said.sessions.iter();
            let own = sessions.find(|it| it.session == status.session)?;
            Some((own, place(said, own)))
        });
        let process = own.and_then(|(own, _)| own.process.as_ref());
        Self {
            id: status.session,
            tenant: status.tenant,
            ordinal: status.ordinal,
            incarnation: status.incarnation,
            gpu: status.gpu,
            queued: status.queued,
            outstanding_ns: status.outstanding_ns,
            waits_for: status.waits,
            held: own.map(|(own, _)| own.held),
            busy_ppm: own.map(|(own, _)| own.busy_ppm),
            place: own.map(|(_, (place, _))| place_name(place)),
            pinned: own.map(|(_, (_, pinned))| pinned),
            process: process.map(|process| SessionProcess {
                host: process.host.as_str().to_owned(),
                pid: process.pid,
                name: process.name.as_str().to_owned(),
            }),
        }
    }
}

impl Administrator {
    /// The open sessions, by id.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a leader.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>> {
        let (told, _) = self.told_sessions(filter, None).await?;
        Ok(self.with_memory(told).await)
    }

    /// One session, if it exists. A leader that has just taken over is asked until it knows all
    /// sessions.
    ///
    /// # Errors
    /// As [`Self::sessions`].
    pub async fn session(&self, id: SessionId) -> Result<Option<SessionRow>> {
        let told = self.told_session(id).await?;
        let told = told.into_iter().collect();
        Ok(self.with_memory(told).await.pop())
    }

    /// Ends a session of any tenant: its running work ends, its waiting work is dropped, and its
    /// program's next call fails. Returns once it has ended; false if it does not exist.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a leader; `E-SESSION-BUSY` if it has not ended within
    /// this administrator's patience.
    pub async fn end_session(&self, id: SessionId) -> Result<bool> {
        if self.told_session(id).await?.is_none() {
            return Ok(false);
        }
        let request = encode(&CloseRequest {
            v: WIRE_VERSION,
            session: id,
            after: 0,
            reason: CloseReason::Killed,
        });
        let subject = self.subjects.admin(Admin::Kill);
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            // The answer comes when the session has ended, unless it is lost.
            let answer = self.client.request(subject.clone(), request.clone().into());
            drop(tokio::time::timeout(ASK, answer).await);
            if self.told_session(id).await?.is_none() {
                return Ok(true);
            }
            if asked.elapsed() > self.patience {
                bail!(ErrorCode::SessionBusy.failed(format!(
                    "session {id} is to end, and has not after {:?}: what of it runs \
                     on its worker goes on to its end, or all grants are held",
                    self.patience
                )));
            }
            pauses.pause().await;
        }
    }

    /// The leader's report on one session.
    async fn told_session(&self, id: SessionId) -> Result<Option<SessionStatus>> {
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let all = SessionFilter::default();
            let (mut told, partial) = self.told_sessions(&all, Some(id)).await?;
            if !told.is_empty() || !partial || asked.elapsed() > self.patience {
                return Ok(told.pop());
            }
            pauses.pause().await;
        }
    }

    /// The leader's next page of sessions after this one; the first page if `None`. The leader is
    /// asked only once.
    ///
    /// # Errors
    /// As [`Self::sessions`].
    pub(crate) async fn sessions_behind(
        &self,
        behind: Option<SessionId>,
    ) -> Result<Vec<SessionStatus>> {
        let all = SessionFilter::default();
        Ok(self.told_page(&all, None, behind).await?.sessions)
    }

    /// One page of the leader's list of sessions.
    async fn told_page(
        &self,
        filter: &SessionFilter,
        session: Option<SessionId>,
        after: Option<SessionId>,
    ) -> Result<Sessions> {
        let request = encode(&SessionsRequest {
            v: WIRE_VERSION,
            after,
            session,
            tenant: filter.tenant.clone(),
            gpu: filter.gpu,
        });
        let answer = self.ask(Admin::Sessions, request, self.patience).await?;
        decode(&answer).map_err(|error| anyhow!(Failure::from(error)))
    }

    /// The leader's list of sessions, and true if the leader may not know all of them yet.
    pub(super) async fn told_sessions(
        &self,
        filter: &SessionFilter,
        session: Option<SessionId>,
    ) -> Result<(Vec<SessionStatus>, bool)> {
        let (mut all, mut partial) = (Vec::<SessionStatus>::new(), false);
        for _ in 0..PAGES {
            let after = all.last().map(|row| row.session);
            let page = self.told_page(filter, session, after).await?;
            partial |= page.partial;
            let is_last = !page.more || page.sessions.is_empty();
            all.extend(page.sessions);
            if is_last {
                break;
            }
        }
        all.retain(|row| filter.worker.is_none_or(|of| of == row.incarnation));
        Ok((all, partial))
    }

    /// Adds the workers' reports on memory.
    async fn with_memory(&self, told: Vec<SessionStatus>) -> Vec<SessionRow> {
        let workers: BTreeSet<Incarnation> = told.iter().map(|row| row.incarnation).collect();
        let asked = workers.into_iter();
        let asked = asked.map(async |worker| (worker, self.memory_of(worker).await));
        let said: BTreeMap<_, _> = join_all(asked).await.into_iter().collect();
        let row = |status: SessionStatus| {
            let said = said.get(&status.incarnation).and_then(Option::as_ref);
            SessionRow::of(status, said)
        };
        told.into_iter().map(row).collect()
    }
}
