//! Shrinks a failing scene: it leaves out or simplifies parts as long as the same invariant breaks. The
//! method is delta debugging (Zeller's `ddmin`), over every list of a scene.

use bus_schemas::{ClusterSettings, TenantSettings};

use crate::mutants::Mutant;
use crate::program::{Conduct, Program, Step};
use crate::run::{Options, Tracing, play};
use crate::scene::Scene;
use sim_cluster::MILLI;

/// Result of shrinking a scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrunk {
    /// The smallest scene found that breaks the same invariant.
    pub scene: Scene,
    /// Number of scenes played to find it.
    pub plays: u64,
}

/// Shrinks a scene that breaks `invariant`, with at most `most` plays.
#[must_use]
pub fn shrink(scene: &Scene, mutant: Option<Mutant>, invariant: &str, most: u64) -> Shrunk {
    let mut search = Search {
        options: Options {
            troubles: None,
            tracing: Tracing::Off,
            mutant,
        },
        invariant,
        best: scene.clone(),
        plays: 0,
        most,
    };
    loop {
        let before = search.best.clone();
        search.lists();
        search.simpler();
        if search.best == before || search.plays >= most {
            break;
        }
    }
    Shrunk {
        scene: search.best,
        plays: search.plays,
    }
}

struct Search<'a> {
    options: Options,
    invariant: &'a str,
    best: Scene,
    plays: u64,
    most: u64,
}

impl Search<'_> {
    /// Tries a change of the best scene. Returns true, and keeps the change, if the same invariant breaks.
    fn accepts(&mut self, change: impl FnOnce(&mut Scene)) -> bool {
        let mut scene = self.best.clone();
        change(&mut scene);
        if scene == self.best || self.plays >= self.most || scene.sense().is_err() {
            return false;
        }
        // An unsound program may break the same invariant for that reason alone.
        if is_sound(&self.best) && !is_sound(&scene) {
            return false;
        }
        self.plays += 1;
        let broken = play(&scene, &self.options).err();
        let same = broken.is_some_and(|failure| failure.invariant == self.invariant);
        if same {
            self.best = scene;
        }
        same
    }

    /// Removes parts of one list: halves, then quarters, down to single entries.
    fn thin<T: Clone>(&mut self, list: fn(&mut Scene, Place) -> Option<&mut Vec<T>>, place: Place) {
        let length = |search: &mut Self| list(&mut search.best, place).map_or(0, |all| all.len());
        let mut part = length(self);
        while part > 0 {
            let mut at = 0;
            while at < length(self) {
                let left_out = self.accepts(|scene| {
                    if let Some(all) = list(scene, place) {
                        let end = (at + part).min(all.len());
                        all.drain(at..end);
                    }
                });
                if !left_out {
                    at += part;
                }
            }
            part /= 2;
        }
    }

    fn lists(&mut self) {
        let place = Place::default();
        self.thin(|scene, _| Some(&mut scene.faults), place);
        self.thin(|scene, _| Some(&mut scene.clients), place);
        self.thin(|scene, _| Some(&mut scene.leaders), place);
        self.thin(|scene, _| Some(&mut scene.workers), place);
        self.thin(|scene, _| Some(&mut scene.tenants), place);
        for client in 0..self.best.clients.len() {
            self.thin(programs, Place { client, program: 0 });
            for program in 0..self.best.clients[client].programs.len() {
                self.thin(steps, Place { client, program });
            }
        }
    }

    /// Simplifies the remaining parts.
    fn simpler(&mut self) {
        for index in 0..self.best.faults.len() {
            while let Some(shorter) = self.best.faults[index].fault.shorter() {
                if !self.accepts(|scene| scene.faults[index].fault = shorter) {
                    break;
                }
            }
        }
        // Times of faults in whole milliseconds, if that does not matter.
        for index in 0..self.best.faults.len() {
            self.accepts(|scene| {
                let at = &mut scene.faults[index].at;
                *at = *at / MILLI * MILLI;
            });
        }
        self.accepts(|scene| scene.settings = ClusterSettings::default());
        for index in 0..self.best.tenants.len() {
            self.accepts(|scene| scene.tenants[index].settings = TenantSettings::default());
        }
        for index in 0..self.best.leaders.len() {
            self.accepts(|scene| scene.leaders[index].start = 0);
        }
        for index in 0..self.best.workers.len() {
            self.accepts(|scene| scene.workers[index].start = 0);
            self.accepts(|scene| scene.workers[index].exclusive = false);
            self.accepts(|scene| scene.workers[index].group = None);
        }
        for client in 0..self.best.clients.len() {
            self.accepts(|scene| scene.clients[client].dies = None);
            self.accepts(|scene| scene.clients[client].start = 0);
            for program in 0..self.best.clients[client].programs.len() {
                self.program(client, program);
            }
        }
        let over = |scene: &Scene| {
            let ends = scene
                .faults
                .iter()
                .map(|strike| strike.at + strike.fault.time());
            ends.max().unwrap_or(0) + MILLI
        };
        for extra in [0, 200 * MILLI] {
            self.accepts(|scene| scene.quiet = scene.quiet.min(over(scene) + extra));
        }
    }

    fn program(&mut self, client: usize, program: usize) {
        self.accepts(|scene| {
            scene.clients[client].programs[program].conduct = Conduct::Honest;
        });
        self.accepts(|scene| scene.clients[client].programs[program].start = 0);
        while self.accepts(|scene| {
            let devices = &mut scene.clients[client].programs[program].devices;
            *devices = (*devices - 1).max(1);
        }) {}
        for step in 0..self.best.clients[client].programs[program].steps.len() {
            let old = self.best.clients[client].programs[program].steps[step];
            if let Some(simple) = simple(old) {
                self.accepts(|scene| scene.clients[client].programs[program].steps[step] = simple);
            }
        }
    }
}

fn is_sound(scene: &Scene) -> bool {
    let mut programs = scene.clients.iter().flat_map(|client| &client.programs);
    programs.all(Program::is_sound)
}

/// Place of a list within lists.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    client: usize,
    program: usize,
}

fn programs(scene: &mut Scene, place: Place) -> Option<&mut Vec<Program>> {
    let client = scene.clients.get_mut(place.client);
    client.map(|client| &mut client.programs)
}

fn steps(scene: &mut Scene, place: Place) -> Option<&mut Vec<Step>> {
    let program = programs(scene, place)?.get_mut(place.program);
    program.map(|program| &mut program.steps)
}

/// The simplest step of its kind.
fn simple(step: Step) -> Option<Step> {
    let plain = match step {
        Step::Launch { function, .. } => Step::Launch {
            function,
            grid: 1,
            stream: 0,
            fill: 0,
        },
        Step::CopyIn { .. } => Step::CopyIn {
            bytes: 1,
            fill: 0,
            stream: 0,
        },
        Step::Set { .. } => Step::Set {
            count: 1,
            value: 0,
            stream: 0,
        },
        Step::Event { .. } => Step::Event {
            event: 0,
            stream: 0,
        },
        Step::Copy { .. } => Step::Copy {
            bytes: 1,
            stream: 0,
        },
        Step::Read(_) => Step::Read(1),
        Step::Staged(_) => Step::Staged(1),
        Step::Offered { content, .. } => Step::Offered { content, bytes: 1 },
        Step::Load { slot, .. } => Step::Load { slot, bytes: 1 },
        Step::Think(_) => Step::Think(MILLI),
        Step::Sync
        | Step::Export(_)
        | Step::Import(_)
        | Step::Peek
        | Step::GiveBack
        | Step::Alloc(_)
        | Step::Free
        | Step::Trespass { .. }
        | Step::Wait
        | Step::Close => return None,
    };
    (plain != step).then_some(plain)
}
