//! The grants that leaders proposed, until a seal shows which of them their worker accepted.

use bus_schemas::{Grant, GrantKind, OpNumber};

use super::super::launches::Launches;
use super::super::replayed::End;

/// A grant that no seal has confirmed or refuted yet.
#[derive(Debug, Clone)]
pub(in crate::replay) struct Proposed {
    pub(in crate::replay) grant: Grant,
    pub(in crate::replay) adopted: bool,
    /// Number of kernels among its ops, if known.
    pub(in crate::replay) launches: Option<u64>,
    /// True if the seal's tail has it.
    pub(super) sealed: bool,
    /// True for a standing grant with an unknown close.
    pub(super) open: bool,
    /// Device nanoseconds that the parts of a standing grant took.
    pub(super) parts: u64,
    pub(super) end: Option<End>,
}

impl Proposed {
    /// A grant that was recomputed.
    pub(in crate::replay) fn new(grant: Grant, launches: Option<u64>) -> Self {
        Self {
            grant,
            adopted: false,
            sealed: false,
            launches,
            open: grant.kind == GrantKind::Standing,
            parts: 0,
            end: None,
        }
    }

    /// Notes the last op of a standing grant that was closed.
    pub(super) fn close(&mut self, first: OpNumber, last: OpNumber, launches: &Launches) {
        (self.grant.first, self.grant.last) = (first, last);
        self.launches = launches.of(&self.grant);
        self.open = false;
    }

    /// Returns true if its worker has reported its end.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some() || (self.grant.kind == GrantKind::Standing && !self.open)
    }

    /// Returns true if its worker itself reported that it accepted this grant. A grant that was
    /// only recomputed may be of a leader before another one without any record.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed && !self.open
    }

    /// Returns true if the worker accepted exactly this grant. A standing grant may be closed
    /// anywhere.
    pub(super) fn is(&self, accepted: &Grant) -> bool {
        let mut grant = self.grant;
        if self.open {
            grant.last = accepted.last;
            if grant.first == 0 {
                grant.first = accepted.first;
            }
        }
        grant == *accepted
    }
}
