//! Replay up to one position, to inspect the order at the time of its decision.

use std::fmt;
use std::str::FromStr;

use bus_schemas::{Epoch, GlobalPosition, GpuId, GpuPosition, Incarnation};

use super::error::ReplayError;
use super::recompute::{Replay, replay};
use super::replayed::ReplayedPosition;
use super::stream::Stream;
use crate::effect::Effect;
use crate::scheduler::{Inspection, Scheduler};

/// A position to stop at. As text: `GLOBAL`, `EPOCH/GLOBAL`, `GPU:POSITION` or
/// `INCARNATION:POSITION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A position of the cluster's order; two epochs may have used the same number.
    Global(Option<Epoch>, GlobalPosition),
    /// A position of a device.
    Gpu(GpuId, GpuPosition),
    /// A position of one worker: a device may have had several.
    Worker(Incarnation, GpuPosition),
}

impl Stop {
    /// Returns true if it names this position.
    #[must_use]
    pub fn is(self, position: &ReplayedPosition) -> bool {
        match self {
            Self::Global(epoch, global) => {
                position.global == global && epoch.is_none_or(|epoch| position.epoch == epoch)
            }
            Self::Gpu(gpu, at) => (position.gpu, position.position) == (gpu, at),
            Self::Worker(worker, at) => (position.incarnation, position.position) == (worker, at),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global(None, global) => write!(f, "{global}"),
            Self::Global(Some(epoch), global) => write!(f, "{epoch}/{global}"),
            Self::Gpu(gpu, position) => write!(f, "{gpu}:{position}"),
            Self::Worker(worker, position) => write!(f, "{worker}:{position}"),
        }
    }
}

impl FromStr for Stop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let forms = "GLOBAL, EPOCH/GLOBAL, GPU:POSITION or INCARNATION:POSITION";
            format!("{text:?} is no position: expected {forms}")
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        if let Some((epoch, global)) = text.split_once('/') {
            return Ok(Self::Global(Some(number(epoch)?), number(global)?));
        }
        let Some((whose, position)) = text.split_once(':') else {
            return Ok(Self::Global(None, number(text)?));
        };
        let position = number(position)?;
        // An incarnation is 16 hexadecimal digits, more than any device's number.
        match (whose.len(), whose.parse::<Incarnation>()) {
            (16, Ok(worker)) => Ok(Self::Worker(worker, position)),
            _ => {
                let gpu = whose.parse().map_err(|_| wrong())?;
                Ok(Self::Gpu(gpu, position))
            }
        }
    }
}

/// A stopped replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// The last decided position.
    pub at: ReplayedPosition,
    /// The order right after it.
    pub order: Inspection,
}

/// The reason why a replay did not stop at the requested position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// The record does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The order has no such position.
    #[error("the order has no position {0}")]
    Nowhere(String),
    /// The order has several such positions.
    #[error("position {stop} is there {times} times: say one of {those}")]
    Several {
        /// The requested position.
        stop: String,
        /// Number of such positions.
        times: usize,
        /// Forms that tell them apart.
        those: String,
    },
    /// Its inputs died with a leader: the state of the order at it is unknown.
    #[error("position {0} was adopted: the inputs that led to it were never recorded")]
    Adopted(String),
}

/// Recomputes the order up to a position, and not beyond. If one input led to many grants, the
/// order is inspected between them.
///
/// # Errors
/// [`StopError`] if the record does not replay or does not have the position.
pub fn replay_until(blocks: &[(Epoch, u64, Vec<u8>)], stop: Stop) -> Result<Stopped, StopError> {
    // The accepted grants are known only at the end: of two leaders' proposals, one stands.
    let whole = replay(blocks, &[])?;
    let found: Vec<_> = whole.positions.iter().filter(|row| stop.is(row)).collect();
    let at = match found.as_slice() {
        [] => return Err(StopError::Nowhere(stop.to_string())),
        [at] => *at,
        several => {
            let those = several.iter().map(|row| match stop {
                Stop::Global(..) => format!("{}:{}", row.incarnation, row.position),
                _ => Stop::Worker(row.incarnation, row.position).to_string(),
            });
            return Err(StopError::Several {
                stop: stop.to_string(),
                times: several.len(),
                those: those.collect::<Vec<_>>().join(", "),
            });
        }
    };
    let mut record = Replay::default();
    for (epoch, number, bytes) in blocks.iter().filter(|block| block.0 == at.epoch) {
        record.add(*epoch, *number, bytes)?;
    }
    // One epoch may have had two leaders.
    for stream in record.streams.values_mut() {
        if let Some(order) = recompute(stream, at)? {
            return Ok(Stopped {
                at: at.clone(),
                order,
            });
        }
    }
    Err(StopError::Adopted(stop.to_string()))
}

/// The order right after a grant, if this stream leads to it.
fn recompute(
    stream: &mut Stream,
    at: &ReplayedPosition,
) -> Result<Option<Inspection>, ReplayError> {
    let (mut scheduler, mut effects) = (Scheduler::new(), Vec::new());
    for (input, _) in stream.take(at.epoch)? {
        if scheduler.input() + 1 == at.input {
            scheduler.stop_at(at.global);
        }
        effects.clear();
        scheduler.apply(&input, &mut effects);
        if scheduler.input() == at.input {
            break;
        }
    }
    let is_it = effects.iter().any(|effect| match effect {
        Effect::Grant {
            incarnation,
            position,
            grant,
            ..
        } => {
            let same = (grant.session, grant.kind) == (at.session, at.kind);
            (*incarnation, *position, grant.global) == (at.incarnation, at.position, at.global)
                && same
        }
        _ => false,
    });
    Ok(is_it.then(|| scheduler.inspect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_named_in_four_ways() {
        let worker = Incarnation(0xabc);
        for (text, stop) in [
            ("17", Stop::Global(None, 17)),
            ("2/17", Stop::Global(Some(2), 17)),
            ("1:17", Stop::Gpu(1, 17)),
            ("0000000000000abc:17", Stop::Worker(worker, 17)),
        ] {
            assert_eq!(text.parse(), Ok(stop));
            assert_eq!(stop.to_string(), text);
        }
        for wrong in ["", "x", "1:", ":1", "1/x", "-1", "xyz:1"] {
            assert!(wrong.parse::<Stop>().is_err(), "{wrong}");
        }
    }
}
