//! Each worker's chain according to its own log, compared with the chain of the replayed record.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Chain, ChainEntry, GpuTail, GrantKind, Tenant, digest};
use serde::{Deserialize, Serialize};

use super::{Evidence, Started};
use crate::record::{PositionRow, With};

/// The workers' chains, by their logs and by the replay. Both digests cover the same workers at the
/// same positions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chains {
    /// Digest over the workers' logs.
    pub digest: String,
    /// Digest over the replay, up to the ends of those logs.
    pub replay_digest: String,
    /// Every worker in either.
    pub workers: Vec<WorkerChain>,
}

/// One worker's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerChain {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// Its last position in the replayed record.
    pub position: u64,
    /// Its fate according to the record: `here`, `left` or `lost`.
    pub fate: String,
    /// The source that its chain was compared with.
    pub with: With,
    /// The last position that was compared.
    pub through: u64,
    /// True if the chains were equal.
    pub same: bool,
}

/// A line's link in its worker's chain, with its position.
struct Link<'a> {
    worker: (u32, &'a str),
    position: u64,
    whose: (&'a str, u64),
    kind: &'a str,
    ops: (u64, u64),
}

impl Evidence {
    /// The last position, and the chain there, that was cut off each worker's record before the
    /// replay.
    fn cut(&self) -> BTreeMap<&str, (u64, Chain)> {
        let cut = self.workers.iter().filter(|end| end.from > 0);
        cut.filter_map(|end| {
            let chain = blake3::Hash::from_hex(&end.from_chain).ok()?;
            // Bounded by the length of the worker's own log, in case the number is not a valid
            // position.
            let most = self.started.len() as u64;
            Some((
                end.incarnation.as_str(),
                (end.from.min(most), Chain(chain.into())),
            ))
        })
        .collect()
    }

    /// Compares the chains of all workers.
    #[must_use]
    pub fn chains(&self) -> Chains {
        let started = chains(self.started.iter().map(Started::link), &BTreeMap::new());
        let ordered = chains(self.order.iter().map(PositionRow::link), &self.cut());
        let mut keys: BTreeSet<(u32, &str)> = started.keys().copied().collect();
        keys.extend(ordered.keys().copied());
        let mut compared = Chains::default();
        let (mut logged, mut replayed) = (Vec::new(), Vec::new());
        for (gpu, incarnation) in keys {
            let own = started.get(&(gpu, incarnation));
            let theirs = ordered.get(&(gpu, incarnation));
            let ends = self.workers.iter();
            let end = ends.clone().find(|end| end.incarnation == incarnation);
            let position = theirs.map_or(0, |chain| chain.len() as u64);
            let died = end.is_some_and(|end| end.lost || end.dead);
            let (with, through, same) = match own {
                Some(own) => {
                    let through = whole(own, died);
                    let mine = own.get(through.wrapping_sub(1));
                    let there = theirs.and_then(|chain| chain.get(through.wrapping_sub(1)));
                    // All of its record was cut off before the replay.
                    let cut = theirs.is_none() && died;
                    logged.extend(tail(gpu, through, mine).filter(|_| !cut));
                    replayed.extend(tail(gpu, through, there));
                    let same = cut || (there.is_some() && there == mine);
                    (With::Evidence, through as u64, same)
                }
                None => {
                    let with = end.map_or(With::Nothing, |end| end.with);
                    (with, end.map_or(0, |end| end.through), true)
                }
            };
            compared.workers.push(WorkerChain {
                gpu,
                incarnation: incarnation.to_owned(),
                position,
                fate: end.map_or_else(|| "here".into(), |end| end.fate.clone()),
                with,
                through,
                same,
            });
        }
        compared.digest = digest(&logged).to_string();
        compared.replay_digest = digest(&replayed).to_string();
        compared
    }
}

/// Number of a log's lines with a chain. All must have one, but a worker that died may have left
/// lines out.
fn whole(chain: &[Option<Chain>], died: bool) -> usize {
    let known = chain.iter().take_while(|chain| chain.is_some()).count();
    if died { known } else { chain.len() }
}

/// The end of a chain, if it is known.
fn tail(gpu: u32, position: usize, chain: Option<&Option<Chain>>) -> Option<GpuTail> {
    let chain = (*chain?)?;
    let position = position as u64;
    Some(GpuTail {
        gpu,
        position,
        chain,
    })
}

/// The chain after each position, from the first. There is none before a worker's first link, nor
/// from the first line that is missing or invalid.
fn chains<'a>(
    links: impl Iterator<Item = Link<'a>>,
    cut: &BTreeMap<&str, (u64, Chain)>,
) -> BTreeMap<(u32, &'a str), Vec<Option<Chain>>> {
    let mut workers: BTreeMap<_, Vec<Link<'_>>> = BTreeMap::new();
    for link in links {
        workers.entry(link.worker).or_default().push(link);
    }
    let chain = |(worker, mut links): ((u32, &'a str), Vec<Link<'a>>)| {
        links.sort_by_key(|link| link.position);
        let (from, chain) = cut.get(worker.1).copied().unwrap_or_default();
        let mut at = Some(chain);
        let next = (from + 1..).zip(&links).map(|(position, link)| {
            at = at.filter(|_| link.position == position);
            at = at.and_then(|before| link.after(before));
            at
        });
        let before = std::iter::repeat_n(None, usize::try_from(from).unwrap_or(0));
        (worker, before.chain(next).collect())
    };
    workers.into_iter().map(chain).collect()
}

impl Link<'_> {
    fn after(&self, before: Chain) -> Option<Chain> {
        let tenant: Tenant = self.whose.0.parse().ok()?;
        Some(before.then(&ChainEntry {
            position: self.position,
            tenant: &tenant,
            ordinal: self.whose.1,
            kind: GrantKind::from_name(self.kind)?,
            first: self.ops.0,
            last: self.ops.1,
        }))
    }
}

impl Started {
    fn link(&self) -> Link<'_> {
        Link {
            worker: (self.gpu, &self.incarnation),
            position: self.position,
            whose: (&self.tenant, self.ordinal),
            kind: &self.kind,
            ops: (self.first, self.granted),
        }
    }
}

impl PositionRow {
    fn link(&self) -> Link<'_> {
        Link {
            worker: (self.gpu, &self.incarnation),
            position: self.position,
            whose: (&self.tenant, self.ordinal),
            kind: &self.kind,
            ops: (self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(incarnation: &str, position: u64) -> PositionRow {
        PositionRow {
            gpu: 0,
            incarnation: incarnation.into(),
            position,
            global: position,
            epoch: 1,
            tenant: "chat".into(),
            ordinal: 1,
            session: "1".into(),
            kind: "run".into(),
            first: position,
            last: position,
            ..PositionRow::default()
        }
    }

    fn started(line: &PositionRow) -> Started {
        Started {
            gpu: line.gpu,
            incarnation: line.incarnation.clone(),
            position: line.position,
            session: line.session.clone(),
            tenant: line.tenant.clone(),
            ordinal: line.ordinal,
            kind: line.kind.clone(),
            first: line.first,
            last: line.first,
            granted: line.last,
            outcome: "ran".into(),
            running: Vec::new(),
        }
    }

    /// Two workers, one of them lost with fewer positions in its log than were granted.
    fn evidence() -> Evidence {
        let rows = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3)];
        let order: Vec<_> = rows.map(|(worker, at)| ordered(worker, at)).into();
        Evidence {
            started: order[..4].iter().map(started).collect(),
            order,
            ..Evidence::default()
        }
    }

    #[test]
    fn both_digests_are_over_the_same_workers() {
        let found = evidence().chains();
        assert_eq!(found.digest, found.replay_digest);
        let through: Vec<_> = found
            .workers
            .iter()
            .map(|it| (it.position, it.through))
            .collect();
        assert_eq!(through, [(2, 2), (3, 2)]);
        assert!(
            found
                .workers
                .iter()
                .all(|it| it.with == With::Evidence && it.same)
        );
    }

    #[test]
    fn a_worker_that_one_of_them_lacks_makes_another_digest() {
        let mut less = evidence();
        less.order.retain(|line| line.incarnation == "a");
        let found = less.chains();
        assert_ne!(found.digest, found.replay_digest);
        assert!(!found.workers[1].same);
        // Without a log, the chain is compared with another source, which is named.
        let mut less = evidence();
        less.started.retain(|line| line.incarnation == "a");
        let found = less.chains();
        assert_eq!(found.digest, found.replay_digest);
        assert_eq!(found.workers[1].with, With::Nothing);
    }

    #[test]
    fn another_op_in_either_is_another_chain() {
        for at in 0..4 {
            let mut other = evidence();
            other.started[at].granted += 1;
            let found = other.chains();
            assert_ne!(found.digest, found.replay_digest);
            let mut other = evidence();
            other.order[at].ordinal += 1;
            let found = other.chains();
            assert_ne!(found.digest, found.replay_digest);
        }
    }
}
