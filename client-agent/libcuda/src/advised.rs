//! Advice about ranges of managed memory, and the place to which each was last prefetched. It has
//! no effect; it is kept only to answer programs that ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::ops::Range;

/// A place of memory: `CUmemLocationType`, and the index among places of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// No place, a device, the host.
const NONE: c_int = 0;
pub(crate) const DEVICE: c_int = 1;
pub(crate) const HOST: c_int = 2;
/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`, used where a place is given as a device number.
pub(crate) const CPU: c_int = -1;
const NOWHERE: c_int = -2;

impl Place {
    /// The place as a device number.
    pub(crate) fn number(self) -> c_int {
        match self.kind {
            NONE => NOWHERE,
            DEVICE => self.id,
            _ => CPU,
        }
    }
}

/// The advice for a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Place,
    /// Numbers of devices, and that of the host.
    pub(crate) accessed_by: BTreeSet<c_int>,
    pub(crate) prefetched: Place,
}

/// Advice by page: runs of pages with equal advice, each by its begin, with its end.
#[derive(Debug, Default)]
pub(crate) struct Advised {
    runs: BTreeMap<u64, (u64, Advice)>,
}

impl Advised {
    /// Changes the advice for a range of whole pages.
    pub(crate) fn change(&mut self, range: Range<u64>, change: impl Fn(&mut Advice)) {
        self.split(range.start);
        self.split(range.end);
        let mut at = range.start;
        while at < range.end {
            let next = self.runs.range(at..range.end).next();
            let next = next.map(|(start, (end, _))| (*start, *end));
            let (start, end) = next.unwrap_or((range.end, range.end));
            if at < start {
                // These pages have no advice yet.
                let mut advice = Advice::default();
                change(&mut advice);
                self.runs.insert(at, (start, advice));
            }
            if let Some((_, advice)) = self.runs.get_mut(&start).filter(|_| start < range.end) {
                change(advice);
            }
            at = end.max(start);
        }
    }

    /// Splits the run that contains an address, so that a run begins there.
    fn split(&mut self, at: u64) {
        let before = self.runs.range_mut(..at).next_back();
        let Some((_, (end, advice))) = before.filter(|(_, (end, _))| *end > at) else {
            return;
        };
        let rest = (std::mem::replace(end, at), advice.clone());
        self.runs.insert(at, rest);
    }

    /// Forgets the advice for a range that is freed.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        self.runs.retain(|start, _| !range.contains(start));
    }

    /// The advice that holds for all pages of a range; fields that differ have their default.
    pub(crate) fn of(&self, range: Range<u64>) -> Advice {
        let before = self.runs.range(..range.start).next_back();
        let before = before.filter(|(_, (end, _))| *end > range.start);
        let runs = before.into_iter().chain(self.runs.range(range.clone()));
        let (mut at, mut all) = (range.start, None::<Advice>);
        for (start, (end, advice)) in runs {
            if *start > at {
                break;
            }
            at = *end;
            all = Some(match all {
                None => advice.clone(),
                Some(all) => both(all, advice),
            });
        }
        all.filter(|_| at >= range.end).unwrap_or_default()
    }
}

/// The advice that holds for both.
fn both(mut all: Advice, more: &Advice) -> Advice {
    let same = |one: Place, other: Place| if one == other { one } else { Place::default() };
    all.read_mostly &= more.read_mostly;
    all.preferred = same(all.preferred, more.preferred);
    all.prefetched = same(all.prefetched, more.prefetched);
    all.accessed_by
        .retain(|device| more.accessed_by.contains(device));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_differs_within_a_range_is_no_answer_for_it() {
        let mut advised = Advised::default();
        let here = Place {
            kind: DEVICE,
            id: 0,
        };
        advised.change(0..100, |it| it.preferred = here);
        advised.change(40..60, |it| it.read_mostly = true);
        assert_eq!(advised.of(0..100).preferred, here);
        assert!(!advised.of(0..100).read_mostly && advised.of(45..60).read_mostly);
        assert_eq!(
            advised.of(90..110),
            Advice::default(),
            "of the rest nothing was said"
        );
        assert_eq!(advised.of(200..300).preferred.number(), NOWHERE);
        advised.forget(0..50);
        assert_eq!(advised.of(0..50), Advice::default());
        assert_eq!(advised.of(50..100).preferred.number(), 0);
        let host = Place { kind: HOST, id: 0 };
        assert_eq!(host.number(), CPU);
    }

    proptest! {
        /// The runs behave like one entry for each page.
        #[test]
        fn runs_are_as_pages(
            steps in prop::collection::vec((0..40_u64, 1..20_u64, 0..4_u8, 0..3), 1..40),
            asked in prop::collection::vec((0..50_u64, 1..20_u64), 1..20),
        ) {
            let (mut advised, mut pages) = (Advised::default(), vec![Advice::default(); 80]);
            for (start, len, kind, id) in steps {
                let range = start..start + len;
                let place = Place { kind: DEVICE, id };
                let change = |it: &mut Advice| match kind {
                    0 => it.read_mostly = id == 0,
                    1 => it.preferred = place,
                    2 => drop(it.accessed_by.insert(id)),
                    _ => it.prefetched = place,
                };
                match (kind, id) {
                    (3, 2) => {
                        advised.forget(range.clone());
                        pages[start as usize..(start + len) as usize].fill(Advice::default());
                    }
                    _ => {
                        advised.change(range.clone(), change);
                        pages[start as usize..(start + len) as usize].iter_mut().for_each(change);
                    }
                }
            }
            for (start, len) in asked {
                let found = advised.of(start..start + len);
                let all = &pages[start as usize..(start + len) as usize];
                let wanted = all[1..].iter().fold(all[0].clone(), both);
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
