//! Stretches of time: those of a request that none of its spans cover.

/// Stretches shorter than this are no span of their own, nanoseconds.
pub(crate) const LEAST: u64 = 1_000;

/// A stretch of time, nanoseconds since 1970: from, to.
pub(crate) type Stretch = (u64, u64);

/// Cuts a stretch to the bounds of another.
pub(crate) fn within(stretch: Stretch, bounds: Stretch) -> Stretch {
    let from = stretch.0.clamp(bounds.0, bounds.1);
    (from, stretch.1.clamp(from, bounds.1))
}

/// The parts of `whole` that no stretch covers, in order, without those that are too short.
pub(crate) fn uncovered(whole: Stretch, mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.sort_unstable();
    let mut gaps = Vec::new();
    let mut covered = whole.0;
    for (from, to) in stretches.into_iter().chain([(whole.1, whole.1)]) {
        let from = from.min(whole.1);
        if from >= covered.saturating_add(LEAST) {
            gaps.push((covered, from));
        }
        covered = covered.max(to);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_are_what_no_stretch_covers() {
        let at = |n: u64| n * LEAST;
        let stretch = |from, to| (at(from), at(to));
        let stretches = vec![stretch(5, 7), stretch(2, 3), stretch(6, 9), stretch(1, 2)];
        let gaps = uncovered(stretch(0, 10), stretches);
        assert_eq!(gaps, [stretch(0, 1), stretch(3, 5), stretch(9, 10)]);
        assert_eq!(uncovered(stretch(0, 4), vec![]), [stretch(0, 4)]);
        assert_eq!(uncovered((0, LEAST - 1), vec![]), []);
        assert_eq!(within((1, 9), (3, 5)), (3, 5));
        assert_eq!(within((8, 9), (3, 5)), (5, 5));
    }

    proptest! {
        #[test]
        fn gaps_and_stretches_cover_all_but_a_little(
            stretches in prop::collection::vec((0u64..50_000, 0u64..20_000), 0..12),
        ) {
            let stretches: Vec<_> = stretches.into_iter().map(|(from, long)| (from, from + long)).collect();
            let whole = (0, 60_000);
            let gaps = uncovered(whole, stretches.clone());
            for gap in &gaps {
                prop_assert!(gap.1 - gap.0 >= LEAST && gap.1 <= whole.1);
                prop_assert!(stretches.iter().all(|it| it.1 <= gap.0 || it.0 >= gap.1 || it.0 == it.1));
            }
            let together = gaps.iter().chain(&stretches).copied().collect();
            prop_assert_eq!(uncovered(whole, together), vec![]);
        }
    }
}
