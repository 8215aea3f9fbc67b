//! Variables as they are declared.

use crate::{Space, Variable};
use std::fmt::Write as _;

fn space(space: Space) -> &'static str {
    match space {
        Space::Reg => ".reg",
        Space::Global => ".global",
        Space::Const => ".const",
        Space::Shared => ".shared",
        Space::Local => ".local",
        Space::Param => ".param",
    }
}

/// A variable or parameter as it is declared; bytes of its own where several images grew it.
pub(super) fn declaration(
    variable: &Variable<'_>,
    name: &str,
    (align, bytes): (u64, Option<u64>),
) -> String {
    let mut out = space(variable.space).to_owned();
    if variable.space != Space::Reg {
        let _ = write!(out, " .align {align}");
    }
    if variable.lanes > 1 {
        let _ = write!(out, " .v{}", variable.lanes);
    }
    let _ = write!(out, " {} {name}", variable.scalar);
    if let Some(bytes) = bytes {
        let one = variable.scalar.size() * u64::from(variable.lanes);
        let _ = write!(out, "[{}]", bytes / one.max(1));
        return out;
    }
    for dim in &variable.dims {
        match dim {
            0 => out.push_str("[]"),
            dim => {
                let _ = write!(out, "[{dim}]");
            }
        }
    }
    out
}
