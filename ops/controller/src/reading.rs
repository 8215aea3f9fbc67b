//! What the whole record explains: of each tenant and session what it waited for, of each device what kept it
//! idle. The record is read once for all who ask within a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{SessionId, Tenant};
use scheduler_leader_core::replay::ReplayedPosition;
use tokio::sync::Mutex;
use warploom_cli::admin::Administrator;
use warploom_cli::why::{Account, DeviceDayRow, WaitSummary, explain};

use crate::problem::{BUSY, Problem};

/// How old an answer may be; or as old as it took to read it, where that is longer: the record is not read
/// more than half of the time.
const FRESH: Duration = Duration::from_secs(3);
/// Sessions that are kept, the newest: an older one is read for when it is asked for.
const SESSIONS: usize = 4_096;

/// What a record was read to.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// By tenant.
    pub(crate) tenants: BTreeMap<Tenant, WaitSummary>,
    /// By session.
    pub(crate) sessions: BTreeMap<SessionId, (Tenant, WaitSummary)>,
    /// Devices by day.
    pub(crate) days: Vec<DeviceDayRow>,
    /// Sessions up to this one may be missing, but for the one that was asked for.
    dropped: Option<SessionId>,
    asked: Option<SessionId>,
}

impl Reading {
    /// Whether it tells all there is of what is asked for.
    fn tells(&self, asked: Option<SessionId>) -> bool {
        asked.is_none_or(|session| {
            self.sessions.contains_key(&session)
                || self.asked == asked
                || self.dropped.is_none_or(|dropped| session > dropped)
        })
    }
}

/// A reading under way.
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

/// A reading, or why there is none, and until when it may be told.
type Known = (Instant, Result<Arc<Reading>, Problem>);

/// The newest reading.
#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<Option<Known>>);

impl Readings {
    /// What the record explains; with a session that is asked for, of that too, however old it is.
    ///
    /// # Errors
    /// `E-API-BUSY` while the record is replayed for somebody else; as reading it.
    pub(crate) async fn read<T>(
        &self,
        administrator: &Administrator,
        turn: impl AsyncFnOnce() -> Result<T, Problem>,
        asked: Option<SessionId>,
    ) -> Result<Arc<Reading>, Problem> {
        // Who comes while it is read waits for the same answer, also where that is that nobody answers.
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
                // Of the login alone where it has its share; else all that wait hear the same.
                if problem.code() == BUSY {
                    *known = Some((Instant::now() + FRESH, Err(problem.clone())));
                }
                return Err(problem);
            }
        };
        let began = Instant::now();
        let mut accounts = Accounts {
            asked,
            most: SESSIONS,
            ..Accounts::default()
        };
        let days = explain(administrator, |row| accounts.take(&row)).await;
        let reading = days.map(|days| Arc::new(accounts.finish(days)));
        let reading = reading.map_err(Problem::from);
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
        // What is not there at all is not looked for again.
        let none = of(Some(SessionId(0)), &order);
        assert_eq!(kept(&none), [(2, 2), (3, 3)]);
        assert!(none.tells(Some(SessionId(0))) && !none.tells(asked));
    }
}
