//! Many runs on all cores, with their results added up and failing scenes shrunk.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coverage::Coverage;
use crate::exhaustive::{classes, trials};
use crate::run::{Options, RunFailure, RunReport, play};
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
    /// Events handled.
    pub steps: u64,
    /// Virtual nanoseconds.
    pub time: Nanos,
    /// Ops that ran.
    pub ops: u64,
    /// Positions that ended void.
    pub voids: u64,
    /// Sessions that ended in good order.
    pub ended: u64,
    /// Sessions that failed for a good reason.
    pub failed: u64,
    /// Runs with more than one leader.
    pub failovers: u64,
    /// Terms.
    pub epochs: u64,
    /// Faults injected.
    pub faults: u64,
    /// Positions in the replays of the records.
    pub replayed: u64,
    /// Positions in the replays that were taken from seals' tails.
    pub adopted: u64,
    /// Sessions that were opened and closed within a leader's last append.
    pub adopted_sessions: u64,
    /// Workers that are gone, with chains that match the record.
    pub gone: u64,
    /// Positions that the record names as unrecorded.
    pub unrecorded: u64,
    /// Times that a leader left inputs unrecorded.
    pub gaps: u64,
    /// Slices of closed sessions that were stopped.
    pub stopped: u64,
    /// Sessions with a client that timed out.
    pub gave_up: u64,
    /// Times that a leader took over from itself.
    pub renewed: u64,
    /// Runs in which two leaders led at the same time.
    pub rivals: u64,
    /// Epochs that a store gave out twice, to two nodes.
    pub epochs_twice: u64,
    /// Comparisons of two tenants' shares.
    pub compared: u64,
    /// Checked accesses to memory.
    pub touched: u64,
    /// Sessions that were refused memory.
    pub denied: u64,
    /// Times that a session's memory was swapped out.
    pub swaps: u64,
    /// Reports of use that were compared with the actual use.
    pub metered: u64,
    /// Blocks with moves of memory that were compared with the actual moves.
    pub moved: u64,
    /// Granted requests for several devices.
    pub several: u64,
    /// Refusals sent to clients, which ask again.
    pub declined: u64,
    /// Requests for several devices during which a worker died, when some sessions had begun and others had
    /// not.
    pub halved: u64,
    /// Workers that a leader reported as drained.
    pub drained: u64,
    /// Drained workers that had no session left and were told to leave.
    pub dismissed: u64,
}

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, report: &RunReport) {
        self.runs += 1;
        self.steps += report.steps;
        self.time += report.time;
        self.ops += report.ops;
        self.voids += report.voids;
        self.ended += report.ended;
        self.failed += report.failed;
        self.failovers += u64::from(report.epochs > 1);
        self.epochs += report.epochs;
        self.faults += report.faults;
        self.replayed += report.replayed;
        self.adopted += report.adopted;
        self.adopted_sessions += report.adopted_sessions;
        self.gone += report.gone;
        self.unrecorded += report.unrecorded;
        self.gaps += report.gaps;
        self.stopped += report.stopped;
        self.gave_up += report.gave_up;
        self.renewed += report.renewed;
        self.rivals += u64::from(report.rivals > 0);
        self.epochs_twice += report.epochs_twice;
        self.compared += report.compared;
        self.touched += report.touched;
        self.denied += report.denied;
        self.swaps += report.swaps;
        self.metered += report.metered;
        self.moved += report.moved;
        self.several += report.several;
        self.declined += report.declined;
        self.halved += report.halved;
        self.drained += report.drained;
        self.dismissed += report.dismissed;
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
