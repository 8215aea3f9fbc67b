//! A check of replays that report standing grants in parts: the parts come to the same as the whole.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, GpuPosition, GrantKind, Incarnation, OpNumber};
use scheduler_leader_core::replay::{Replay, ReplayedPosition};
use scheduler_leader_core::why::Timing;

use crate::check::{CheckResult, Violation};

type At = (Incarnation, GpuPosition);

fn wrong(why: String) -> CheckResult {
    Err(Violation::new("I5", format!("in parts: {why}")))
}

/// The parts of one position.
#[derive(Debug, Default)]
struct Part {
    waited_ns: u64,
    ended: u64,
    through: OpNumber,
}

/// Positions as one replay reports them whole and another in parts.
#[derive(Debug)]
pub(crate) struct Parts {
    replay: Replay,
    parts: BTreeMap<At, Part>,
    wholes: BTreeMap<At, (GrantKind, Box<Timing>)>,
}

impl Parts {
    /// Begins with an empty record.
    pub(crate) fn new() -> Self {
        Self {
            replay: Replay::forgetful().explaining_between(0, u64::MAX),
            parts: BTreeMap::new(),
            wholes: BTreeMap::new(),
        }
    }

    /// Notes a position as the other replay reports it.
    pub(crate) fn whole(&mut self, row: &ReplayedPosition) {
        if let Some(timing) = &row.timing {
            let place = (row.incarnation, row.position);
            self.wholes.insert(place, (row.kind, timing.clone()));
        }
    }

    /// Follows the record by one block. The ops of the parts of a position follow one another.
    pub(crate) fn follow(&mut self, epoch: Epoch, number: u64, bytes: &[u8]) -> CheckResult {
        let (replay, parts) = (&mut self.replay, &mut self.parts);
        let mut unsound = None;
        let advanced = replay.add(epoch, number, bytes).and_then(|()| {
            replay.advance(|row| {
                let Some(timing) = &row.timing else {
                    return;
                };
                let part = parts.entry((row.incarnation, row.position)).or_default();
                // The op that one part did not finish is the first of the next.
                let follows = part.through <= row.first && row.first <= row.last;
                if !follows || !adds_up(timing) {
                    unsound = Some(format!("{row:?} behind op {}", part.through));
                }
                part.waited_ns += timing.waited_ns;
                (part.ended, part.through) = (timing.ended, row.last);
            })
        });
        match (advanced, unsound) {
            (Err(error), _) => wrong(error.to_string()),
            (_, Some(unsound)) => wrong(unsound),
            _ => Ok(()),
        }
    }

    /// Compares the waits of each position, and the time of its end.
    pub(crate) fn check(self) -> CheckResult {
        for (place, (kind, whole)) in self.wholes {
            let Some(part) = self.parts.get(&place) else {
                return wrong(format!("{kind:?} {place:?} is not told"));
            };
            if (part.waited_ns, part.ended) != (whole.waited_ns, whole.ended) {
                return wrong(format!("{kind:?} {place:?}: {part:?}, whole {whole:?}"));
            }
        }
        Ok(())
    }
}

/// True if a position's stages follow one another, and its waits add up to its waiting time.
pub(crate) fn adds_up(timing: &Timing) -> bool {
    let stages = [
        timing.announced,
        timing.granted,
        timing.accepted,
        timing.begun,
        timing.started,
        timing.ended,
    ];
    let waits: u64 = timing.waits.iter().map(|wait| wait.ns).sum();
    // For a standing grant, it is at most the time from its first part to its last.
    let most = timing.ended.saturating_sub(timing.announced);
    stages.is_sorted() && waits == timing.waited_ns && timing.waited_ns <= most
}
