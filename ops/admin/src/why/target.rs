//! The target of a question.

use std::fmt;
use std::str::FromStr;

use bus_schemas::{GpuId, OpNumber, SessionId};
use scheduler_leader_core::replay::{ReplayedPosition, Stop};

/// Digits of a session's id.
const ID: usize = 16;

/// The target of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// All positions of a session.
    Session(SessionId),
    /// The position that contains an op of a session.
    Op(SessionId, OpNumber),
    /// One position.
    Position(Stop),
    /// A device.
    Gpu(GpuId),
}

impl Target {
    /// True if a position belongs to the target.
    #[must_use]
    pub fn has(&self, row: &ReplayedPosition) -> bool {
        match self {
            Self::Session(session) => row.session == *session,
            Self::Op(session, op) => row.session == *session && (row.first..=row.last).contains(op),
            Self::Position(stop) => stop.is(row),
            Self::Gpu(gpu) => row.gpu == *gpu,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => write!(f, "session {session}"),
            Self::Op(session, op) => write!(f, "op {op} of session {session}"),
            Self::Position(stop) => write!(f, "position {stop}"),
            Self::Gpu(gpu) => write!(f, "gpu {gpu}"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is neither a session (0000000700000003), nor one of its ops \
                 (0000000700000003@12), nor a position (17, 2/17, 0:17), nor a device (gpu:0); a \
                 tenant is named by --tenant"
            )
        };
        if let Some(gpu) = text.strip_prefix("gpu") {
            let gpu = gpu.trim_start_matches([':', ' ', '-', '=']);
            return gpu.parse().map(Self::Gpu).map_err(|_| wrong());
        }
        let (session, op) = match text.split_once('@') {
            Some((session, op)) => (session, Some(op)),
            None => (text, None),
        };
        if session.len() == ID
            && let Ok(session) = session.parse()
        {
            return match op {
                None => Ok(Self::Session(session)),
                Some(op) => op
                    .parse()
                    .map(|op| Self::Op(session, op))
                    .map_err(|_| wrong()),
            };
        }
        // The interface and the page write 2.17.
        let place = text.replacen('.', "/", 1);
        place.parse().map(Self::Position).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_as_people_do() {
        let session = SessionId(0x7_0000_0003);
        for (text, target) in [
            ("0000000700000003", Target::Session(session)),
            ("0000000700000003@12", Target::Op(session, 12)),
            ("17", Target::Position(Stop::Global(None, 17))),
            ("2/17", Target::Position(Stop::Global(Some(2), 17))),
            ("2.17", Target::Position(Stop::Global(Some(2), 17))),
            ("0:17", Target::Position(Stop::Gpu(0, 17))),
            ("gpu:3", Target::Gpu(3)),
            ("gpu3", Target::Gpu(3)),
        ] {
            assert_eq!(text.parse(), Ok(target), "{text}");
        }
        for wrong in [
            "",
            "gpu",
            "gpu:x",
            "0000000700000003@",
            "0000000700000003@x",
            "tenant",
            "@1",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
