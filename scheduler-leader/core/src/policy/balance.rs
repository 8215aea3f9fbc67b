//! A flow's debt for work that ran longer than it was charged.
//!
//! Measured times reach the order with the done reports, which are recorded inputs. They decide
//! nothing while estimates are good: only an excess above a quantum is charged, to virtual time,
//! with the flow's next slice. Work that ran shorter earns no turn; it only makes up for work that
//! runs longer. So a kernel with a time that varies by its arguments pays what it takes on the
//! whole.

/// Quanta of work that ran shorter that may offset work that runs longer later.
const BANK: i64 = 64;

/// Nanoseconds measured beyond the charge; negative if the work took less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Balance(i64);

impl Balance {
    /// Notes work that was charged `cost` and took `measured`, both in nanoseconds.
    pub(crate) fn note(&mut self, cost: u64, measured: u64, quantum: u64) {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let bank = signed(quantum).saturating_mul(-BANK);
        let off = signed(measured).saturating_sub(signed(cost));
        self.0 = self.0.saturating_add(off).max(bank);
    }

    /// Nanoseconds beyond the charge.
    pub(crate) fn ns(self) -> i64 {
        self.0
    }

    /// Takes the amount that the next slice is charged beyond its cost.
    pub(crate) fn excess(&mut self, quantum: u64) -> u64 {
        match u64::try_from(self.0) {
            Ok(owed) if owed > quantum => {
                self.0 = 0;
                owed
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_excess_above_a_quantum_is_charged_and_only_once() {
        let mut balance = Balance::default();
        balance.note(1_000, 1_400, 500);
        assert_eq!(balance.excess(500), 0, "well estimated");
        balance.note(1_000, 1_400, 500);
        assert_eq!(balance.excess(500), 800);
        assert_eq!(balance.excess(500), 0);
        balance.note(0, u64::MAX, 500);
        assert_eq!(balance.excess(500), i64::MAX as u64);
    }

    #[test]
    fn shorter_work_makes_up_for_longer_but_not_without_bound() {
        let mut balance = Balance::default();
        balance.note(2_000, 1_000, 500);
        balance.note(1_000, 2_500, 500);
        assert_eq!(balance.excess(500), 0, "500 beyond: not above a quantum");
        for _ in 0..1_000 {
            balance.note(u64::MAX, 0, 500);
        }
        balance.note(0, 64 * 500 + 501, 500);
        assert_eq!(balance.excess(500), 501);
    }
}
