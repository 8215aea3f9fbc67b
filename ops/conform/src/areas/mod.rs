//! The checks, by area.

mod arrays;
mod capture_rules;
mod captures;
mod contexts;
mod copies;
mod devices;
mod events;
mod functions;
mod graphs;
mod launches;
mod memory;
mod modules;
mod numerics;
mod old_launches;
mod pointers;
mod pools;
mod processes;
mod streams;
mod table;
mod textures;
mod virtual_memory;

use crate::check::Check;

type Make = fn() -> Vec<Check>;

/// The areas in order.
const AREAS: &[(&str, Make)] = &[
    ("uninitialised", table::uninitialised),
    ("no-context", table::without_context),
    ("nulls", table::nulls),
    ("handles", table::handles),
    ("values", table::values),
    ("optional", table::optional),
    ("devices", devices::checks),
    ("contexts", contexts::checks),
    ("memory", memory::checks),
    ("pointers", pointers::checks),
    ("copies", copies::checks),
    ("modules", modules::checks),
    ("functions", functions::checks),
    ("launches", launches::checks),
    ("old-launches", old_launches::checks),
    ("streams", streams::checks),
    ("captures", captures),
    ("events", events::checks),
    ("graphs", graphs::checks),
    ("virtual-memory", virtual_memory::checks),
    ("pools", pools::checks),
    ("arrays", arrays::checks),
    ("textures", textures::checks),
    ("printing", processes::printing),
    ("forks", processes::forks),
    ("numerics", numerics::checks),
];

fn captures() -> Vec<Check> {
    let mut checks = captures::checks();
    checks.extend(capture_rules::checks());
    checks
}

/// The areas' names in order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    AREAS.iter().map(|(name, _)| *name).collect()
}

/// The checks of an area, always in the same order.
pub(crate) fn checks(area: &str) -> Option<Vec<Check>> {
    let (_, make) = AREAS.iter().find(|(name, _)| *name == area)?;
    Some(make())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_checks_differ_within_their_area_and_there_are_many() {
        let mut all = 0;
        for area in names() {
            let checks = checks(area).expect("an area");
            let names: BTreeSet<String> = checks
                .iter()
                .map(|it| format!("{}: {}", it.function, it.claim))
                .collect();
            assert_eq!(names.len(), checks.len(), "{area}");
            all += checks.len();
        }
        assert!(all >= 400, "{all}");
    }
}
