//! Many runs on all cores, added up; what fails is made small.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coverage::Coverage;
use crate::exhaustive::{classes, trials};
use crate::run::{Options, RunFailure, RunReport, play};
use crate::scene::Scene;
use crate::script::Script;
use crate::shrink::shrink;
use sim_cluster::Nanos;

/// What to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// How to play them.
    pub options: Options,
    /// Not the seeds' scenes as they are, but each kind of fault at so many events of each class
    /// that their scenes have.
    pub every_step: Option<u64>,
    /// Threads.
    pub threads: usize,
    /// Plays spent on making a failing scene small; 0 leaves it as it is.
    pub shrink: u64,
    /// Failing scenes after which no more are played.
    pub most_failures: usize,
}

/// What all runs did together.
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
    /// Sessions that failed, for good reason.
    pub failed: u64,
    /// Runs with more than one leader.
    pub failovers: u64,
    /// Terms.
    pub epochs: u64,
    /// Faults injected.
    pub faults: u64,
    /// Positions in the replays of the records.
    pub replayed: u64,
    /// Of these, taken from seals' tails.
    pub adopted: u64,
    /// Sessions that came and went with a leader's last append.
    pub adopted_sessions: u64,
    /// Workers that were gone, and compared with what was recorded of them.
    pub gone: u64,
    /// Positions that went unrecorded, by name.
    pub unrecorded: u64,
    /// Times that a leader left inputs unrecorded.
    pub gaps: u64,
    /// Slices of closed sessions that were stopped.
    pub stopped: u64,
    /// Sessions whose client gave up waiting.
    pub gave_up: u64,
    /// Times that a leader was followed by itself.
    pub renewed: u64,
    /// Runs in which two leaders led at the same time.
    pub rivals: u64,
    /// Epochs that a store gave out twice, to two nodes.
    pub epochs_twice: u64,
    /// Comparisons of two tenants' shares.
    pub compared: u64,
    /// Accesses to memory that were judged.
    pub touched: u64,
    /// Sessions that were refused memory.
    pub denied: u64,
    /// Times that a session's memory was swapped out.
    pub swaps: u64,
    /// Reports of use that were compared with what was used.
    pub metered: u64,
    /// Blocks with moves of memory that were compared with what had moved.
    pub moved: u64,
    /// Requests for several devices that were had.
    pub several: u64,
    /// Refusals that clients were told, to ask again.
    pub declined: u64,
    /// Requests for several devices of which a worker died when some sessions had begun, and others not.
    pub halved: u64,
    /// Workers that were drained, as a leader said.
    pub drained: u64,
    /// Of these, such that had no session any more and were told to leave.
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
    /// How.
    pub failure: Box<RunFailure>,
    /// The scene that breaks the same, made small.
    pub script: Script,
}

/// What a campaign found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CampaignOutcome {
    /// Of the runs in which everything held.
    pub totals: Totals,
    /// Of these, too.
    pub coverage: Coverage,
    /// Classes of events at which faults were tried.
    pub classes: u64,
    /// Those in which something did not, in order.
    pub failed: Vec<Failed>,
}

/// Plays a campaign. `tell` hears how many runs there are, after each how many are done.
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

/// Does `count` things on several threads, until one says that it was enough.
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
