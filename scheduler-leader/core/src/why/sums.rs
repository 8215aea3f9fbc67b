//! Times by cause.

use bus_schemas::Tenant;

use super::cause::Cause;

/// Maximum number of causes with their tenants that are kept apart; further ones are merged without
/// a tenant.
const KEPT: usize = 64;

/// A cause, and the tenant behind it.
pub(crate) type Key = (Cause, Option<Tenant>);

/// A part of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The cause.
    pub cause: Cause,
    /// The tenant behind it, if there is one.
    pub of: Option<Tenant>,
    /// Nanoseconds.
    pub ns: u64,
}

/// Nanoseconds by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums(Vec<(Key, u64)>);

impl Sums {
    /// Adds a time.
    pub(crate) fn add(&mut self, key: &Key, ns: u64) {
        if ns == 0 {
            return;
        }
        let full = self.0.len() >= KEPT;
        let at = self.0.iter().position(|(known, _)| known == key);
        let whole = (key.0, None);
        let at = at.or_else(|| {
            let mut rows = self.0.iter();
            full.then(|| rows.position(|(known, _)| *known == whole))?
        });
        match at.and_then(|at| self.0.get_mut(at)) {
            Some((_, sum)) => *sum = sum.saturating_add(ns),
            None if full => self.0.push((whole, ns)),
            None => self.0.push((key.clone(), ns)),
        }
    }

    /// Adds the times of others.
    pub(crate) fn add_all(&mut self, others: &Self) {
        for (key, ns) in &others.0 {
            self.add(key, *ns);
        }
    }

    /// Removes a time that was added by mistake.
    pub(crate) fn take(&mut self, key: &Key, ns: u64) {
        let whole = (key.0, None);
        let mut rows = self.0.iter_mut();
        if let Some((_, sum)) = rows.find(|(known, _)| known == key || *known == whole) {
            *sum = sum.saturating_sub(ns);
        }
    }

    /// The growth since an earlier state of these sums: they only grow.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut grown = Self::default();
        for (key, ns) in &self.0 {
            let known = before.0.iter().find(|(known, _)| known == key);
            grown.add(key, ns.saturating_sub(known.map_or(0, |(_, ns)| *ns)));
        }
        grown
    }

    /// The sums without those of some causes.
    pub(crate) fn without(&self, gone: impl Fn(Cause) -> bool) -> Self {
        let rest = self.0.iter().filter(|((cause, _), _)| !gone(*cause));
        Self(rest.cloned().collect())
    }

    /// The total.
    pub(crate) fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }

    /// The rows, the longest first.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let wait = |((cause, of), ns): &(Key, u64)| Wait {
            cause: *cause,
            of: of.clone(),
            ns: *ns,
        };
        let mut waits: Vec<_> = self.0.iter().map(wait).collect();
        waits.sort_by(|one, other| {
            let place = |it: &Wait| (std::cmp::Reverse(it.ns), it.cause);
            place(one)
                .cmp(&place(other))
                .then_with(|| one.of.cmp(&other.of))
        });
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_bounded_and_nothing_of_the_time_is_lost() {
        let mut sums = Sums::default();
        for tenant in 0..1_000 {
            let of = format!("t{tenant}").parse().unwrap();
            sums.add(&(Cause::Share, Some(of)), 7);
        }
        assert_eq!(sums.total(), 7_000);
        assert!(sums.waits().len() <= KEPT + 1);
        assert_eq!(sums.waits()[0].of, None, "the others go together");
        let before = sums.clone();
        sums.add(&(Cause::Hold, None), 5);
        assert_eq!(sums.since(&before).total(), 5);
    }
}
