//! Every call of the driver fails, in turn: each time a failure is told or the call did not matter, the other
//! session goes on, and nothing hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bus_schemas::Code;
use fake_cuda::{FakeCuda, Planned};

use crate::script::{self, Outcome};
use crate::setup::enter;

/// Any error.
const UNKNOWN: u32 = 999;
/// The error of a kernel that failed.
const LAUNCH_FAILED: u32 = 719;

/// Functions with failures that the device does not tell, because nothing depends on them.
const TOLERATED: [&str; 11] = [
    // The device has no UUID of its own, or no figures of clusters; its worker gives it one.
    "cuDeviceGetUuid_v2",
    "cuOccupancyMaxActiveClusters",
    // Times are 0.
    "cuEventElapsedTime",
    // A buffer is made when it is needed.
    "cuMemHostAlloc",
    // What is dropped has no owner any more.
    "cuEventDestroy_v2",
    "cuLinkDestroy",
    "cuMemAddressFree",
    "cuMemFreeHost",
    "cuMemRelease",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
];

/// Number of calls of each function in a run in which none fails.
fn counts(fake: &Arc<FakeCuda>) -> BTreeMap<String, u64> {
    let outcome = script::run(fake);
    assert!(!outcome.tells() && outcome.lost.is_none(), "{outcome:?}");
    let functions = fake.functions().iter();
    let counts = functions.map(|it| (it.clone(), fake.count(it)));
    let counts: BTreeMap<_, _> = counts.filter(|(_, count)| *count > 0).collect();
    fake.reset();
    counts
}

/// The calls of a function that are to fail: the first, the last and some between.
fn chosen(count: u64) -> BTreeSet<u64> {
    [1, 2, count / 2, count]
        .into_iter()
        .filter(|n| (1..=count).contains(n))
        .collect()
}

/// Runs the script once for each call that is to fail.
fn each(
    fake: &Arc<FakeCuda>,
    (code, sticky): (u32, bool),
    mut look: impl FnMut(&str, u64, Outcome),
) {
    for (function, count) in counts(fake) {
        for nth in chosen(count) {
            fake.fail(&function, Planned { nth, code, sticky });
            let outcome = script::run(fake);
            look(&function, nth, outcome);
            fake.reset();
        }
    }
}

#[test]
fn a_call_that_fails_once_ends_one_session_at_most() {
    let Some(fake) = enter(
        module_path!(),
        "a_call_that_fails_once_ends_one_session_at_most",
    ) else {
        return;
    };
    let mut silent = BTreeSet::new();
    let mut told = BTreeSet::new();
    each(&fake, (UNKNOWN, false), |function, nth, outcome| {
        let ended = outcome.sessions.iter().flatten().count();
        assert!(
            ended <= 1 && outcome.lost.is_none(),
            "{function} {nth}: {outcome:?}"
        );
        let code = outcome.device.as_ref().map(|failure| failure.code);
        assert_ne!(
            code,
            Some(Code::BadModule),
            "{function} {nth}: no image is wrong"
        );
        match outcome.tells() {
            true => told.insert(function.to_owned()),
            false => silent.insert(function.to_owned()),
        };
    });
    let silent: BTreeSet<&str> = silent.difference(&told).map(String::as_str).collect();
    assert_eq!(silent, BTreeSet::from(TOLERATED));
}

#[test]
fn a_call_that_ends_the_context_ends_all_sessions_and_nothing_hangs() {
    let Some(fake) = enter(
        module_path!(),
        "a_call_that_ends_the_context_ends_all_sessions_and_nothing_hangs",
    ) else {
        return;
    };
    each(&fake, (LAUNCH_FAILED, true), |function, nth, outcome| {
        // The call was one of the last, or the device was not there yet.
        let is_told = outcome.lost.is_some() || !outcome.opened;
        assert!(is_told || !outcome.tells(), "{function} {nth}: {outcome:?}");
    });
}
