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
/// The error that some calls are tried again after.
const OUT_OF_MEMORY: u32 = 2;
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
fn some(count: u64) -> BTreeSet<u64> {
    let chosen = [1, 2, count / 2, count].into_iter();
    chosen.filter(|n| (1..=count).contains(n)).collect()
}

/// Runs the script once for each call that is to fail.
fn each(
    fake: &Arc<FakeCuda>,
    chosen: fn(u64) -> BTreeSet<u64>,
    (code, sticky): (u32, bool),
    mut look: impl FnMut(&str, &Outcome),
) {
    for (function, count) in counts(fake) {
        for nth in chosen(count) {
            fake.fail(&function, Planned { nth, code, sticky });
            let outcome = script::run(fake);
            let is_right = match sticky {
                true => ends_all(&outcome),
                false => ends_one(&outcome),
            };
            assert!(is_right, "{function}, call {nth}, code {code}: {outcome:?}");
            look(&function, &outcome);
            fake.reset();
        }
    }
}

/// True if a failure ended one session at most, and no image is blamed for it.
fn ends_one(outcome: &Outcome) -> bool {
    let device = outcome.device.as_ref();
    let blames = device.is_some_and(|failure| failure.code == Code::BadModule);
    let ended = outcome.sessions.iter().flatten().count();
    ended <= 1 && outcome.lost.is_none() && !blames
}

/// True if the device says that it is lost, unless the call was one of the last or the device was not open.
fn ends_all(outcome: &Outcome) -> bool {
    outcome.lost.is_some() || !outcome.opened || !outcome.tells()
}

#[test]
fn a_call_that_fails_once_ends_one_session_at_most() {
    let Some(fake) = enter(
        module_path!(),
        "a_call_that_fails_once_ends_one_session_at_most",
    ) else {
        return;
    };
    let (mut silent, mut told) = (BTreeSet::new(), BTreeSet::new());
    each(&fake, some, (UNKNOWN, false), |function, outcome| {
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
    each(&fake, some, (LAUNCH_FAILED, true), |_, _| ());
}

#[test]
#[ignore = "two minutes: every single call, with three codes"]
fn every_call_may_fail() {
    let Some(fake) = enter(module_path!(), "every_call_may_fail") else {
        return;
    };
    for plan in [
        (UNKNOWN, false),
        (OUT_OF_MEMORY, false),
        (LAUNCH_FAILED, true),
    ] {
        each(&fake, |count| (1..=count).collect(), plan, |_, _| ());
    }
}
