//! I5 at the end of a run: the order recomputed from the record is what the workers accepted.

use bus_schemas::{Epoch, GpuTail, Incarnation, digest};
use scheduler_leader_core::replay::{Position, Replayed, Tail, replay};

use crate::check::{Accounts, Positions, Verdict, Violation};
use crate::store::Store;

/// What a replay of the record showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Replay {
    /// Positions that were recomputed or adopted.
    pub positions: u64,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Workers that are gone, and whose chain is what was recorded of it.
    pub gone: u64,
}

/// The record's blocks as replay wants them.
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

/// Replays the record and compares it with what the workers accepted. Where the broker lost
/// acknowledged blocks, the record may be too short to tell, but must say nothing wrong.
///
/// # Errors
/// The violation.
pub(crate) fn check(
    store: &Store,
    positions: &Positions,
    accounts: &Accounts,
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
            // Positions before skipped ones lead to no chain that could confirm them.
            if whole || replayed.skipped == 0 {
                same_positions(&replayed, positions, &finals)?;
            }
            if whole {
                same_chains(&replayed, &finals)?;
            }
            let lives = |incarnation| finals.iter().any(|(of, _)| *of == incarnation);
            let complete = whole && replayed.gaps == 0;
            accounts.check(&blocks, |incarnation| complete && lives(incarnation))?;
            let known = |tail: &&Tail| tail.recorded > 0 && !lives(tail.incarnation);
            Ok(Replay {
                positions: replayed.positions.len() as u64,
                adopted: replayed.adopted,
                gone: replayed.tails.iter().filter(known).count() as u64,
            })
        }
        Err(error) if whole => Err(Violation::new("I5", format!("replay: {error}"))),
        Err(_) => Ok(Replay::default()),
    }
}

/// Of a worker that died, the last leader's inputs may have died, too: only what leads to a chain
/// that is still there, or that was recorded, can be told for sure.
fn same_positions(
    replayed: &Replayed,
    positions: &Positions,
    finals: &[(Incarnation, GpuTail)],
) -> Verdict {
    let sure = |row: &&Position| {
        let lives = finals.iter().any(|(of, _)| *of == row.incarnation);
        let mut tails = replayed.tails.iter();
        let tail = tails.find(|tail| tail.incarnation == row.incarnation);
        lives || tail.is_some_and(|tail| row.position <= tail.recorded)
    };
    for row in replayed.positions.iter().filter(sure) {
        let Some(grant) = positions.grant(row.incarnation, row.position) else {
            continue;
        };
        let same = (
            grant.session,
            grant.kind,
            grant.first,
            grant.last,
            grant.global,
        ) == (row.session, row.kind, row.first, row.last, row.global);
        if !same {
            return Err(Violation::new(
                "I5",
                format!("replay has {row:?}, accepted {grant:?}"),
            ));
        }
    }
    Ok(())
}

fn same_chains(replayed: &Replayed, finals: &[(Incarnation, GpuTail)]) -> Verdict {
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
    let kept: Vec<GpuTail> = replayed
        .tails
        .iter()
        .filter(|row| !row.lost)
        .map(|row| row.tail)
        .collect();
    if replayed.digest == digest(&kept) {
        return Ok(());
    }
    Err(Violation::new(
        "I5",
        "the replay's digest is not that of its chains",
    ))
}
