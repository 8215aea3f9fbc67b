//! Requests that programs did not report because they had too many. Each report tells the number of its session so far.

use std::collections::HashMap;

use bus_schemas::{RequestReports, SessionId, Tenant};

/// Maximum number of sessions that are known; beyond it the half that reported least recently is forgotten.
const SESSIONS: usize = 16_384;
/// Maximum number of requests of a session that count: a tenant may tell any number.
const MOST: u64 = (1 << 32) - 1;

/// The number of a session.
#[derive(Debug, Clone, Copy)]
struct Told {
    dropped: u64,
    /// Number of the report that told it.
    report: u64,
}

/// The numbers of all sessions. A tenant that reports for a session of another one has a number of its own there.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    sessions: HashMap<(Tenant, SessionId), Told>,
    reports: u64,
}

impl Drops {
    /// Notes a report. Returns how many requests its program dropped since the last one of the session. The first
    /// report of a session counts none if another tracer may have counted them: the session began earlier, or the
    /// report is not new.
    pub(crate) fn told(&mut self, tenant: &Tenant, reports: &RequestReports, is_new: bool) -> u64 {
        self.reports += 1;
        let told = Told {
            dropped: reports.dropped.min(MOST),
            report: self.reports,
        };
        let key = (tenant.clone(), reports.session);
        if let Some(known) = self.sessions.get_mut(&key) {
            let more = told.dropped.saturating_sub(known.dropped);
            // A report that comes again tells an earlier number.
            known.dropped += more;
            known.report = told.report;
            return more;
        }
        if self.sessions.len() >= SESSIONS {
            self.shrink();
        }
        self.sessions.insert(key, told);
        let is_first = reports.rows.iter().any(|row| row.first == 1);
        match is_first && is_new {
            true => told.dropped,
            false => 0,
        }
    }

    #[cold]
    fn shrink(&mut self) {
        let mut ages: Vec<_> = self.sessions.values().map(|it| it.report).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(0);
        self.sessions.retain(|_, it| it.report >= middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::tests::request;

    fn reports(session: u64, first: u64, dropped: u64) -> RequestReports {
        RequestReports {
            v: 1,
            session: SessionId(session),
            process: None,
            dropped,
            rows: vec![request("chat", session, (first, first + 3)).report],
            runs: Vec::new(),
            loads: Vec::new(),
            failure: String::new(),
            errors: Vec::new(),
            words: String::new(),
        }
    }

    #[test]
    fn a_session_counts_what_its_program_dropped_since_the_last_report() {
        let (mut drops, chat) = (Drops::default(), "chat".parse().expect("a name"));
        let told = [(1, 3), (5, 3), (9, 10), (5, 3), (13, 11)];
        let told =
            told.map(|(first, dropped)| drops.told(&chat, &reports(1, first, dropped), true));
        assert_eq!(told, [3, 0, 7, 0, 1], "a report may come again");
        // A session that began before this tracer did.
        let told = [(5, 100), (9, 102)];
        let told =
            told.map(|(first, dropped)| drops.told(&chat, &reports(2, first, dropped), true));
        assert_eq!(told, [0, 2]);
        // Another tracer may have had its first report.
        assert_eq!(drops.told(&chat, &reports(3, 1, 100), false), 0);
        assert_eq!(drops.told(&chat, &reports(3, 5, 101), true), 1);
        let other = "other".parse().expect("a name");
        assert_eq!(drops.told(&other, &reports(1, 1, 1_000), true), 1_000);
        assert_eq!(
            drops.told(&chat, &reports(1, 17, 12), true),
            1,
            "another's are no matter"
        );
    }

    #[test]
    fn any_number_and_any_sessions_are_bounded() {
        let (mut drops, chat) = (Drops::default(), "chat".parse().expect("a name"));
        for _ in 0..3 {
            drops.told(&chat, &reports(0, 1, u64::MAX), true);
        }
        assert_eq!(drops.told(&chat, &reports(0, 1, u64::MAX), true), 0);
        assert_eq!(drops.told(&chat, &reports(1, 1, u64::MAX), true), MOST);
        for session in 2..=SESSIONS as u64 {
            drops.told(&chat, &reports(session, 1, 0), true);
        }
        assert_eq!(drops.sessions.len(), SESSIONS / 2 + 1);
        let newest = SESSIONS as u64;
        assert_eq!(
            drops.told(&chat, &reports(newest, 5, 2), true),
            2,
            "it is known"
        );
        assert_eq!(
            drops.told(&chat, &reports(3, 5, 2), true),
            0,
            "it is forgotten"
        );
    }
}
