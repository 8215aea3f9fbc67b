use bus_schemas::{MeasuredKernel, WIRE_VERSION};
use proptest::prelude::*;

use super::*;

const WORKER: Incarnation = Incarnation(1);

fn measured(key: u64, count: u64, total_ns: u64) -> Measured {
    Measured {
        v: WIRE_VERSION,
        kernels: vec![MeasuredKernel {
            key: KernelKey(key),
            count,
            total_ns,
        }],
    }
}

fn config() -> LeaderConfig {
    LeaderConfig::new("lab".parse().unwrap())
}

/// A learner and its measurements of one key.
struct Lab {
    learner: Learner,
    now: Nanos,
    count: u64,
    ns: u64,
}

impl Lab {
    fn new(profile: &Profile) -> Self {
        Self {
            learner: Learner::new(profile, profile.version, 0),
            now: 0,
            count: 0,
            ns: 0,
        }
    }

    /// Adds launches of `each` nanoseconds and makes a version; returns the profile's value of the
    /// key.
    fn version(&mut self, launches: u64, each: u64) -> u64 {
        (self.count, self.ns) = (self.count + launches, self.ns + launches * each);
        let measured = measured(1, self.count, self.ns);
        self.learner.measured(WORKER, &measured, true);
        self.now += config().learn;
        self.learner.next(self.now, &config());
        self.learner.profile().entries[0].1
    }
}

#[test]
fn estimates_follow_what_was_measured_since() {
    let config = config();
    let profile = Profile::of(4, vec![(KernelKey(1), 1_000), (KernelKey(2), 1_000)]);
    let mut learner = Learner::new(&profile, 4, 0);
    assert_eq!(learner.next(0, &config), None);
    // Within a fifth: the estimate stays. Totals are absolute: a repeated one adds nothing.
    learner.measured(WORKER, &measured(1, 10, 11_000), true);
    learner.measured(WORKER, &measured(1, 10, 11_000), true);
    assert_eq!(learner.next(1, &config), None);
    // One that is off, and one that was unknown.
    learner.measured(WORKER, &measured(2, 10, 30_000), true);
    learner.measured(WORKER, &measured(3, 1, 77), true);
    assert_eq!(learner.next(2, &config), None, "at most once in a while");
    let changed = learner.next(2 + config.learn, &config).unwrap();
    assert_eq!((changed.version, changed.whole), (5, false));
    // As many launches as the profile counts for differ: half of each.
    assert_eq!(changed.entries, [(KernelKey(2), 2_000), (KernelKey(3), 77)]);
    let whole = learner.profile();
    assert_eq!((whole.entries.len(), whole.version), (3, 5));
    assert_eq!(whole.hash, changed.hash, "the hash is of all there is");
    assert_eq!(whole.hash, Profile::of(9, whole.entries).hash);
}

#[test]
fn what_is_pinned_learns_nothing_and_counts_nothing_twice() {
    let mut lab = Lab::new(&Profile::of(7, vec![(KernelKey(1), 500)]));
    let before = lab.learner.profile();
    lab.learner
        .measured(WORKER, &measured(1, 1_000, 9_000_000), false);
    assert_eq!(lab.learner.next(u64::MAX, &config()), None);
    assert_eq!(lab.learner.profile(), before);
    // Unpinned, earlier measurements do not count.
    (lab.count, lab.ns) = (1_000, 9_000_000);
    assert_eq!(lab.version(1_000, 500), 500);
}

#[test]
fn a_first_launch_that_loaded_its_code_is_forgotten_in_one_version() {
    let mut lab = Lab::new(&Profile::default());
    assert_eq!(lab.version(1, 30_000_000), 30_000_000);
    assert_eq!(lab.version(5, 10_000), 10_000);
}

#[test]
fn one_launch_out_of_many_does_not_move_an_estimate() {
    let mut lab = Lab::new(&Profile::default());
    lab.version(1_000, 10_000);
    assert_eq!(lab.version(1, 10_000_000), 10_000);
    // It is slower from now on, by a factor of a hundred: learned in two versions.
    lab.version(1_000, 1_000_000);
    let slower = lab.version(1_000, 1_000_000);
    assert!((900_000..1_100_000).contains(&slower), "{slower}");
}

#[test]
fn a_full_profile_forgets_what_was_measured_longest_ago() {
    let entries = (0..KEYS as u64).map(|key| (KernelKey(key), 50));
    let mut learner = Learner::new(&Profile::of(1, entries.collect()), 1, 0);
    let old = learner.estimates.len();
    // The first half is in use.
    for key in 0..KEYS as u64 / 2 {
        learner.measured(WORKER, &measured(key, 8, 400), true);
    }
    assert_eq!(learner.next(1, &config()), None, "as estimated");
    learner.version = 2;
    learner.measured(WORKER, &measured(1 << 40, 1, 9), true);
    let changed = learner.next(u64::MAX, &config()).unwrap();
    let gone: Vec<_> = changed.entries.iter().filter(|(_, ns)| *ns == 0).collect();
    assert_eq!(gone.len(), FORGOTTEN);
    assert!(gone.iter().all(|(key, _)| key.0 >= KEYS as u64 / 2));
    assert_eq!(learner.estimates.len(), old - FORGOTTEN + 1);
    assert_eq!(changed.hash, learner.profile().hash);
}

proptest! {
    /// For any measurements in any messages, one version later every measured key has an estimate,
    /// within the time that its launches took.
    #[test]
    fn all_that_is_measured_is_learned_within_one_version(
        launches in prop::collection::vec((0..20_u64, 1..1_000_000_u64), 1..100),
        said in prop::collection::vec(any::<bool>(), 100),
    ) {
        let mut learner = Learner::new(&Profile::default(), 0, 0);
        let mut totals = BTreeMap::<u64, (u64, u64)>::new();
        for ((key, ns), said) in launches.iter().zip(said) {
            let total = totals.entry(*key).or_default();
            *total = (total.0 + 1, total.1 + ns);
            if said {
                learner.measured(WORKER, &measured(*key, total.0, total.1), true);
            }
        }
        for (key, (count, ns)) in &totals {
            learner.measured(WORKER, &measured(*key, *count, *ns), true);
        }
        let profile = learner.next(0, &config()).expect("a version");
        prop_assert_eq!(profile.version, 1);
        for (key, (count, ns)) in totals {
            let found = profile.entries.iter().find(|(known, _)| known.0 == key);
            prop_assert_eq!(found.map(|(_, ns)| *ns), Some((ns / count).max(1)));
        }
    }

    /// A kernel with launches that take 1 or 1000, depending on its argument. After a few versions
    /// the estimate is about their mean, and stays there.
    #[test]
    fn an_estimate_of_what_varies_a_thousandfold_is_steady(
        seed in any::<u64>(), part in 2..9_u64,
    ) {
        let mut lab = Lab::new(&Profile::default());
        let (mut state, mut took, mut launches) = (seed | 1, 0, 0);
        for version in 0..40 {
            let mut ns = 0;
            for _ in 0..200 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ns += if (state >> 33).is_multiple_of(part) { 1_000_000 } else { 1_000 };
            }
            (took, launches) = (took + ns, launches + 200);
            (lab.count, lab.ns) = (lab.count + 199, lab.ns + ns - ns / 200);
            let says = lab.version(1, ns / 200);
            let mean = took / launches;
            if version > 10 {
                prop_assert!((mean / 2..mean * 2).contains(&says), "{says} of {mean}");
            }
        }
    }
}
