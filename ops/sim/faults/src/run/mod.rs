//! One run: a scene, played to its end and judged.

mod counts;
mod inject;
mod report;
mod roster;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use bus_schemas::{Invariant, Tenant};
use sim_cluster::{
    Cluster, ClusterOptions, Delays, Lossy, MICRO, MILLI, Nanos, NodeId, NodeRole, Undo, Ways, mix,
};

use crate::check::Violation;
use crate::fault_points::FaultPoints;
use crate::faults::Troubles;
use crate::hostile::Overheard;
use crate::mutants::Mutant;
use crate::record::{self, Replay};
use crate::scene::{CLUSTER, Scene};
use crate::trace::Trace;
use crate::watch::Watch;

pub use counts::Counts;
pub use report::{Options, RunFailure, RunReport, Tracing};

/// Maximum lines of the trace in a failure.
const TAIL: usize = 200;

/// Time after which accepted grants are recorded once all trouble is over.
const RECORDED: Nanos = 100 * MILLI;

/// Plays the scene of a seed.
///
/// # Errors
/// [`RunFailure`] for the first violation.
pub fn run(seed: u64, options: &Options) -> Result<RunReport, Box<RunFailure>> {
    play(&Scene::draw(seed, options.troubles), options)
}

/// Plays a scene with its own troubles.
///
/// # Errors
/// [`RunFailure`] for the first violation.
pub fn play(scene: &Scene, options: &Options) -> Result<RunReport, Box<RunFailure>> {
    Invariant::make_fatal();
    let trace = match options.tracing {
        Tracing::Print => Trace::Print,
        Tracing::Failure | Tracing::Off => Trace::Off,
    };
    let result = caught(scene, options, trace).0;
    match result {
        Err(_) if options.tracing == Tracing::Failure => {
            let trace = Trace::Tail(TAIL, VecDeque::new());
            let (again, tail) = caught(scene, options, trace);
            again.map_err(|mut failure| {
                failure.tail = tail;
                failure
            })
        }
        result => result,
    }
}

/// Plays a scene. A panic becomes a failure like any other.
fn caught(
    scene: &Scene,
    options: &Options,
    trace: Trace,
) -> (Result<RunReport, Box<RunFailure>>, Vec<String>) {
    // The play is dropped, so state torn by a panic is not seen.
    let played = catch_unwind(AssertUnwindSafe(|| Play::new(scene, options, trace).play()));
    played.unwrap_or_else(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| why.downcast_ref::<&str>().copied());
        let failure = RunFailure {
            seed: scene.seed,
            step: 0,
            time_ms: 0,
            invariant: text.and_then(violated).unwrap_or("panic"),
            what: text.unwrap_or("a panic without words").to_owned(),
            tail: Vec::new(),
        };
        (Err(Box::new(failure)), Vec::new())
    })
}

/// The invariant that a core reports as violated, by the text of its panic.
fn violated(text: &str) -> Option<&'static str> {
    let (name, _) = text.split_once(" is violated: ")?;
    let names = Invariant::ALL.iter().map(|invariant| invariant.name());
    names.into_iter().find(|known| *known == name)
}

/// Plays a scene and notes each event with its node and state. A violation ends it.
pub(crate) fn fault_points(scene: &Scene) -> FaultPoints {
    let options = Options {
        tracing: Tracing::Off,
        ..Options::default()
    };
    let mut play = Play::new(scene, &options, Trace::Off);
    play.cluster.observer.fault_points = Some(FaultPoints::default());
    // A violation is reported by the runs without noting.
    let _ = play.unfold();
    play.cluster.observer.fault_points.unwrap_or_default()
}

struct Play {
    scene: Scene,
    troubles: Troubles,
    cluster: Cluster<Watch>,
    mutant: Option<Mutant>,
    faults: u64,
    history: u64,
}

impl Play {
    fn new(scene: &Scene, options: &Options, mut trace: Trace) -> Self {
        let scene = scene.clone();
        trace.note(0, || format!("{scene:#?}"));
        let name: Tenant = CLUSTER.parse().expect("a valid name");
        let mut observer = Watch::new(
            &name,
            scene.settings.clone(),
            &scene.tenant_settings(),
            (&scene.workers, scene.capacity, scene.memory_limit()),
            trace,
        );
        let troubles = scene.troubles();
        let Troubles {
            weather,
            partitions,
            crashes,
            pauses,
            cuts,
            ..
        } = troubles;
        let starved = troubles.slowness && !scene.steady();
        observer.sessions.troubled = weather || partitions || crashes || pauses || cuts || starved;
        observer.sessions.unheard = !troubles.harmless() && !scene.steady();
        observer.windows.exact = troubles.harmless() && !troubles.hostile;
        observer.steady.exact = scene.steady();
        observer.drains.exact = troubles.keeps_store();
        observer.places.exact = troubles.none() && scene.capacity >= 1 << 30;
        let overheard = Rc::<RefCell<Overheard>>::default();
        let factory = roster::factory(&scene, &name, options.mutant, &overheard);
        let settings = ClusterOptions {
            seed: scene.seed,
            ways: Ways::Lossy(Lossy::FAIR),
            // A timer is mostly a little late.
            delays: Delays {
                timers: 200 * MICRO,
                store: (60 * MICRO, 500 * MICRO),
            },
        };
        let mut cluster = Cluster::new(settings, observer, factory);
        // Entered before all else, they come first at their time.
        for (index, strike) in scene.faults.iter().enumerate() {
            cluster.schedule(strike.at, index);
        }
        cluster.schedule_undo(scene.quiet, Undo::Clear);
        for member in &scene.leaders {
            cluster.add(NodeRole::Leader, member.number, member.start);
        }
        for member in &scene.workers {
            cluster.add(NodeRole::Worker, member.number, member.start);
        }
        for client in &scene.clients {
            cluster.add(NodeRole::Client, client.number, client.start);
        }
        if troubles.drains {
            cluster.add(NodeRole::Administrator, 0, 0);
        }
        if troubles.hostile {
            let node = cluster.add(NodeRole::Hostile, 0, 0);
            cluster.observer.listens(node, overheard);
        }
        Self {
            scene,
            troubles,
            cluster,
            mutant: options.mutant,
            faults: 0,
            history: 0,
        }
    }

    fn play(mut self) -> (Result<RunReport, Box<RunFailure>>, Vec<String>) {
        let result = match self.unfold() {
            Ok(replay) => Ok(self.report(replay)),
            Err(violation) => Err(Box::new(RunFailure {
                seed: self.scene.seed,
                step: self.cluster.steps,
                time_ms: self.cluster.now / MILLI,
                invariant: violation.invariant,
                what: violation.what,
                tail: Vec::new(),
            })),
        };
        (result, self.cluster.observer.trace.into_tail())
    }

    fn report(&self, replay: Replay) -> RunReport {
        let observer = &self.cluster.observer;
        RunReport {
            seed: self.scene.seed,
            time: self.cluster.now,
            history: self.history,
            counts: self.counts(&replay),
            steady: observer.steady.exact,
            coverage: observer.coverage.clone(),
        }
    }

    fn counts(&self, replay: &Replay) -> Counts {
        let observer = &self.cluster.observer;
        let terms = observer.terms.len() as u64;
        let epochs: BTreeSet<u64> = observer.terms.iter().map(|term| term.0).collect();
        Counts {
            steps: self.cluster.steps,
            ops: observer.sessions.ops,
            voids: observer.positions.voids,
            ended: observer.sessions.ends.0,
            failed: observer.sessions.ends.1,
            failovers: u64::from(terms > 1),
            epochs: terms,
            faults: self.faults,
            replayed: replay.positions,
            adopted: replay.adopted,
            adopted_sessions: replay.adopted_sessions,
            gone: replay.gone,
            unrecorded: replay.unrecorded,
            gaps: observer.keeping.gaps,
            stopped: observer.stops.ended,
            gave_up: observer.sessions.gave_up,
            renewed: observer.renewed(),
            rivals: u64::from(observer.rivals > 0),
            epochs_twice: terms - epochs.len() as u64,
            compared: observer.windows.compared,
            touched: observer.memory.touched,
            promised: observer.memory.promised,
            offered: observer.copies.answered,
            unsent: observer.copies.unsent,
            exchanged: observer.exports.answered,
            imported: observer.exports.imported,
            peeked: observer.exports.peeked,
            denied: observer.memory.denied.len() as u64,
            swaps: observer.memory.swaps,
            metered: observer.credits.compared,
            moved: observer.moves.compared,
            several: observer.places.several,
            declined: observer.places.declined,
            halved: observer.places.halved,
            drained: observer.drains.held.len() as u64,
            dismissed: observer.drains.left(),
            harm: observer.harm(),
        }
    }

    fn unfold(&mut self) -> Result<Replay, Violation> {
        let mut look = self.scene.quiet;
        let mut settled = None;
        loop {
            if let Some(number) = self.cluster.step() {
                self.strike_now(number);
            }
            self.history = mix(self.history ^ self.cluster.digest);
            if let Some(violation) = self.cluster.observer.violation.take() {
                return Err(violation);
            }
            if self.cluster.now < look {
                continue;
            }
            // After all is quiet, pending work gets some more time.
            if self.at_rest().is_ok() {
                let accepted: Vec<_> = self.cluster.observer.positions.tails().collect();
                look = self.cluster.now
                    + match &settled {
                        Some(before) if *before == accepted => break,
                        // A new epoch closed a standing grant, which is about to be recorded.
                        Some(_) => RECORDED,
                        // A store that was away is asked again only after a second or two.
                        None if !self.troubles.none() => 2500 * MILLI,
                        None => 400 * MILLI,
                    };
                settled = Some(accepted);
            } else {
                settled = None;
                look = self.cluster.now + 20 * MILLI;
                if self.cluster.now > self.scene.deadline() {
                    return self.at_rest().map(|()| Replay::default());
                }
            }
        }
        self.finish()
    }

    fn alive(&self, node: NodeId) -> bool {
        self.cluster.slots[node.0].node.is_some()
    }

    /// Checks that all nodes have finished their work.
    fn at_rest(&self) -> Result<(), Violation> {
        let observer = &self.cluster.observer;
        let late = |what: String| Err(Violation::new("liveness", what));
        for (place, slot) in self.cluster.slots.iter().enumerate() {
            let id = NodeId(place);
            if slot.life == 0 {
                return late(format!("node {place} has not started"));
            }
            let busy = !observer.finished.contains(&id);
            match slot.role {
                NodeRole::Client if busy => {
                    return late(format!("client {place} has not finished"));
                }
                NodeRole::Administrator if busy => {
                    return late("what was drained is not as it was".into());
                }
                _ => {}
            }
        }
        let leaked = observer.sessions.leaked(&|node| self.alive(node));
        if let Some(session) = leaked.first() {
            return late(format!("session {session} is over and still holds memory"));
        }
        let epoch = observer.leading.map_or(0, |(epoch, _)| epoch);
        if let Some(stray) = observer.positions.stray(epoch) {
            return late(format!("worker {stray} does not obey epoch {epoch}"));
        }
        observer.places.finish()?;
        observer.positions.finish()?;
        observer.credits.finish()?;
        observer.sessions.finish(&|node| self.alive(node))
    }

    fn finish(&mut self) -> Result<Replay, Violation> {
        self.at_rest()?;
        if self.mutant == Some(Mutant::LosesBlock) {
            self.cluster.store.forget_middle_block();
        }
        let observer = &self.cluster.observer;
        // True if nothing keeps leaders from the store, or the store from answering at once.
        let keeping = self.troubles.keeps_store().then_some(&observer.keeping);
        let replay = record::check(
            &self.cluster.store,
            &observer.positions,
            &observer.usage,
            keeping,
        )?;
        let nothing_died = self.troubles.harmless() || self.scene.steady();
        if nothing_died && replay.adopted > 0 {
            let what = format!("{} positions adopted though nothing died", replay.adopted);
            return Err(Violation::new("I5", what));
        }
        Ok(replay)
    }
}
