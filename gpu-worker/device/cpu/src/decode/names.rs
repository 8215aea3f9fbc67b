//! Names of a body: each is visible in the block of braces that declares it, and in the blocks
//! inside.
//!
//! A lookup takes the same time, whatever the number of names, ranges and blocks.

use super::form::{Bank, Slot};
use std::collections::HashMap;

/// The meaning of a name in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Register(Bank, Slot),
    /// A register of 128 bits: its halves, the low one first.
    Wide([Slot; 2]),
    /// A vector register: its elements, and their number.
    Vector(Bank, [Slot; 4], u8),
    /// A variable in the session's memory that only this function can name.
    Global(u32),
    Shared(u64),
    Dynamic,
    /// Bytes from the frame's start in local memory.
    Local(u32),
    /// Bytes from the start of the kernel's parameters.
    Param(u32),
}

impl Named {
    /// The registers of a name, one after the other.
    pub(super) fn registers(self, mut each: impl FnMut(Slot)) {
        match self {
            Self::Register(_, slot) => each(slot),
            Self::Wide(halves) => halves.into_iter().for_each(each),
            Self::Vector(_, slots, count) => {
                slots[..usize::from(count)].iter().copied().for_each(each)
            }
            _ => {}
        }
    }
}

/// A range of registers, `%r<n>`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) count: u32,
    pub(crate) bank: Bank,
    pub(crate) shape: Registers,
}

/// The contents of the registers of one declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registers {
    /// A value of their bank.
    One,
    /// 128 bits.
    Wide,
    /// This many values of their bank.
    Vector(u8),
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Declared, or used before.
    Known(Named),
    /// The first use of a register in a range, and the depth of the range.
    New(Range, u32),
}

/// Maximum number of digits of a register's number.
const DIGITS: usize = 10;

/// The names that are visible at a place of a body.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    /// By name, innermost block last.
    names: HashMap<&'a str, Vec<(u32, Named)>>,
    /// By prefix, innermost block last; the ranges of one block by ascending count.
    ranges: HashMap<&'a str, Vec<(u32, Vec<Range>)>>,
    /// Declarations of each open block: names, and prefixes of ranges.
    open: Vec<(Vec<&'a str>, Vec<&'a str>)>,
}

impl Default for Names<'_> {
    fn default() -> Self {
        Self {
            names: HashMap::new(),
            ranges: HashMap::new(),
            open: vec![Default::default()],
        }
    }
}

impl<'a> Names<'a> {
    /// Opens a block.
    pub(crate) fn open(&mut self) {
        self.open.push(Default::default());
    }

    /// Closes a block and drops its declarations.
    pub(crate) fn close(&mut self) {
        let (names, prefixes) = self.open.pop().unwrap_or_default();
        for name in names {
            if let Some(list) = self.names.get_mut(name) {
                list.pop();
            }
        }
        for prefix in prefixes {
            if let Some(list) = self.ranges.get_mut(prefix) {
                list.pop();
            }
        }
    }

    fn depth(&self) -> u32 {
        self.open.len() as u32 - 1
    }

    /// Declares a name in the innermost block.
    pub(crate) fn declare(&mut self, name: &'a str, named: Named) {
        self.declare_at(self.depth(), name, named);
    }

    /// Declares a name in an open block; no block inside it may have declared it.
    pub(crate) fn declare_at(&mut self, depth: u32, name: &'a str, named: Named) {
        let list = self.names.entry(name).or_default();
        match list.last_mut() {
            Some((at, known)) if *at == depth => *known = named,
            _ => {
                list.push((depth, named));
                self.open[depth as usize].0.push(name);
            }
        }
    }

    /// Declares a range of registers in the innermost block.
    pub(crate) fn declare_range(&mut self, prefix: &'a str, range: Range) {
        let depth = self.depth();
        let list = self.ranges.entry(prefix).or_default();
        match list.last_mut() {
            Some((at, ranges)) if *at == depth => {
                // The first range that contains a number owns it; a later range adds only higher
                // numbers.
                if ranges.last().is_none_or(|last| last.count < range.count) {
                    ranges.push(range);
                }
            }
            _ => {
                list.push((depth, vec![range]));
                self.open[depth as usize].1.push(prefix);
            }
        }
    }

    /// The meaning of a name here; the innermost block wins.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let known = self.names.get(name).and_then(|list| list.last().copied());
        // In one block, a name hides a range that contains it.
        let floor = known.map_or(0, |(depth, _)| depth + 1);
        let inner = self.open.get(floor as usize..).unwrap_or_default();
        let found = inner
            .iter()
            .any(|(_, prefixes)| !prefixes.is_empty())
            .then(|| self.numbered(name, floor))
            .flatten();
        match (found, known) {
            (Some((range, depth)), _) => Some(Found::New(range, depth)),
            (None, Some((_, named))) => Some(Found::Known(named)),
            (None, None) => None,
        }
    }

    /// The innermost range that contains a name, at `floor` or deeper.
    fn numbered(&self, name: &str, floor: u32) -> Option<(Range, u32)> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let mut best: Option<(Range, u32)> = None;
        // `%r1` may be digit 1 of `%r` or, in principle, of any shorter split.
        for split in name.len() - digits.min(DIGITS)..name.len() {
            let (prefix, number) = name.split_at(split);
            let plain = number.len() == 1 || !number.starts_with('0');
            let Some(number) = number.parse::<u32>().ok().filter(|_| plain) else {
                continue;
            };
            let blocks = self.ranges.get(prefix).map_or(&[][..], Vec::as_slice);
            let inside = blocks.iter().rev().take_while(|(depth, _)| {
                *depth >= floor && best.is_none_or(|(_, found)| *depth > found)
            });
            for (depth, ranges) in inside {
                let at = ranges.partition_point(|range| range.count <= number);
                if let Some(range) = ranges.get(at) {
                    best = Some((*range, *depth));
                    break;
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(count: u32, bank: Bank) -> Range {
        Range {
            count,
            bank,
            shape: Registers::One,
        }
    }

    fn bank(names: &Names<'_>, name: &str) -> Option<Bank> {
        match names.find(name)? {
            Found::Known(Named::Register(bank, _)) => Some(bank),
            Found::New(range, _) => Some(range.bank),
            Found::Known(_) => None,
        }
    }

    #[test]
    fn the_innermost_block_has_a_name_and_its_end_gives_it_back() {
        let mut names = Names::default();
        names.declare_range("%r", range(10, Bank::Word));
        names.declare("%r3", Named::Register(Bank::Pred, Slot(0)));
        assert_eq!(bank(&names, "%r2"), Some(Bank::Word));
        assert_eq!(bank(&names, "%r3"), Some(Bank::Pred), "by its name");
        names.open();
        names.declare_range("%r", range(4, Bank::Double));
        let inner = ["%r2", "%r3", "%r4"].map(|name| bank(&names, name));
        assert_eq!(inner, [Bank::Double, Bank::Double, Bank::Word].map(Some));
        let Some(Found::New(_, depth)) = names.find("%r2") else {
            panic!("named for the first time");
        };
        names.declare_at(depth, "%r2", Named::Register(Bank::Double, Slot(8)));
        assert!(matches!(names.find("%r2"), Some(Found::Known(_))));
        names.close();
        assert_eq!(bank(&names, "%r2"), Some(Bank::Word));
        assert_eq!(bank(&names, "%r3"), Some(Bank::Pred));
    }

    #[test]
    fn digits_belong_to_the_shortest_prefix_that_has_the_number() {
        let mut names = Names::default();
        names.declare_range("%r", range(20, Bank::Word));
        names.declare_range("%r1", range(3, Bank::Double));
        assert_eq!(bank(&names, "%r12"), Some(Bank::Word));
        names.declare_range("%s1", range(3, Bank::Double));
        assert_eq!(bank(&names, "%s12"), Some(Bank::Double));
        assert_eq!(bank(&names, "%s13"), None);
        assert_eq!(bank(&names, "%r007"), None, "no register is spelt so");
        assert_eq!(bank(&names, &format!("%r{}", "9".repeat(1 << 20))), None);
    }

    #[test]
    fn a_second_range_of_a_block_has_what_the_first_has_not() {
        let mut names = Names::default();
        names.declare_range("%r", range(4, Bank::Word));
        names.declare_range("%r", range(2, Bank::Pred));
        names.declare_range("%r", range(8, Bank::Double));
        let found = ["%r1", "%r3", "%r5", "%r8"].map(|name| bank(&names, name));
        let want = [Some(Bank::Word), Some(Bank::Word), Some(Bank::Double), None];
        assert_eq!(found, want);
    }
}
