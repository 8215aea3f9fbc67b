//! Many runs on all cores, with their results added up and failing scenes shrunk.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coverage::Coverage;
use crate::exhaustive::{classes, trials};
use crate::run::{Counts, Options, RunFailure, RunReport, play};
use crate::scene::Scene;
use crate::script::Script;
use crate::shrink::shrink;
use sim_cluster::Nanos;

/// The plan of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Options of each run.
    pub options: Options,
    /// Number of events of each class at which each kind of fault is tried, instead of playing the seeds'
    /// scenes as they are.
    pub every_step: Option<u64>,
    /// Number of threads.
    pub threads: usize,
    /// Maximum number of plays to shrink a failing scene; 0 leaves it as it is.
    pub shrink: u64,
    /// Number of failing scenes after which no more are played.
    pub most_failures: usize,
}

/// Results of all runs, added up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Runs in which everything held.
    pub runs: u64,
    /// Virtual nanoseconds.
    pub time: Nanos,
    /// The counters.
    pub counts: Counts,
}

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, report: &RunReport) {
        self.runs += 1;
        self.time += report.time;
        self.counts.add(&report.counts);
    }
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// The failure.
    pub failure: Box<RunFailure>,
    /// The shrunk scene, which breaks the same invariant.
    pub script: Script,
}

/// Results of a campaign.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CampaignOutcome {
    /// Totals of the passed runs.
    pub totals: Totals,
    /// Coverage of the passed runs.
    pub coverage: Coverage,
    /// Classes of events at which faults were tried.
    pub classes: u64,
    /// Failed runs, in order.
    pub failed: Vec<Failed>,
}

/// Plays a campaign. `tell` receives the number of runs, and after each run the number of finished ones.
pub fn campaign(plan: &Campaign, tell: &(dyn Fn(usize, usize) + Sync)) -> CampaignOutcome {
    let seeds: Vec<u64> = (plan.from..).take(plan.seeds as usize).collect();
    let mut outcome = CampaignOutcome::default();
    let Some(each) = plan.every_step else {
        let scene = |index: usize| Scene::draw(seeds[index], plan.options.troubles);
        play_all(plan, seeds.len(), &scene, &mut outcome, tell);
        return outcome;
    };
    let found = Mutex::new(Vec::new());
    spread(plan.threads, seeds.len(), &|index| {
        let classes = classes(seeds[index]);
        let mut found = found.lock().unwrap_or_else(|torn| torn.into_inner());
        found.push((seeds[index], classes));
        true
    });
    let mut found = found.into_inner().unwrap_or_else(|torn| torn.into_inner());
    found.sort_by_key(|(seed, _)| *seed);
    let (classes, trials) = trials(&found, each);
    outcome.classes = classes;
    let scene = |index: usize| trials[index].scene();
    play_all(plan, trials.len(), &scene, &mut outcome, tell);
    outcome
}

fn play_all(
    plan: &Campaign,
    count: usize,
    scene: &(dyn Fn(usize) -> Scene + Sync),
    outcome: &mut CampaignOutcome,
    tell: &(dyn Fn(usize, usize) + Sync),
) {
    let sums = Mutex::new((Totals::default(), Coverage::default(), 0, Vec::new()));
    tell(count, 0);
    spread(plan.threads, count, &|index| {
        let scene = scene(index);
        let result = play(&scene, &plan.options);
        let mut sums = sums.lock().unwrap_or_else(|torn| torn.into_inner());
        let (totals, coverage, done, failed) = &mut *sums;
        *done += 1;
        tell(count, *done);
        match result {
            Ok(report) => {
                totals.add(&report);
                coverage.add(&report.coverage);
            }
            Err(failure) => failed.push((index, scene, failure)),
        }
        failed.len() < plan.most_failures
    });
    let sums = sums.into_inner().unwrap_or_else(|torn| torn.into_inner());
    let (totals, coverage, _, mut failed) = sums;
    (outcome.totals, outcome.coverage) = (totals, coverage);
    failed.sort_by_key(|(index, ..)| *index);
    let small = |(_, scene, failure): (usize, Scene, Box<RunFailure>)| {
        let (mutant, invariant) = (plan.options.mutant, failure.invariant);
        let shrunk = shrink(&scene, mutant, invariant, plan.shrink);
        let script = Script::new(shrunk.scene, mutant, Some(invariant));
        Failed { failure, script }
    };
    outcome.failed = failed.into_iter().map(small).collect();
}

/// Calls `thing` for each number below `count` on several threads, until a call returns false.
fn spread(threads: usize, count: usize, thing: &(dyn Fn(usize) -> bool + Sync)) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    if !thing(index) {
                        next.store(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}
