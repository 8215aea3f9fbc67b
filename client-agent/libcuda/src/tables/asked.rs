//! Counts of the tables that the program's runtime requested, for `--stats`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ids::{IDS, Id};
use crate::lock::lock;
use crate::uuid;

/// The requested tables, by id: whether it was answered, and how often.
static ASKED: Mutex<BTreeMap<Id, (bool, u64)>> = Mutex::new(BTreeMap::new());
/// True if any request was answered.
static USED: AtomicBool = AtomicBool::new(false);
/// Functions that were called and are not described, by their places in their tables.
static MISSED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Maximum number of ids that are counted separately.
const KINDS: usize = 64;

/// Counts a request; returns true if it is the first one of the runtime that is refused.
pub(super) fn count(id: Id, answered: bool) -> bool {
    let mut asked = lock(&ASKED);
    let first = !asked.iter().any(|(id, row)| !row.0 && IDS.contains(id));
    if asked.len() < KINDS || asked.contains_key(&id) {
        let row = asked.entry(id).or_insert((answered, 0));
        row.1 += 1;
    }
    if answered {
        USED.store(true, Ordering::Relaxed);
    }
    first
}

/// Notes a call of a function that is not described.
#[cfg(feature = "runtime-tables")]
pub(super) fn missed(place: usize) {
    lock(&MISSED).insert(place);
}

/// True if a runtime in this process was answered.
pub(crate) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Number of requests that were answered, and that were refused.
pub(crate) fn counts() -> (u64, u64) {
    let asked = lock(&ASKED);
    let count = |answered| {
        let rows = asked.values().filter(move |row| row.0 == answered);
        rows.map(|row| row.1).sum()
    };
    (count(true), count(false))
}

/// The counts in words, for `--stats`; empty if there were no requests.
pub(crate) fn report() -> String {
    let asked = lock(&ASKED);
    if asked.is_empty() {
        return String::new();
    }
    let answered: u64 = asked.values().filter(|row| row.0).map(|row| row.1).sum();
    let refused: Vec<_> = asked.iter().filter(|(_, row)| !row.0).collect();
    let count: u64 = refused.iter().map(|(_, row)| row.1).sum();
    let mut text = format!("; runtime tables: {answered} answered, {count} refused");
    for (at, (id, row)) in refused.into_iter().enumerate() {
        let (before, times) = (if at == 0 { " (" } else { ", " }, row.1);
        // Writing to a string does not fail.
        let _ = write!(text, "{before}{} {times} times", uuid::text(id));
    }
    if count > 0 {
        text.push(')');
    }
    for place in lock(&MISSED).iter() {
        let _ = write!(text, ", place {place} of a table called in vain");
    }
    text
}
