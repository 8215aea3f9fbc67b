//! Returns that are decided on and not granted yet.

use std::collections::BTreeMap;

use super::exchange::LEAST;
use super::member::{Member, Place};
use crate::slots::SessionSlot;

/// The activity of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    /// True if work is granted and not done.
    pub(crate) granted: bool,
    /// Number of the input that reported its last slice done.
    pub(crate) ran: u64,
}

/// A return that is decided. It is granted once the leaving sessions are the first that their
/// worker swaps out: all work granted to them is done, and the others ran after them.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) returning: SessionSlot,
    pub(super) leaving: Vec<SessionSlot>,
    /// The tick at which it was decided.
    pub(super) since: u64,
}

impl Decided {
    /// Returns true if the leaving sessions have nothing to run, and all others with work ran after
    /// them or are about to. After [`LEAST`] ticks, sessions that did not run are not waited for.
    pub(super) fn is_ready(
        &self,
        now: u64,
        members: &BTreeMap<SessionSlot, Member>,
        activity: impl Fn(SessionSlot) -> Activity,
    ) -> bool {
        let mut last = None;
        for slot in &self.leaving {
            let it = activity(*slot);
            // A session that is swapped out runs nothing, even if work is granted.
            let out = members.get(slot).is_none_or(|member| member.out);
            if it.granted && !out {
                return false;
            }
            last = last.max(Some(it.ran));
        }
        let Some(last) = last else {
            return true;
        };
        let mut staying = members.iter().filter(|(_, member)| {
            let there = matches!(member.place, Place::There { .. });
            there && member.idle.is_none() && !member.pinned
        });
        let ran = staying.all(|(slot, _)| {
            let it = activity(*slot);
            it.granted || it.ran > last
        });
        ran || now.saturating_sub(self.since) >= LEAST
    }
}
