//! The launches of a slice in runs. A run's time is measured as a whole, from one mark on the device to the
//! next.

use bus_schemas::KernelKey;

/// More nanoseconds than any launch takes.
const HOURS: u64 = 1 << 44;

/// Launches of one kernel in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) key: KernelKey,
    /// Number of SMs that each may occupy.
    pub(super) sms: u64,
    pub(super) count: u64,
}

/// Launches between two marks.
#[derive(Debug)]
struct Run<M> {
    /// Its own mark in front of it; otherwise it begins at the end of the run before.
    from: Option<M>,
    launches: Vec<Launched>,
    /// `None` while more may follow; then it ends with its slice.
    end: Option<M>,
}

/// The runs of a slice.
#[derive(Debug)]
pub(super) struct Runs<M> {
    runs: Vec<Run<M>>,
    launched: usize,
    /// True if work in front of the next run is not the time of launches.
    apart: bool,
}

impl<M> Default for Runs<M> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            launched: 0,
            apart: false,
        }
    }
}

impl<M> Runs<M> {
    /// Number of launches so far.
    pub(super) fn launched(&self) -> usize {
        self.launched
    }

    /// True if the last run may continue.
    pub(super) fn is_open(&self) -> bool {
        self.runs.last().is_some_and(|run| run.end.is_none())
    }

    /// Ends the open run.
    pub(super) fn close(&mut self, end: M) {
        if let Some(run) = self.runs.last_mut() {
            run.end.get_or_insert(end);
        }
    }

    /// Excludes the following work from the time of launches; the last run is closed.
    pub(super) fn part(&mut self) {
        self.apart = true;
    }

    /// True if the next launch begins a run that needs a mark in front of it.
    pub(super) fn wants_begin(&self) -> bool {
        self.apart && !self.is_open()
    }

    /// Begins a run behind a mark.
    pub(super) fn begin(&mut self, from: Option<M>) {
        self.apart = false;
        self.runs.push(Run {
            from,
            launches: Vec::new(),
            end: None,
        });
    }

    /// Adds a launch to the open run, or to a new one.
    pub(super) fn add(&mut self, key: KernelKey, sms: u64) {
        if !self.is_open() {
            self.begin(None);
        }
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        self.launched += 1;
        match run.launches.last_mut().filter(|last| last.key == key) {
            Some(last) => last.count += 1,
            None => run.launches.push(Launched { key, sms, count: 1 }),
        }
    }

    /// Returns the runs of a slice that began and ended at these marks, each with its own marks.
    pub(super) fn each<'r>(
        &'r self,
        begin: &'r M,
        end: Option<&'r M>,
    ) -> impl Iterator<Item = (&'r M, Option<&'r M>, &'r [Launched])> {
        let mut before = begin;
        self.runs.iter().map(move |run| {
            let from = run.from.as_ref().unwrap_or(before);
            let end = run.end.as_ref().or(end);
            before = end.unwrap_or(from);
            (from, end, &run.launches[..])
        })
    }
}

/// Divides the `ns` nanoseconds of a run among its launches, by the approximate time of each. The shares add
/// up.
pub(super) fn divide(
    ns: u64,
    launches: &[Launched],
    about: impl Fn(KernelKey) -> u64,
) -> Vec<(Launched, u64)> {
    let weight = |it: &Launched| u128::from(about(it.key).min(HOURS)) * u128::from(it.count);
    let all: u128 = launches.iter().map(weight).sum();
    let (mut passed, mut given) = (0, 0);
    let shares = launches.iter().map(|it| {
        passed += weight(it);
        let through = u128::from(ns) * passed / all.max(1);
        let through = u64::try_from(through).unwrap_or(ns);
        let share = through - given;
        given = through;
        (*it, share)
    });
    shares.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KernelKey = KernelKey(1);
    const B: KernelKey = KernelKey(2);

    fn launched(key: KernelKey, count: u64) -> Launched {
        Launched { key, sms: 4, count }
    }

    #[test]
    fn launches_in_a_row_are_one_run_that_ends_with_its_slice() {
        let mut runs = Runs::default();
        for key in [A, A, B, A] {
            runs.add(key, 4);
        }
        assert!(runs.is_open() && !runs.wants_begin());
        assert_eq!(runs.launched(), 4);
        let each: Vec<_> = runs.each(&10, Some(&90)).collect();
        let launches = [launched(A, 2), launched(B, 1), launched(A, 1)];
        assert_eq!(each, [(&10, Some(&90), &launches[..])]);
    }

    #[test]
    fn a_run_begins_where_the_one_before_ends() {
        let mut runs = Runs::default();
        runs.add(A, 4);
        runs.close(30);
        runs.add(B, 4);
        let (first, second) = ([launched(A, 1)], [launched(B, 1)]);
        let each: Vec<_> = runs.each(&10, Some(&90)).collect();
        let marks = [(&10, Some(&30), &first[..]), (&30, Some(&90), &second[..])];
        assert_eq!(each, marks);
    }

    #[test]
    fn what_is_no_launch_is_left_out() {
        let mut runs = Runs::default();
        runs.part();
        assert!(runs.wants_begin(), "before the first");
        runs.begin(Some(20));
        runs.add(A, 4);
        runs.close(30);
        runs.part();
        assert!(runs.wants_begin());
        runs.begin(Some(70));
        runs.add(B, 4);
        assert!(!runs.wants_begin());
        let spans: Vec<_> = runs
            .each(&10, None)
            .map(|(from, to, _)| (from, to))
            .collect();
        assert_eq!(spans, [(&20, Some(&30)), (&70, None)]);
    }

    #[test]
    fn shares_follow_the_means_and_add_up() {
        let launches = [launched(A, 3), launched(B, 1), launched(A, 1)];
        let about = |key| if key == A { 10 } else { 30 };
        let shares = |ns| -> Vec<u64> {
            let shares = divide(ns, &launches, about);
            shares.into_iter().map(|(_, ns)| ns).collect()
        };
        assert_eq!(shares(700), [300, 300, 100]);
        for ns in [0, 1, 6, 1_000_003, u64::MAX] {
            assert_eq!(shares(ns).iter().sum::<u64>(), ns, "{ns}");
        }
        assert_eq!(divide(9, &[], about), []);
    }
}
