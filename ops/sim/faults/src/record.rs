//! I5 at the end of a run: the order recomputed from the record is the order that the workers accepted.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Epoch, GpuTail, GrantKind, Incarnation, SessionId, digest};
use scheduler_leader_core::replay::{
    Gap, Replay as FollowedRecord, Replayed, ReplayedPosition, Tail, replay,
};

use crate::check::{CheckResult, Keeping, Positions, UsageBlocks, Violation};
use crate::parts::{Parts, adds_up};
use sim_cluster::Store;

/// Results of a replay of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Replay {
    /// Positions that were recomputed or adopted.
    pub positions: u64,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Sessions with adopted positions only, from their open to their close.
    pub adopted_sessions: u64,
    /// Workers that are gone, with chains that match the record.
    pub gone: u64,
    /// Positions that the record names as unrecorded.
    pub unrecorded: u64,
}

/// The record's blocks in the form that replay takes.
fn blocks(store: &Store) -> Vec<(Epoch, u64, Vec<u8>)> {
    store
        .record()
        .iter()
        .filter_map(|block| {
            let epoch = block.subject.rsplit('.').next()?.parse().ok()?;
            let number = block.id.rsplit('.').next()?.parse().ok()?;
            Some((epoch, number, block.bytes.clone()))
        })
        .collect()
}

/// Replays the record and compares it with the positions that the workers accepted. If the broker lost
/// acknowledged blocks, the record may be too short to decide, but must not be wrong. `keeping` has the
/// times of the leaders' grants, if nothing kept leaders from the store.
///
/// # Errors
/// The violation.
pub(crate) fn check(
    store: &Store,
    positions: &Positions,
    usage: &UsageBlocks,
    keeping: Option<&Keeping>,
) -> Result<Replay, Violation> {
    let finals: Vec<(Incarnation, GpuTail)> = positions
        .tails()
        .filter(|(_, tail, alive)| *alive && tail.position > 0)
        .map(|(incarnation, tail, _)| (incarnation, tail))
        .collect();
    let whole = store.lost_blocks == 0;
    let blocks = blocks(store);
    match replay(&blocks, &finals) {
        Ok(replayed) => {
            if let Some(keeping) = keeping {
                check_adopted(&replayed.positions, keeping)?;
            }
            // Positions before a hole lead to no chain that could confirm them.
            if whole || replayed.holes.is_empty() {
                same_rows(&replayed, positions, &finals)?;
            }
            if whole {
                same_chains(&replayed, &finals)?;
            }
            if whole {
                no_holes(&replayed, &finals)?;
                named(&replayed)?;
            }
            if whole {
                followed(&blocks, &replayed)?;
            }
            let lives = |incarnation| finals.iter().any(|(of, _)| *of == incarnation);
            let complete = whole && replayed.gaps == 0;
            usage.check(&blocks, |incarnation| complete && lives(incarnation))?;
            let known = |tail: &&Tail| tail.recorded > 0 && !lives(tail.incarnation);
            Ok(Replay {
                positions: replayed.positions.len() as u64,
                adopted: replayed.adopted,
                adopted_sessions: adopted_sessions(&replayed),
                gone: replayed.tails.iter().filter(known).count() as u64,
                unrecorded: replayed.gap_positions,
            })
        }
        Err(error) if whole => Err(Violation::new("I5", format!("replay: {error}"))),
        Err(_) => Ok(Replay::default()),
    }
}

/// Checks a follower that reads the record block by block, epoch by epoch, and keeps nothing. It must be
/// told of each ended position once, with its outcome.
fn followed(blocks: &[(Epoch, u64, Vec<u8>)], replayed: &Replayed) -> CheckResult {
    let wrong = |why: String| Err(Violation::new("I5", format!("followed: {why}")));
    let mut follower = FollowedRecord::forgetful().explaining();
    let mut parts = Parts::new();
    let mut told = BTreeMap::new();
    let mut blocks: Vec<_> = blocks.iter().collect();
    // A deposed leader may store its last blocks after the first of its successor.
    blocks.sort_by_key(|block| block.0);
    for (epoch, number, bytes) in blocks {
        let added = follower.add(*epoch, *number, bytes);
        let (mut twice, mut unsound) = (None, None);
        let advanced = added.and_then(|()| {
            follower.advance(|row| {
                let place = (row.incarnation, row.position);
                parts.whole(&row);
                if row.timing.as_ref().is_some_and(|it| !adds_up(it)) {
                    unsound = row.timing;
                }
                if told.insert(place, row.end).is_some() {
                    twice = Some(place);
                }
            })
        });
        if let Err(error) = advanced {
            return wrong(error.to_string());
        }
        parts.follow(*epoch, *number, bytes)?;
        if let Some(timing) = unsound {
            return wrong(format!("its times do not add up: {timing:?}"));
        }
        if let Some((incarnation, position)) = twice {
            return wrong(format!("{incarnation} position {position} is told twice"));
        }
    }
    for row in replayed.positions.iter().filter(|row| row.end.is_some()) {
        let place = (row.incarnation, row.position);
        if told.get(&place) != Some(&row.end) {
            let (incarnation, position) = place;
            return wrong(format!(
                "{incarnation} position {position} is not told as it ended"
            ));
        }
    }
    parts.check()
}

/// Compares the rows with the accepted grants. A dead worker's last inputs may have died with their leader.
/// So only rows are checked that lead to a living or a recorded chain.
fn same_rows(
    replayed: &Replayed,
    positions: &Positions,
    finals: &[(Incarnation, GpuTail)],
) -> CheckResult {
    let sure = |row: &&ReplayedPosition| {
        let lives = finals.iter().any(|(of, _)| *of == row.incarnation);
        let mut tails = replayed.tails.iter();
        let tail = tails.find(|tail| tail.incarnation == row.incarnation);
        lives || tail.is_some_and(|tail| row.position <= tail.recorded)
    };
    for row in replayed.positions.iter().filter(sure) {
        let Some(grant) = positions.grant(row.incarnation, row.position) else {
            continue;
        };
        let ops = (grant.kind, grant.first, grant.last);
        let place = (grant.session, grant.epoch, grant.global);
        let whose = positions.owner(grant.session);
        let named = whose.is_some_and(|it| (&it.0, it.1) == (&row.tenant, row.ordinal));
        let same = named
            && ops == (row.kind, row.first, row.last)
            && place == (row.session, row.epoch, row.global);
        if !same {
            let what = format!("replay has {row:?}, accepted {grant:?} of {whose:?}");
            return Err(Violation::new("I5", what));
        }
        // If a report died with a leader, the record does not have the outcome.
        let ended = positions.outcome(row.incarnation, row.position);
        if let Some(end) = row.end.filter(|end| ended != Some(end.outcome)) {
            let what = format!("replay has {row:?} ended {end:?}, it ended {ended:?}");
            return Err(Violation::new("I5", what));
        }
    }
    Ok(())
}

/// Checks that the order is whole. This holds only if no acknowledged block was lost. Every position of a
/// living worker has a row, or the record names it as unrecorded.
fn no_holes(replayed: &Replayed, finals: &[(Incarnation, GpuTail)]) -> CheckResult {
    if let Some(hole) = replayed.holes.first() {
        let what = format!("neither the record nor a seal's tail has {hole}");
        return Err(Violation::new("I5", what));
    }
    let mut rows: BTreeMap<Incarnation, BTreeSet<u64>> = BTreeMap::new();
    for row in &replayed.positions {
        rows.entry(row.incarnation)
            .or_default()
            .insert(row.position);
    }
    for (incarnation, tail) in finals {
        let rows = rows.remove(incarnation).unwrap_or_default();
        let named = |at: &u64| {
            let mut gaps = replayed.named.iter();
            gaps.any(|gap| gap.incarnation == *incarnation && (gap.first..=gap.last).contains(at))
        };
        let missing = (1..=tail.position).find(|at| !rows.contains(at) && !named(at));
        if missing.is_some() || rows.last().is_some_and(|last| *last > tail.position) {
            let what = format!(
                "{incarnation} accepted {tail:?}, replay has {} rows, {missing:?} is the first that \
                 is neither among them nor named",
                rows.len()
            );
            return Err(Violation::new("I5", what));
        }
    }
    Ok(())
}

/// Checks that named gaps have positions and a reason.
fn named(replayed: &Replayed) -> CheckResult {
    let vague = |gap: &&Gap| gap.first == 0 || gap.first > gap.last || gap.reason.is_empty();
    match replayed.named.iter().find(vague) {
        None => Ok(()),
        Some(gap) => Err(Violation::new("record", format!("a gap says {gap:?}"))),
    }
}

/// Checks that adopted positions were granted in the last append interval before their leader's end. This
/// holds only if nothing kept leaders from the store.
///
/// # Errors
/// The violation.
pub(crate) fn check_adopted(replayed: &[ReplayedPosition], keeping: &Keeping) -> CheckResult {
    let mut adopted = replayed.iter().filter(|row| row.adopted);
    adopted.try_for_each(|row| keeping.adopted(row.incarnation, row.position, row.epoch))
}

/// Sessions that were opened and closed within a leader's last append: they have no other rows.
fn adopted_sessions(replayed: &Replayed) -> u64 {
    let adopted = replayed.positions.iter().filter(|row| row.adopted);
    let of = |kind| {
        let rows = adopted.clone().filter(move |row| row.kind == kind);
        rows.map(|row| row.session).collect::<BTreeSet<SessionId>>()
    };
    let opened = of(GrantKind::Open);
    opened.intersection(&of(GrantKind::Close)).count() as u64
}

fn same_chains(replayed: &Replayed, finals: &[(Incarnation, GpuTail)]) -> CheckResult {
    for (incarnation, tail) in finals {
        let found = replayed
            .tails
            .iter()
            .find(|row| row.incarnation == *incarnation);
        if found.map(|row| row.tail) != Some(*tail) {
            let what = format!("{incarnation} ends at {tail:?}, in the replay at {found:?}");
            return Err(Violation::new("I5", what));
        }
    }
    let kept: Vec<GpuTail> = replayed.tails.iter().map(|row| row.tail).collect();
    if replayed.digest == digest(&kept) {
        return Ok(());
    }
    Err(Violation::new(
        "I5",
        "the replay's digest is not that of its chains",
    ))
}
