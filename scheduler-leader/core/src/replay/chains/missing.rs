//! Positions that a worker accepted and that have no record: some are named by a gap, others are
//! not.

use bus_schemas::GpuPosition;

/// The first and the last position of a range.
type Stretch = (GpuPosition, GpuPosition);

/// The parts of a range that are in none of the named ranges, which are in order.
pub(super) fn unnamed(
    (first, last): Stretch,
    named: impl IntoIterator<Item = Stretch>,
) -> Vec<Stretch> {
    let mut named: Vec<_> = named.into_iter().filter(|(from, to)| from <= to).collect();
    named.sort_unstable();
    let (mut rest, mut next) = (Vec::new(), first);
    for (from, to) in named {
        if to < next {
            continue;
        }
        if from > last {
            break;
        }
        if from > next {
            rest.push((next, from - 1));
        }
        next = match to.checked_add(1) {
            Some(behind) => behind,
            None => return rest,
        };
    }
    if next <= last {
        rest.push((next, last));
    }
    rest
}

/// Number of positions of a range; 0 if it ends before it begins.
pub(super) fn length((first, last): Stretch) -> u64 {
    last.saturating_add(1).saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_gap_names_is_left() {
        let of = |named: &[Stretch]| unnamed((5, 20), named.iter().copied());
        assert_eq!(of(&[]), [(5, 20)]);
        assert_eq!(of(&[(5, 20)]), []);
        assert_eq!(of(&[(0, u64::MAX)]), []);
        assert_eq!(of(&[(1, 4), (21, 30)]), [(5, 20)]);
        assert_eq!(of(&[(12, 25), (1, 7)]), [(8, 11)]);
        assert_eq!(of(&[(8, 9), (8, 8), (9, 11), (13, 12)]), [(5, 7), (12, 20)]);
    }

    proptest! {
        #[test]
        fn each_position_is_named_or_left(
            first in 1_u64..40,
            more in 0_u64..40,
            named in prop::collection::vec((0_u64..90, 0_u64..90), 0..6),
        ) {
            let last = first + more;
            let rest = unnamed((first, last), named.iter().copied());
            for at in 0..100 {
                let inside = (first..=last).contains(&at);
                let is_named = named.iter().any(|(from, to)| (*from..=*to).contains(&at));
                let left = rest.iter().filter(|(from, to)| (*from..=*to).contains(&at)).count();
                prop_assert_eq!(left, usize::from(inside && !is_named));
            }
        }
    }
}
