//! The grants that leaders proposed, until a seal says which of them their worker accepted.

use bus_schemas::{Grant, GrantKind, OpNumber};

use super::super::launches::Launches;
use super::super::replayed::End;

/// A grant that no seal has confirmed or refuted yet.
#[derive(Debug, Clone)]
pub(in crate::replay) struct Proposed {
    pub(in crate::replay) grant: Grant,
    pub(in crate::replay) adopted: bool,
    /// Kernels among its ops, where they are known.
    pub(in crate::replay) launches: Option<u64>,
    /// The seal's tail has it.
    pub(super) sealed: bool,
    /// A standing grant of which it is not known where it was closed.
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

    /// A standing grant was closed: what it came to.
    pub(super) fn close(&mut self, first: OpNumber, last: OpNumber, launches: &Launches) {
        (self.grant.first, self.grant.last) = (first, last);
        self.launches = launches.of(&self.grant);
        self.open = false;
    }

    /// Whether its worker has reported its end.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some() || (self.grant.kind == GrantKind::Standing && !self.open)
    }

    /// Whether its worker itself says that it accepted this: what was only recomputed may be of a
    /// leader before one of which nothing is recorded.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed && !self.open
    }

    /// Whether a worker accepted just this: of a standing grant, wherever it was closed.
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
