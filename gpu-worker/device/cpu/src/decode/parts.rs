//! The parts of an opcode.

use ptx::{Instruction, Scalar};

/// The dotted parts of an opcode behind its head, ticked off as they are understood.
pub(crate) struct Parts<'a> {
    pub(crate) head: &'a str,
    list: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(instruction: &Instruction<'a>) -> Self {
        let mut parts = instruction.opcode.split('.');
        let head = parts.next().unwrap_or_default();
        Self {
            head,
            list: parts.collect(),
        }
    }

    /// Ticks off a modifier; true if it is present.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let place = self.list.iter().position(|part| *part == name);
        place.map(|at| self.list.remove(at)).is_some()
    }

    /// The first part that a function understands.
    pub(crate) fn pick<T>(&mut self, known: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let (at, found) = self
            .list
            .iter()
            .enumerate()
            .find_map(|(at, part)| Some((at, known(part)?)))?;
        self.list.remove(at);
        Some(found)
    }

    /// The next type.
    pub(crate) fn ty(&mut self) -> Option<Scalar> {
        self.pick(Scalar::from_text)
    }

    /// Number of values by `.v2`, `.v4` or `.v8`; one without them.
    pub(crate) fn lanes(&mut self) -> u8 {
        let lanes = self.pick(|part| match part {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        });
        lanes.unwrap_or(1)
    }

    /// Ticks off modifiers that change nothing here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        self.list.retain(|part| !names.contains(part));
    }

    /// Ticks off cache hints, scopes, and proxies.
    pub(crate) fn ignore_hints(&mut self) {
        self.list
            .retain(|part| !part.starts_with("L1::") && !part.starts_with("L2::"));
        self.ignore(&["cta", "cluster", "gpu", "sys"]);
        self.ignore(&["weak", "relaxed", "volatile", "mmio", "nc"]);
        self.ignore(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
        self.ignore(&["level::eviction_priority"]);
    }

    /// A part that was not understood.
    pub(crate) fn rest(&self) -> Option<&'a str> {
        self.list.first().copied()
    }
}
