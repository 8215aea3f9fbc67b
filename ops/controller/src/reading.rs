//! Explanations from the whole record: the waits of each tenant and session, and the idle time of
//! each device. One read of the record serves all callers for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::Administrator;
use admin::why::{Account, DeviceDayRow, WaitSummary, Within, explain};
use bus_schemas::{SessionId, Tenant};
use scheduler_leader_core::replay::ReplayedPosition;
use tokio::sync::Mutex;

use crate::problem::{BUSY, Problem};

/// Minimum time for which an answer is cached. If the read took longer, that time applies, so that
/// the record is read for at most half of the time.
const FRESH: Duration = Duration::from_secs(3);
/// Maximum number of sessions kept, the newest ones. A request for an older session reads the
/// record again.
const SESSIONS: usize = 4_096;

/// The result of reading a record.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Waits by tenant.
    pub(crate) tenants: BTreeMap<Tenant, WaitSummary>,
    /// Waits by session.
    pub(crate) sessions: BTreeMap<SessionId, (Tenant, WaitSummary)>,
    /// Devices by day.
    pub(crate) days: Vec<DeviceDayRow>,
    /// Sessions up to this one may be missing, except for the requested one.
    dropped: Option<SessionId>,
    asked: Option<SessionId>,
}

impl Reading {
    /// Reads a stretch of time of the record; a requested session is included.
    ///
    /// # Errors
    /// Those of reading the record.
    pub(crate) async fn within(
        administrator: &Administrator,
        within: Within,
        asked: Option<SessionId>,
    ) -> Result<Arc<Self>, Problem> {
        Self::of(administrator, Some(within), asked).await
    }

    async fn of(
        administrator: &Administrator,
        within: Option<Within>,
        asked: Option<SessionId>,
    ) -> Result<Arc<Self>, Problem> {
        let mut accounts = Accounts {
            asked,
            most: SESSIONS,
            ..Accounts::default()
        };
        let days = explain(administrator, within, |row| accounts.take(&row)).await;
        let reading = days.map(|(days, ..)| Arc::new(accounts.finish(days)));
        reading.map_err(Problem::from)
    }

    /// True if it covers the requested session.
    fn tells(&self, asked: Option<SessionId>) -> bool {
        asked.is_none_or(|session| {
            self.sessions.contains_key(&session)
                || self.asked == asked
                || self.dropped.is_none_or(|dropped| session > dropped)
        })
    }
}

/// A read in progress.
#[derive(Debug, Default)]
struct Accounts {
    asked: Option<SessionId>,
    most: usize,
    tenants: BTreeMap<Tenant, Account>,
    sessions: BTreeMap<SessionId, (Tenant, Account)>,
    dropped: Option<SessionId>,
}

impl Accounts {
    fn take(&mut self, row: &ReplayedPosition) {
        let tenant = self.tenants.entry(row.tenant.clone()).or_default();
        tenant.add(row);
        let asked = self.asked == Some(row.session);
        if !asked && self.dropped.is_some_and(|dropped| row.session <= dropped) {
            return;
        }
        let account = self.sessions.entry(row.session);
        let (_, account) = account.or_insert_with(|| (row.tenant.clone(), Account::default()));
        account.add(row);
        if self.sessions.len() > self.most {
            let mut oldest = self.sessions.keys().filter(|id| self.asked != Some(**id));
            if let Some(oldest) = oldest.next().copied() {
                self.sessions.remove(&oldest);
                self.dropped = Some(oldest);
            }
        }
    }

    fn finish(self, days: Vec<DeviceDayRow>) -> Reading {
        let tenants = self.tenants.into_iter();
        let sessions = self.sessions.into_iter();
        Reading {
            tenants: tenants
                .map(|(tenant, account)| (tenant, account.summary()))
                .collect(),
            sessions: sessions
                .map(|(id, (tenant, account))| (id, (tenant, account.summary())))
                .collect(),
            days,
            dropped: self.dropped,
            asked: self.asked,
        }
    }
}

/// A result or its error, and the time until which it is cached.
type Known = (Instant, Result<Arc<Reading>, Problem>);

/// The newest result.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<Option<Known>>);

impl Readings {
    /// Returns the explanations of the record; a requested session is included, however old it is.
    ///
    /// # Errors
    /// `E-API-BUSY` while the record is replayed for other callers; the errors of reading it.
    pub(crate) async fn read<T>(
        &self,
        administrator: &Administrator,
        turn: impl AsyncFnOnce() -> Result<T, Problem>,
        asked: Option<SessionId>,
    ) -> Result<Arc<Reading>, Problem> {
        // Concurrent callers wait for the same answer, even if it is an error.
        let mut known = self.0.lock().await;
        if let Some((until, reading)) = known.as_ref()
            && Instant::now() < *until
            && reading.as_ref().map_or(true, |it| it.tells(asked))
        {
            return reading.clone();
        }
        let _turn = match turn().await {
            Ok(turn) => turn,
            Err(problem) => {
                // Exceeding the own limit concerns this login alone; a busy record concerns all
                // waiting callers.
                if problem.code() == BUSY {
                    *known = Some((Instant::now() + FRESH, Err(problem.clone())));
                }
                return Err(problem);
            }
        };
        let began = Instant::now();
        let reading = Reading::of(administrator, None, asked).await;
        let until = Instant::now() + began.elapsed().max(FRESH);
        *known = Some((until, reading.clone()));
        reading
    }
}

#[cfg(test)]
mod tests {
    use scheduler_leader_core::why::Timing;

    use super::*;
    use crate::position::tests::replayed;

    fn of(asked: Option<SessionId>, sessions: &[u64]) -> Reading {
        let mut accounts = Accounts {
            asked,
            most: 2,
            ..Accounts::default()
        };
        for session in sessions {
            accounts.take(&ReplayedPosition {
                session: SessionId(*session),
                timing: Some(Box::new(Timing::default())),
                ..replayed(1, 1, "chat")
            });
        }
        accounts.finish(Vec::new())
    }

    fn kept(reading: &Reading) -> Vec<(u64, u64)> {
        let sessions = reading.sessions.iter();
        sessions
            .map(|(id, (_, summary))| (id.0, summary.positions))
            .collect()
    }

    #[test]
    fn the_newest_sessions_are_kept_whole_and_an_older_one_when_it_is_asked_for() {
        let order = [1, 2, 3, 1, 2, 3, 3];
        let reading = of(None, &order);
        assert_eq!(kept(&reading), [(2, 2), (3, 3)]);
        assert!(reading.tells(Some(SessionId(2))) && reading.tells(Some(SessionId(9))));
        assert!(!reading.tells(Some(SessionId(1))), "it may have been there");
        let tenant: Tenant = "chat".parse().unwrap();
        assert_eq!(reading.tenants[&tenant].positions, 7);
        let asked = Some(SessionId(1));
        let reading = of(asked, &order);
        assert_eq!(kept(&reading), [(1, 2), (3, 3)]);
        assert!(reading.tells(asked));
        // A session that does not exist is not searched again.
        let none = of(Some(SessionId(0)), &order);
        assert_eq!(kept(&none), [(2, 2), (3, 3)]);
        assert!(none.tells(Some(SessionId(0))) && !none.tells(asked));
    }
}
