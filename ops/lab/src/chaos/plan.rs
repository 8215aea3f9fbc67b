//! The plan of a run, its strikes and their times: a pure function of the seed.

use std::time::Duration;

use workloads::SplitMix64;

/// The sizes of a run and of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Kills (SIGKILL).
    pub(super) kills: usize,
    /// Length of the run, in seconds.
    pub(super) seconds: u64,
    /// Brokers.
    pub(super) brokers: usize,
    /// Workers.
    pub(super) workers: usize,
    /// Programs.
    pub(super) programs: usize,
}

/// Target of a signal. The leader is looked up when the signal is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// The elected leader.
    Leader,
    /// A candidate that does not lead.
    Candidate,
    /// The worker of a device.
    Worker(usize),
    /// A broker; any of several.
    Broker(usize),
    /// The elected leader and, together with it, the broker that leads the lease's stream.
    LeaderAndBroker,
    /// A program.
    Program(usize),
}

/// A bucket to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bucket {
    /// The lease of the leader.
    Lease,
    /// Tenants, settings and the like.
    State,
}

/// A strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strike {
    /// SIGKILL.
    Kill(Target),
    /// SIGSTOP, and SIGCONT after this time.
    Stop(Target, Duration),
    /// A broker is stopped in good order and started again.
    Restart(usize),
    /// The record's stream takes no messages for this time: its limit is set to its current size.
    Fill(Duration),
    /// A bucket is deleted.
    Delete(Bucket),
    /// The links of a role are cut for this time. No bytes get through.
    Cut(Target, Duration),
    /// The links of a role delay all bytes by the first duration, for the second duration.
    Slow(Target, Duration, Duration),
    /// One of several brokers is cut off from the others for this time; its clients still reach it.
    Part(usize, Duration),
    /// One of several brokers comes back with an empty store.
    Wipe(usize),
}

impl Strike {
    /// True if the strike has to wait until all of several brokers are in step: it takes one of them away,
    /// or something that all have.
    pub(super) fn wants_all_brokers(self) -> bool {
        match self {
            Self::Kill(target) | Self::Stop(target, _) => {
                matches!(target, Target::Broker(_) | Target::LeaderAndBroker)
            }
            Self::Restart(_) | Self::Part(..) | Self::Wipe(_) | Self::Delete(_) => true,
            Self::Fill(_) | Self::Cut(..) | Self::Slow(..) => false,
        }
    }
}

/// A strike and its time, counted from the programs' start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    /// Earliest time of the strike: strikes are carried out one after the other.
    pub(super) at: Duration,
    /// The strike.
    pub(super) strike: Strike,
}

/// Milliseconds: a worker that is stopped or cut off for less is not declared lost.
const BRIEF_MS: u32 = 2_000;
/// One in this many stops of workers is long enough for a loss.
const LONG: u32 = 4;

/// Returns everything that a run does to its cluster, in order.
#[must_use]
pub(super) fn plan(seed: u64, shape: &Shape) -> Vec<Planned> {
    let mut random = SplitMix64::new(seed);
    let mut strikes = kills(&mut random, shape);
    others(&mut random, shape, &mut strikes);
    let whole = shape.seconds.saturating_mul(1_000);
    // The first moments are for the programs' start, the last ones for the recovery.
    let (from, until) = (whole / 20, whole * 9 / 10);
    let span = u32::try_from(until - from).unwrap_or(u32::MAX);
    let mut planned: Vec<Planned> = strikes
        .into_iter()
        .map(|strike| Planned {
            at: Duration::from_millis(from + u64::from(random.below(span))),
            strike,
        })
        .collect();
    planned.sort_by_key(|planned| planned.at);
    planned
}

/// Targets of the kills. Of ten kills four hit the elected leader, two workers, two programs, one a broker,
/// and one a candidate. With few kills the leader comes first, and then each role once.
fn kills(random: &mut SplitMix64, shape: &Shape) -> Vec<Strike> {
    let mut kills = Vec::with_capacity(shape.kills);
    for number in 0..shape.kills {
        let target = match number % 10 {
            // With several brokers, every other time the leader and a broker die at once.
            0 if shape.brokers > 1 => Target::LeaderAndBroker,
            0 | 3 | 6 | 8 => Target::Leader,
            1 | 7 => Target::Worker(pick(random, shape.workers)),
            2 | 9 => Target::Program(pick(random, shape.programs)),
            4 => Target::Broker(pick(random, shape.brokers)),
            _ => Target::Candidate,
        };
        kills.push(Strike::Kill(target));
    }
    kills
}

/// Adds the other strikes, in proportion to the kills and each at least once.
fn others(random: &mut SplitMix64, shape: &Shape, strikes: &mut Vec<Strike>) {
    if shape.kills == 0 {
        return;
    }
    let times = |every: usize| shape.kills.div_ceil(every);
    for _ in 0..times(5) {
        let target = anybody(random, shape);
        let long = matches!(target, Target::Worker(_)) && random.below(LONG) == 0;
        let ms = if long {
            3_500
        } else {
            100 + random.below(BRIEF_MS)
        };
        strikes.push(Strike::Stop(target, millis(ms)));
    }
    for _ in 0..times(10) {
        let (target, ms) = (linked(random, shape), 50 + random.below(BRIEF_MS));
        strikes.push(Strike::Cut(target, millis(ms)));
        let (target, late) = (linked(random, shape), 5 + random.below(100));
        let ms = 200 + random.below(2 * BRIEF_MS);
        strikes.push(Strike::Slow(target, millis(late), millis(ms)));
    }
    for _ in 0..times(25) {
        strikes.push(Strike::Restart(pick(random, shape.brokers)));
        let ms = 100 + random.below(BRIEF_MS);
        strikes.push(Strike::Fill(millis(ms)));
        if shape.brokers > 1 {
            // A stopped route is noticed after 3 s, and another server is chosen after 9 s.
            let ms = 2_000 + random.below(10_000);
            strikes.push(Strike::Part(pick(random, shape.brokers), millis(ms)));
            strikes.push(Strike::Wipe(pick(random, shape.brokers)));
        }
    }
    for number in 0..times(50).max(2) {
        let buckets = [Bucket::Lease, Bucket::State];
        strikes.push(Strike::Delete(buckets[number % buckets.len()]));
    }
}

/// Target of a stop.
fn anybody(random: &mut SplitMix64, shape: &Shape) -> Target {
    match random.below(6) {
        0 | 1 => Target::Leader,
        2 => Target::Candidate,
        3 => Target::Worker(pick(random, shape.workers)),
        4 => Target::Broker(pick(random, shape.brokers)),
        _ => Target::Program(pick(random, shape.programs)),
    }
}

/// Target of cut or slow links.
fn linked(random: &mut SplitMix64, shape: &Shape) -> Target {
    match random.below(3) {
        0 => Target::Leader,
        1 => Target::Worker(pick(random, shape.workers)),
        _ => Target::Program(pick(random, shape.programs)),
    }
}

fn pick(random: &mut SplitMix64, of: usize) -> usize {
    random.below(u32::try_from(of).unwrap_or(u32::MAX)) as usize
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHAPE: Shape = Shape {
        kills: 100,
        seconds: 300,
        brokers: 1,
        workers: 2,
        programs: 5,
    };

    fn killed(planned: &[Planned]) -> Vec<Target> {
        let kills = planned.iter().filter_map(|planned| match planned.strike {
            Strike::Kill(target) => Some(target),
            _ => None,
        });
        kills.collect()
    }

    #[test]
    fn a_seed_has_one_plan_and_another_seed_another() {
        assert_eq!(plan(7, &SHAPE), plan(7, &SHAPE));
        assert_ne!(plan(7, &SHAPE), plan(8, &SHAPE));
    }

    #[test]
    fn every_role_is_killed_and_at_least_a_third_of_kills_hit_the_leader() {
        for (seed, kills) in [(1, 10), (2, 23), (3, 100), (4, 6)] {
            let planned = plan(seed, &Shape { kills, ..SHAPE });
            let killed = killed(&planned);
            assert_eq!(killed.len(), kills);
            let leaders = killed.iter().filter(|target| **target == Target::Leader);
            assert!(3 * leaders.count() >= kills, "{killed:?}");
            let roles: BTreeSet<_> = killed
                .iter()
                .map(std::mem::discriminant)
                .map(|it| format!("{it:?}"))
                .collect();
            assert_eq!(roles.len(), 5, "{killed:?}");
        }
    }

    #[test]
    fn strikes_lie_within_the_run_and_every_kind_is_there() {
        for seed in 0..20 {
            let planned = plan(
                seed,
                &Shape {
                    brokers: 3,
                    ..SHAPE
                },
            );
            let (first, last) = (planned[0].at, planned[planned.len() - 1].at);
            assert!(first >= Duration::from_secs(15) && last < Duration::from_secs(270));
            assert!(planned.windows(2).all(|pair| pair[0].at <= pair[1].at));
            let kinds: BTreeSet<_> = planned
                .iter()
                .map(|it| format!("{:?}", std::mem::discriminant(&it.strike)))
                .collect();
            assert_eq!(kinds.len(), 9);
            assert!(killed(&planned).contains(&Target::LeaderAndBroker));
            for target in planned.iter().filter_map(|it| match it.strike {
                Strike::Kill(target) | Strike::Stop(target, _) | Strike::Cut(target, _) => {
                    Some(target)
                }
                _ => None,
            }) {
                match target {
                    Target::Worker(index) => assert!(index < 2),
                    Target::Program(index) => assert!(index < 5),
                    Target::Broker(index) => assert!(index < 3),
                    Target::Leader | Target::Candidate | Target::LeaderAndBroker => {}
                }
            }
        }
    }

    #[test]
    fn who_is_not_hit_long_is_not_declared_lost() {
        let planned = plan(5, &SHAPE);
        for planned in planned {
            match planned.strike {
                Strike::Stop(Target::Worker(_), _) => {}
                Strike::Stop(_, time) | Strike::Cut(_, time) | Strike::Fill(time) => {
                    assert!(time < Duration::from_secs(3));
                }
                _ => {}
            }
        }
        assert!(plan(1, &Shape { kills: 0, ..SHAPE }).is_empty());
    }
}
