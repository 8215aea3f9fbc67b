//! Positions that a worker accepted and that nobody tells: named by the record as a gap, or not.

use bus_schemas::GpuPosition;

/// From one position to another, both of them included.
type Stretch = (GpuPosition, GpuPosition);

/// What of a stretch lies in none of those that are named, in order.
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

/// How many positions a stretch is; none, where it ends before it begins.
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
