//! The busy shares of sessions and tenants: the part of the last second in which at least one of their
//! launches ran, counted from completed slices.

use std::collections::BTreeMap;

use bus_schemas::{SessionId, Tenant};

use crate::Nanos;

/// Number of equal parts in which the last second is kept.
const PARTS: u64 = 50;
const PART_NS: Nanos = 20_000_000;
const SECOND_NS: Nanos = PARTS * PART_NS;

/// Busy time of one session or tenant in the last second.
#[derive(Debug, Clone)]
struct BusyTime {
    /// Busy nanoseconds by part number: the newest part and the parts of the second before it.
    parts: [u32; PARTS as usize + 1],
    /// The newest part's number since the clock began.
    newest: u64,
    /// The latest end of a launch; time before it may be counted already.
    through: Nanos,
}

impl BusyTime {
    fn new() -> Self {
        Self {
            parts: [0; PARTS as usize + 1],
            newest: 0,
            through: 0,
        }
    }

    fn part(&mut self, number: u64) -> Option<&mut u32> {
        let at = usize::try_from(number % (PARTS + 1)).ok()?;
        self.parts.get_mut(at)
    }

    /// Forgets busy time that is more than a second before `now`.
    fn advance(&mut self, now: Nanos) {
        let newest = now / PART_NS;
        let first = (self.newest + 1).max(newest.saturating_sub(PARTS));
        for number in first..=newest {
            if let Some(part) = self.part(number) {
                *part = 0;
            }
        }
        self.newest = self.newest.max(newest);
    }

    /// Counts a launch that ran from `from` to `to`. Time in which two launches overlap counts once: whole
    /// parts are exact, and the first and the last part never count too much.
    fn ran(&mut self, from: Nanos, to: Nanos) {
        self.advance(to);
        let from = from.max(to.saturating_sub(SECOND_NS));
        for number in from / PART_NS..=to / PART_NS {
            let (begins, ends) = (number * PART_NS, (number + 1) * PART_NS);
            let (starts, stops) = (from.max(begins), to.min(ends));
            let all = stops.saturating_sub(starts);
            let fresh = stops.saturating_sub(starts.max(self.through));
            if let Some(part) = self.part(number) {
                let counted = (u64::from(*part) + fresh).max(all).min(PART_NS);
                *part = u32::try_from(counted).unwrap_or(u32::MAX);
            }
        }
        self.through = self.through.max(to);
    }

    /// The busy part of the second before `now`, in parts per million.
    fn ppm(&self, now: Nanos) -> u32 {
        let mut seen = self.clone();
        seen.advance(now);
        // Counts of the oldest part only the share that lies within the second, as if its busy time were
        // spread evenly.
        let gone = now % PART_NS;
        let oldest = seen.newest.saturating_sub(PARTS);
        let busy = (oldest..=seen.newest).map(|number| {
            let busy = seen.part(number).map_or(0, |part| u64::from(*part));
            match number == oldest && seen.newest >= PARTS {
                true => busy * (PART_NS - gone) / PART_NS,
                false => busy,
            }
        });
        let ppm = busy.sum::<u64>() / (SECOND_NS / 1_000_000);
        u32::try_from(ppm.min(1_000_000)).unwrap_or(0)
    }
}

/// The busy times of a device's sessions and their tenants.
#[derive(Debug, Default)]
pub struct BusyTimes {
    sessions: BTreeMap<SessionId, (Tenant, BusyTime)>,
    tenants: BTreeMap<Tenant, BusyTime>,
}

impl BusyTimes {
    /// Notes that a session begins.
    pub fn open(&mut self, session: SessionId, tenant: &Tenant) {
        let new = || (tenant.clone(), BusyTime::new());
        self.sessions.entry(session).or_insert_with(new);
    }

    /// Counts launches of a session that ran for `device_ns` until now.
    pub fn ran(&mut self, now: Nanos, session: SessionId, device_ns: u64) {
        let from = now.saturating_sub(device_ns);
        if let Some((tenant, time)) = self.sessions.get_mut(&session) {
            time.ran(from, now);
            if let Some(time) = self.tenants.get_mut(tenant) {
                time.ran(from, now);
                return;
            }
            let mut time = BusyTime::new();
            time.ran(from, now);
            self.tenants.insert(tenant.clone(), time);
        }
    }

    /// Forgets a session that has ended.
    pub fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Returns a session's share of the second before now, in parts per million. If `since` is given, a
    /// launch that has not completed has run since then.
    #[must_use]
    pub fn session(&self, now: Nanos, session: SessionId, since: Option<Nanos>) -> u32 {
        let time = self.sessions.get(&session).map(|(_, time)| time);
        share(now, time, since)
    }

    /// Returns a tenant's share likewise, over all its sessions, ended ones included.
    #[must_use]
    pub fn tenant(&self, now: Nanos, tenant: &Tenant, since: Option<Nanos>) -> u32 {
        share(now, self.tenants.get(tenant), since)
    }
}

fn share(now: Nanos, time: Option<&BusyTime>, since: Option<Nanos>) -> u32 {
    match (time, since) {
        (None, None) => 0,
        (Some(time), None) => time.ppm(now),
        (time, Some(since)) => {
            let mut time = time.cloned().unwrap_or_else(BusyTime::new);
            time.ran(since.min(now), now);
            time.ppm(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;

    fn busy(rows: &[(Nanos, Nanos)]) -> BusyTime {
        let mut time = BusyTime::new();
        for (from, to) in rows {
            time.ran(*from, *to);
        }
        time
    }

    #[test]
    fn half_of_the_last_second_is_half_and_goes_by() {
        let time = busy(&[(0, 500 * MS)]);
        assert_eq!(time.ppm(500 * MS), 500_000, "the second has not passed yet");
        assert_eq!(time.ppm(1_000 * MS), 500_000);
        assert_eq!(time.ppm(1_250 * MS), 250_000);
        assert_eq!(time.ppm(1_500 * MS), 0);
        assert_eq!(time.ppm(1_000_000 * MS), 0);
        // A launch of many seconds fills the second, and no more than that.
        assert_eq!(busy(&[(0, 9_000 * MS)]).ppm(9_000 * MS), 1_000_000);
        assert_eq!(busy(&[(0, 9_000 * MS)]).ppm(9_900 * MS), 100_000);
    }

    #[test]
    fn what_runs_now_counts_and_so_do_ended_sessions_of_a_tenant() {
        let mut times = BusyTimes::default();
        let tenant: Tenant = "a".parse().unwrap();
        for session in [1, 2] {
            times.open(SessionId(session), &tenant);
        }
        times.ran(2_000 * MS, SessionId(1), 200 * MS);
        times.ran(2_100 * MS, SessionId(2), 100 * MS);
        let now = 2_100 * MS;
        assert_eq!(times.session(now, SessionId(1), None), 200_000);
        assert_eq!(times.session(now, SessionId(2), None), 100_000);
        assert_eq!(times.tenant(now, &tenant, None), 300_000);
        assert_eq!(
            times.session(now + 300 * MS, SessionId(2), Some(now)),
            400_000
        );
        times.close(SessionId(1));
        assert_eq!(times.session(now, SessionId(1), None), 0);
        assert_eq!(times.tenant(now, &tenant, None), 300_000);
        // A session or tenant that never ran has a share of 0.
        times.ran(now, SessionId(9), MS);
        assert_eq!(times.session(now, SessionId(9), None), 0);
        assert_eq!(times.tenant(now, &"b".parse().unwrap(), None), 0);
        let since = Some(now - 500 * MS);
        assert_eq!(times.tenant(now, &"b".parse().unwrap(), since), 500_000);
    }

    /// Milliseconds of the second before `now` that some interval covers.
    fn covered(rows: &[(u64, u64)], now: u64) -> u64 {
        let within = |ms: &u64| rows.iter().any(|(from, to)| (from..to).contains(&ms));
        (now.saturating_sub(1_000)..now).filter(within).count() as u64
    }

    proptest! {
        /// Launches that run one after the other have an exact share, except for the oldest part of the
        /// second.
        #[test]
        fn one_after_the_other_adds_up(gaps in prop::collection::vec((0..90_u64, 0..90_u64), 1..60)) {
            let mut at = 0;
            let rows: Vec<_> = gaps.iter().map(|(gap, length)| {
                let from = at + gap;
                at = from + length;
                (from, at)
            }).collect();
            let time = busy(&rows.iter().map(|(from, to)| (from * MS, to * MS)).collect::<Vec<_>>());
            let ppm = u64::from(time.ppm(at * MS));
            let exact = covered(&rows, at) * 1_000;
            prop_assert!(ppm.abs_diff(exact) <= 20_000, "{ppm}, {exact}");
        }

        /// The share of overlapping launches is never more than the time in which one ran, and never less
        /// than the longest of them.
        #[test]
        fn overlap_is_counted_once(rows in prop::collection::vec((0..900_u64, 1..600_u64), 1..40)) {
            let mut rows: Vec<_> = rows.into_iter().map(|(from, length)| (from, from + length)).collect();
            rows.sort_unstable_by_key(|row| row.1);
            let time = busy(&rows.iter().map(|(from, to)| (from * MS, to * MS)).collect::<Vec<_>>());
            let now = rows.iter().map(|row| row.1).max().unwrap_or(0);
            let ppm = u64::from(time.ppm(now * MS));
            let all = covered(&rows, now) * 1_000;
            let longest = rows.iter().map(|row| covered(&[*row], now)).max().unwrap_or(0) * 1_000;
            prop_assert!(ppm <= all + 20_000, "{ppm} of {all}");
            prop_assert!(ppm + 20_000 >= longest, "{ppm} of {longest}");
        }
    }
}
