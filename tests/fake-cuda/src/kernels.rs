//! The time of a kernel, by its name.
//!
//! A name that ends in a number and a unit lasts that long: `spin_13us`, `long_2ms`, `short_700ns`, `day_1s`.
//! Every other kernel lasts as long as an empty one. Its blocks are those of its grid.

use crate::Nanos;
use crate::costs::EMPTY;

/// Units, those with longer names first.
const UNITS: [(&str, Nanos); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Nanoseconds of a kernel of this name.
pub(crate) fn duration(name: &str) -> Nanos {
    let last = name.rsplit_once('_').map(|(_, last)| last);
    let told = last.and_then(|last| {
        UNITS.iter().find_map(|(unit, ns)| {
            let number = last.strip_suffix(unit)?.parse::<Nanos>().ok()?;
            number.checked_mul(*ns)
        })
    });
    told.unwrap_or(EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_how_long_it_lasts() {
        for (name, ns) in [
            ("spin_13us", 13_000),
            ("long_2ms", 2_000_000),
            ("short_700ns", 700),
            ("day_1s", 1_000_000_000),
            ("increment", EMPTY),
            ("matmul_128", EMPTY),
            ("some_words", EMPTY),
        ] {
            assert_eq!(duration(name), ns, "{name}");
        }
    }
}
