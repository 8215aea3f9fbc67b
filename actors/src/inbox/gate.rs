//! Decides which tenants a role ignores for a while: tenants that send too many useless messages.

use std::collections::BTreeMap;

use bus_schemas::Tenant;

use super::waste::{APART, Nanos, Waste};

/// Maximum time that a tenant may be ahead: 1,000 useless messages at once.
const AHEAD: Nanos = 1_000 * APART;
/// A silenced tenant is heard again once it is at most this far ahead.
const RESUMED: Nanos = AHEAD / 2;
/// Messages during a silence count until the tenant is this far ahead.
const FARTHEST: Nanos = 2_000_000_000;
/// Minimum duration of a tenant's first silence. Each silence that follows soon is twice as long.
const SILENCE: Nanos = AHEAD - RESUMED;
/// Maximum number of doublings: 8 s.
const DOUBLINGS: u32 = 5;
/// Time after the last silence in which another one is expected.
const GUARD: Nanos = 10_000_000_000;
/// Maximum number of tenants with an account.
const TENANTS: usize = 4_096;

/// One tenant's account.
#[derive(Debug, Default)]
struct Account {
    /// Time up to which its messages are accounted for.
    until: Nanos,
    /// Earliest end of the current silence, if any.
    silenced: Option<Nanos>,
    /// Number of silences in quick succession.
    silences: u32,
    /// End of the last silence.
    heard_at: Nanos,
}

impl Account {
    /// Begins a silence.
    fn silence(&mut self, now: Nanos) {
        let soon = now < self.heard_at.saturating_add(GUARD);
        self.silences = if soon && self.heard_at > 0 {
            (self.silences + 1).min(DOUBLINGS)
        } else {
            0
        };
        self.silenced = Some(now.saturating_add(SILENCE << self.silences));
    }

    fn is_over(&self, now: Nanos) -> bool {
        let least = self.silenced.is_some_and(|least| least <= now);
        least && self.until <= now.saturating_add(RESUMED)
    }
}

/// The accounts of all tenants.
#[derive(Debug, Default)]
pub(super) struct Gate {
    accounts: BTreeMap<Tenant, Account>,
    silenced: usize,
    /// Time until which tenants are heard one by one.
    guarded_until: Nanos,
}

impl Gate {
    /// Accounts for a useless message. True if its tenant is silenced from now on.
    pub(super) fn waste(
        &mut self,
        now: Nanos,
        tenant: &Tenant,
        (waste, bytes): (Waste, usize),
    ) -> bool {
        if !self.accounts.contains_key(tenant) {
            if self.accounts.len() >= TENANTS {
                self.accounts
                    .retain(|_, account| account.silenced.is_some() || account.until > now);
            }
            if self.accounts.len() >= TENANTS {
                return false;
            }
        }
        let account = self.accounts.entry(tenant.clone()).or_default();
        let until = account.until.max(now).saturating_add(waste.time(bytes));
        account.until = until.min(now.saturating_add(FARTHEST));
        if account.silenced.is_some() || account.until <= now.saturating_add(AHEAD) {
            return false;
        }
        account.silence(now);
        self.silenced += 1;
        self.guarded_until = now.saturating_add(GUARD);
        true
    }

    /// Acts as if all floods were long over.
    #[cfg(test)]
    pub(super) fn forgive(&mut self) {
        *self = Self::default();
    }

    /// True if the tenant is heard.
    pub(super) fn hears(&self, tenant: &Tenant) -> bool {
        let silenced = |it: &Account| it.silenced.is_some();
        self.silenced == 0 || !self.accounts.get(tenant).is_some_and(silenced)
    }

    /// True if tenants are heard one by one, so that one can be left out at once.
    pub(super) fn is_guarded(&self, now: Nanos) -> bool {
        self.silenced > 0 || now < self.guarded_until
    }

    /// Advances the time. True if a tenant is heard again.
    pub(super) fn tick(&mut self, now: Nanos) -> bool {
        let before = self.silenced;
        for account in self.accounts.values_mut().filter(|it| it.is_over(now)) {
            account.silenced = None;
            account.heard_at = now;
            self.silenced -= 1;
        }
        if self.silenced < before {
            self.guarded_until = now.saturating_add(GUARD);
        }
        self.silenced < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::waste::BYTES;

    const SECOND: Nanos = 1_000_000_000;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    /// Returns the number of messages until the tenant is silenced.
    fn until_silenced(
        gate: &mut Gate,
        now: Nanos,
        name: &Tenant,
        what: Waste,
        bytes: usize,
    ) -> u32 {
        (1..100_000)
            .find(|_| gate.waste(now, name, (what, bytes)))
            .expect("it is silenced")
    }

    #[test]
    fn a_thousand_at_once_and_two_thousand_a_second_are_heard() {
        let (a, mut gate) = (tenant("a"), Gate::default());
        for message in 0..20_000 {
            let now = message * APART;
            assert!(!gate.waste(now, &a, (Waste::Whole, 100)), "{message}");
        }
        assert!(!gate.is_guarded(20_000 * APART));
        let now = 20_000 * APART;
        assert_eq!(until_silenced(&mut gate, now, &a, Waste::Whole, 100), 1_001);
        assert!(!gate.hears(&a) && gate.hears(&tenant("b")));
        assert!(!gate.waste(now, &tenant("b"), (Waste::Whole, 100)));
    }

    #[test]
    fn large_messages_use_up_more_and_those_of_open_sessions_less() {
        let cases = [
            (Waste::Whole, BYTES - 1, 1_001),
            (Waste::Whole, 9 * BYTES, 101),
            (Waste::Repeated, 0, 4_001),
            (Waste::Unbounded, 0, 16_001),
        ];
        for (what, bytes, messages) in cases {
            let mut gate = Gate::default();
            let said = until_silenced(&mut gate, 7, &tenant("a"), what, bytes);
            assert_eq!(said, messages, "{what:?} of {bytes} bytes");
        }
    }

    #[test]
    fn a_flood_is_heard_ever_less_and_the_guard_outlasts_it() {
        let (a, mut gate) = (tenant("a"), Gate::default());
        let (mut heard, mut silences) = (0, Vec::new());
        // One message every 100 us for 50 s; only those that arrive while the tenant is heard
        // count.
        for step in 0..500_000_u64 {
            let now = step * 100_000;
            if gate.tick(now) {
                let began: &mut u64 = silences.last_mut().expect("it was silenced");
                *began = now - *began;
            }
            if gate.hears(&a) {
                heard += 1;
                if gate.waste(now, &a, (Waste::Whole, 0)) {
                    silences.push(now);
                }
            }
        }
        let lasted = silences.iter().map(|it| it / 1_000_000);
        let lasted: Vec<_> = lasted.take(7).collect();
        assert_eq!(lasted, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        assert!(heard < 20_000, "{heard} of 500,000");
        let now = 60 * SECOND;
        assert!(gate.is_guarded(now));
        assert!(gate.tick(now), "it is silent, and heard again");
        assert!(gate.hears(&a) && gate.is_guarded(now + GUARD - 1));
        assert!(!gate.is_guarded(now + GUARD));
        let now = now + GUARD;
        until_silenced(&mut gate, now, &a, Waste::Whole, 0);
        assert!(!gate.tick(now + SILENCE - 1));
        assert!(
            gate.tick(now + SILENCE + APART),
            "long after, the first time again"
        );
    }

    #[test]
    fn what_still_comes_while_it_is_silenced_counts_up_to_a_bound() {
        let (a, mut gate) = (tenant("a"), Gate::default());
        until_silenced(&mut gate, 0, &a, Waste::Whole, 0);
        for _ in 0..100_000 {
            assert!(!gate.waste(0, &a, (Waste::Whole, usize::MAX)));
        }
        assert!(!gate.tick(FARTHEST - RESUMED - 1));
        assert!(gate.tick(FARTHEST - RESUMED));
    }

    #[test]
    fn no_more_tenants_are_accounted_for_than_there_is_room_for() {
        let mut gate = Gate::default();
        for number in 0..TENANTS {
            gate.waste(0, &tenant(&format!("t{number}")), (Waste::Whole, 0));
        }
        let late = tenant("late");
        assert!((0..2_000).all(|_| !gate.waste(0, &late, (Waste::Whole, 0))));
        assert_eq!(
            until_silenced(&mut gate, SECOND, &late, Waste::Whole, 0),
            1_001
        );
        assert_eq!(gate.accounts.len(), 1, "what is accounted for is forgotten");
    }
}
