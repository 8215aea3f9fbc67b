//! A position with its times, and the positions around the last lookup in the record.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use admin::Administrator;
use admin::record::{Followed, scan_explained};
use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::Timing;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Identity;
use crate::position::{At, Position};
use crate::problem::Problem;
use crate::waits;

/// Number of positions kept on each side of a looked-up position. A request for one of them does
/// not replay the record again.
const AROUND: u64 = 250;

/// Times of a position: nanoseconds of the leader's clock. They count from 1970, as the leader's
/// host knew it when the leader began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TimesModel {
    /// Time at which the leader received its first op; for a standing grant, the time of the grant.
    announced_ns: u64,
    /// Time of the grant.
    granted_ns: u64,
    /// Time at which its worker received the grant.
    accepted_ns: u64,
    /// Time at which it was handed to the device.
    begun_ns: u64,
    /// Time at which its first op began.
    started_ns: u64,
    /// Time at which its last op had ended.
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

/// A position with its waits and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explained {
    /// The position, with all of its waits.
    pub(crate) position: Position,
    /// Its times, if recorded.
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

    /// The position for a caller who may see it, without hidden names.
    pub(crate) fn seen_by(mut self, who: &Identity) -> Self {
        self.position = self.position.seen_by(who);
        self
    }
}

/// The positions around the last lookup.
#[derive(Debug, Default)]
pub(crate) struct Around(Mutex<BTreeMap<At, Explained>>);

impl Around {
    /// Returns a position, if it is among them.
    pub(crate) fn find(&self, at: At) -> Option<Explained> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(&at).cloned()
    }

    /// Looks up a position in the record, which is replayed for it.
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
