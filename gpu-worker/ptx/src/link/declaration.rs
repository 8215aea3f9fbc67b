//! Declarations of variables.

use crate::{Operand, ParsedModule, ParsedVariable, Space, Statement};
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

/// Returns the declaration of a variable or parameter, with a size of its own if several images grew it.
pub(super) fn declaration(
    variable: &ParsedVariable<'_>,
    name: &str,
    (align, bytes): (u64, Option<u64>),
) -> String {
    let mut out = space(variable.space).to_owned();
    if variable.managed {
        out.push_str(" .attribute(.managed)");
    }
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

/// True if a module names an element of an array by its index. Then the elements must have the size that the
/// module expects. Otherwise, as with most compilers, all offsets are in bytes.
pub(super) fn counts_elements(module: &ParsedModule<'_>, name: &str) -> bool {
    let counts = |operand: &Operand<'_>| match operand {
        Operand::Symbol {
            name: it, index, ..
        } => *index && *it == name,
        Operand::Indexed { name: it, .. } => *it == name,
        Operand::Address(at) | Operand::Coordinates(at, _) => {
            at.index.is_some() && at.base == Some(name)
        }
        _ => false,
    };
    let bodies = module.functions.iter().filter_map(|it| it.body.as_ref());
    bodies.flatten().any(|statement| match statement {
        Statement::Instruction(it) => it.operands.iter().any(|operand| match operand {
            Operand::Vector(list) | Operand::VectorPair(list, _) | Operand::List(list) => {
                list.iter().any(counts)
            }
            operand => counts(operand),
        }),
        _ => false,
    })
}
