//! Tables of functions that the CUDA runtime asks its driver for. No manual describes them; without
//! them a program that contains the runtime (nvcc's, CuPy, PyTorch, cuBLAS) fails with its first call.
//!
//! A person turns them on (`client.runtime_tables`), because whether NVIDIA's software may be used with
//! another driver is for them to decide: see docs/cuda-runtime.md. All is answered here; nothing of it
//! goes to the cluster.
//!
//! | module | what |
//! | --- | --- |
//! | [`ids`] | which tables somebody has described |
//! | [`layout`] | the tables, and which of their functions do something |
//! | [`answer`] | the functions |
//! | [`digest`] | the number by which the runtime knows its driver |
//! | [`storage`] | what libraries keep with a context |

#[cfg(feature = "runtime-tables")]
mod answer;
#[cfg(feature = "runtime-tables")]
mod digest;
mod ids;
#[cfg(feature = "runtime-tables")]
mod layout;
#[cfg(feature = "runtime-tables")]
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ids::{IDS, Id, name};
#[cfg(feature = "runtime-tables")]
pub(crate) use storage::end as end_context;

use crate::status::{Result, Status, note};

/// Where a person says that the tables are answered: `on`.
const SETTING: &str = "WARPLOOM_CLIENT_RUNTIME_TABLES";

/// What was asked for, by id, and how often; who asked in vain first.
static ASKED: Mutex<BTreeMap<Id, (bool, u64)>> = Mutex::new(BTreeMap::new());

static USED: AtomicBool = AtomicBool::new(false);

/// Most ids that are told apart.
const KINDS: usize = 64;

/// Whether a person turned the tables on.
fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| cfg!(feature = "runtime-tables") && setting() == "on")
}

fn setting() -> String {
    let value = std::env::var_os(SETTING).unwrap_or_default();
    value.to_string_lossy().trim().to_lowercase()
}

/// The table of an id.
///
/// # Errors
/// `NOT_FOUND` for an id that nobody has described, and for all where the tables are off.
pub(crate) fn find(id: Id) -> Result<*const c_void> {
    let answered = if is_on() { table(&id) } else { None };
    let first = count(id, answered.is_some());
    if let Some(table) = answered {
        USED.store(true, Ordering::Relaxed);
        return Ok(table);
    }
    if IDS.contains(&id) {
        note(Status::NOT_FOUND, refusal());
        if first {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "warploom: {}", refusal());
        }
    }
    Err(Status::NOT_FOUND)
}

#[cfg(feature = "runtime-tables")]
fn table(id: &Id) -> Option<*const c_void> {
    layout::find(id)
}

#[cfg(not(feature = "runtime-tables"))]
fn table(_: &Id) -> Option<*const c_void> {
    None
}

/// At the end of a context; nothing is kept with it.
#[cfg(not(feature = "runtime-tables"))]
pub(crate) fn end_context(_: usize) {}

/// What is said once to a program whose runtime is refused.
fn refusal() -> String {
    let how = if cfg!(feature = "runtime-tables") {
        "start it with `warploom run --cuda-runtime`, or set client.runtime_tables = on \
         (WARPLOOM_CLIENT_RUNTIME_TABLES=on)"
    } else {
        "build libcuda with its feature `runtime-tables`"
    };
    format!(
        "this program contains NVIDIA's CUDA runtime, which does not start without tables that are \
         answered only where you say so: {how}; docs/cuda-runtime.md has what they are and what the \
         runtime's licence says"
    )
}

/// Counts a question; whether it is the first one of the runtime's that is refused.
fn count(id: Id, answered: bool) -> bool {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let first = !asked.iter().any(|(id, row)| !row.0 && IDS.contains(id));
    if asked.len() < KINDS || asked.contains_key(&id) {
        let row = asked.entry(id).or_insert((answered, 0));
        row.1 += 1;
    }
    first
}

/// Functions that were called and that nobody has described, by their places in their tables.
static MISSED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Notes such a function.
#[cfg(feature = "runtime-tables")]
fn missed(place: usize) {
    MISSED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(place);
}

/// Whether a runtime in this process was answered.
pub(crate) fn is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// How many questions were answered, and how many refused.
pub(crate) fn counts() -> (u64, u64) {
    let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let count = |answered| {
        let rows = asked.values().filter(move |row| row.0 == answered);
        rows.map(|row| row.1).sum()
    };
    (count(true), count(false))
}

/// What was asked for, for `--stats`; empty where nothing was.
pub(crate) fn told() -> String {
    let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
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
        let _ = write!(text, "{before}{} {times} times", name(id));
    }
    if count > 0 {
        text.push(')');
    }
    for place in MISSED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = write!(text, ", place {place} of a table called in vain");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_refused_with_the_remedy_and_counted() {
        // No test sets the variable for its own process.
        let known = IDS[0];
        assert_eq!(find(known), Err(Status::NOT_FOUND));
        assert_eq!(find([7; 16]), Err(Status::NOT_FOUND));
        let text = told();
        assert!(text.contains("0 answered"), "{text}");
        assert!(
            text.contains(&format!("{} 1 times", name(&[7; 16]))),
            "{text}"
        );
        let why = crate::status::explain(Status::NOT_FOUND.0).expect("explained");
        assert!(why.contains("--cuda-runtime"), "{why}");
    }
}
