//! One position with its times, and those around one that was looked for in the record.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::Timing;
use serde::Serialize;
use utoipa::ToSchema;
use warploom_cli::admin::Administrator;
use warploom_cli::record::{Followed, scan_explained};

use crate::access::Identity;
use crate::position::{At, Position};
use crate::problem::Problem;
use crate::waits;

/// Positions on each side of one that was looked for which are kept, so that whoever looks at its neighbours
/// does not have the record read again.
const AROUND: u64 = 250;

/// When a position waited and ran: nanoseconds of the leader's clock, since 1970 as its host knew when the
/// leader began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TimesModel {
    /// When the leader heard of its first op; of a standing grant, when it was granted.
    announced_ns: u64,
    /// When it was granted.
    granted_ns: u64,
    /// When its worker had the grant.
    accepted_ns: u64,
    /// When it was handed to the device.
    begun_ns: u64,
    /// When its first op began.
    started_ns: u64,
    /// When its last op had ended.
    ended_ns: u64,
}

impl From<&Timing> for TimesModel {
    fn from(timing: &Timing) -> Self {
        Self {
            announced_ns: timing.announced,
            granted_ns: timing.granted,
            accepted_ns: timing.accepted,
            begun_ns: timing.begun,
            started_ns: timing.started,
            ended_ns: timing.ended,
        }
    }
}

/// A position, what it waited for, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explained {
    /// The position, with all that it waited for.
    pub(crate) position: Position,
    /// Its times, where they are recorded.
    pub(crate) times: Option<TimesModel>,
}

impl Explained {
    fn of(replayed: &ReplayedPosition) -> Self {
        let timing = replayed.timing.as_deref();
        let mut position = Position::explained(replayed, None);
        position.waits = timing.map(|timing| waits::all(&timing.waits));
        Self {
            position,
            times: timing.map(TimesModel::from),
        }
    }

    /// As somebody may see it who may see it at all.
    pub(crate) fn seen_by(mut self, who: &Identity) -> Self {
        self.position = self.position.seen_by(who);
        self
    }
}

/// The positions around the one that was looked for last.
#[derive(Debug, Default)]
pub(crate) struct Around(Mutex<BTreeMap<At, Explained>>);

impl Around {
    /// A position, if it is one of them.
    pub(crate) fn find(&self, at: At) -> Option<Explained> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(&at).cloned()
    }

    /// Looks for a position in the record, which is replayed for that.
    pub(crate) async fn look(
        &self,
        administrator: &Administrator,
        at: At,
    ) -> Result<Option<Explained>, Problem> {
        let mut rows = BTreeMap::new();
        scan_explained(administrator, |told| {
            if let Followed::Ended { position, .. } = told {
                let its = At::from(&*position);
                if its.epoch == at.epoch && its.global.abs_diff(at.global) <= AROUND {
                    rows.insert(its, Explained::of(&position));
                }
            }
            Ok(())
        })
        .await?;
        let found = rows.get(&at).cloned();
        if found.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rows;
        }
        Ok(found)
    }
}
