//! Rate limit of answers to each tenant: a few requests at once, then one every few milliseconds. A flood of
//! questions from one tenant does not take the worker's time.

use std::collections::BTreeMap;

use bus_schemas::Tenant;

use crate::Nanos;

/// Answers that a tenant may have at once.
const AT_ONCE: u64 = 20;
/// Time after which a tenant may have one more answer.
const APART_NS: Nanos = 5_000_000;
/// Maximum number of tenants that are remembered. If more ask at a time, some get no answer.
const TENANTS: usize = 4_096;

/// Times at which each tenant was answered.
#[derive(Debug, Default)]
pub struct AnswerRate {
    /// Time until which each tenant's answers are accounted for: each answer takes [`APART_NS`] after those
    /// before.
    until: BTreeMap<Tenant, Nanos>,
}

impl AnswerRate {
    /// True if a tenant that asks now is answered.
    pub fn admits(&mut self, now: Nanos, tenant: &Tenant) -> bool {
        let until = self.until.get(tenant).copied().unwrap_or(0).max(now);
        if until - now > (AT_ONCE - 1) * APART_NS {
            return false;
        }
        if self.until.len() >= TENANTS && !self.until.contains_key(tenant) {
            self.until.retain(|_, until| *until > now);
            if self.until.len() >= TENANTS {
                return false;
            }
        }
        self.until.insert(tenant.clone(), until + APART_NS);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(rate: &mut AnswerRate, now: Nanos, tenant: &Tenant) -> usize {
        (0..100).filter(|_| rate.admits(now, tenant)).count()
    }

    #[test]
    fn twenty_at_once_and_then_one_every_five_milliseconds_for_each_tenant() {
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let mut rate = AnswerRate::default();
        assert_eq!(answered(&mut rate, 7, &a), 20);
        assert_eq!(answered(&mut rate, 7, &b), 20, "another's flood is its own");
        assert_eq!(answered(&mut rate, 7 + APART_NS - 1, &a), 0);
        assert_eq!(answered(&mut rate, 7 + APART_NS, &a), 1);
        assert_eq!(answered(&mut rate, 7 + 1_000 * APART_NS, &a), 20);
    }

    #[test]
    fn no_more_tenants_are_remembered_than_there_is_room_for() {
        let mut rate = AnswerRate::default();
        let tenant = |number: usize| format!("t{number}").parse::<Tenant>().unwrap();
        for number in 0..TENANTS {
            assert!(rate.admits(0, &tenant(number)));
        }
        assert!(!rate.admits(0, &tenant(TENANTS)));
        assert!(rate.admits(0, &tenant(0)), "who is known goes on");
        assert!(rate.admits(APART_NS, &tenant(TENANTS)));
        assert_eq!(
            rate.until.len(),
            2,
            "those that have had less are forgotten"
        );
    }
}
