//! Scenes in which placement is hard: workers in groups, some of them exclusive, tenants that
//! are bound to groups, sessions on several devices, workers that join while others are at work.
//!
//! Drawn by chance of its own, so that a scene that has none of it is what its seed made before.

use bus_schemas::{Groups, Tenant};

use crate::program::{Program, Step};
use crate::scene::{Machine, Scene, SceneTenant};
use sim_cluster::{MILLI, Nanos, Random};

/// What its chance is drawn for.
const PURPOSE: u64 = 0x0067_726f_7570_7321;
/// Groups beside the one that workers are in if nothing is said.
const NAMES: [&str; 2] = ["batch", "spare"];
/// The group of a worker that says none.
const DEFAULT: &str = "default";

/// Which of these a scene has.
pub(crate) struct Variety {
    random: Random,
    grouped: bool,
    several: bool,
    late: bool,
}

impl Variety {
    /// That of a seed. `plain`: none.
    #[must_use]
    pub(crate) fn draw(seed: u64, plain: bool) -> Self {
        let mut random = Random::of(seed, PURPOSE);
        let any = random.chance(350) && !plain;
        let mut even = || any && random.chance(550);
        let (grouped, several, late) = (even(), even(), even());
        Self {
            random,
            grouped,
            several,
            late,
        }
    }

    /// Workers that a scene has beside those it would have in any case.
    pub(crate) fn more_workers(&mut self) -> usize {
        match self.grouped || self.several {
            true => self.random.index(3),
            false => 0,
        }
    }

    /// Gives a scene what was drawn; its programs take about `length`.
    pub(crate) fn arrange(mut self, scene: &mut Scene, length: Nanos) {
        if self.late {
            for worker in &mut scene.workers[1..] {
                if self.random.chance(600) {
                    worker.start = self.random.between(0, length / MILLI) * MILLI;
                }
            }
        }
        if self.grouped {
            self.group(scene);
        }
        if self.several {
            self.widen(scene);
        }
    }

    fn group(&mut self, scene: &mut Scene) {
        let random = &mut self.random;
        let exclusive = NAMES.map(|_| random.chance(500));
        for worker in &mut scene.workers {
            if random.chance(650) {
                let which = random.index(NAMES.len());
                worker.group = NAMES[which].parse().ok();
                worker.exclusive = exclusive[which] != random.chance(100);
            }
        }
        for tenant in &mut scene.tenants {
            if random.chance(350) {
                continue;
            }
            let all = [DEFAULT, NAMES[0], NAMES[1]];
            let mut names: Vec<Tenant> = Vec::new();
            for _ in 0..1 + random.index(2) {
                names.extend(all[random.index(all.len())].parse::<Tenant>());
            }
            tenant.settings.groups = Groups::new(names).unwrap_or_default();
        }
        // Mostly each has somewhere to go.
        for tenant in &mut scene.tenants {
            let none = usable(tenant, &scene.workers) == 0;
            let worker = random.pick(&scene.workers);
            if let Some(worker) = worker.filter(|_| none && random.chance(850)) {
                tenant.settings.groups = Groups::new([worker.group()]).unwrap_or_default();
            }
        }
        // Who may have an exclusive worker leaves it in the end.
        for client in &mut scene.clients {
            let mut tenants = scene.tenants.iter();
            let Some(tenant) = tenants.find(|tenant| tenant.name == client.tenant) else {
                continue;
            };
            let mut workers = scene.workers.iter();
            if workers.any(|worker| worker.exclusive && worker.takes(tenant)) {
                client.programs.iter_mut().for_each(close);
            }
        }
    }

    fn widen(&mut self, scene: &mut Scene) {
        for client in &mut scene.clients {
            let mut tenants = scene.tenants.iter();
            let tenant = tenants.find(|tenant| tenant.name == client.tenant);
            let most = tenant.map_or(0, |tenant| usable(tenant, &scene.workers)) as u32;
            for program in &mut client.programs {
                if !self.random.chance(500) {
                    continue;
                }
                let devices = 2 + self.random.index(2) as u32;
                // Now and then more than there are.
                program.devices = match self.random.chance(80) {
                    true => devices,
                    false => devices.min(most).max(1),
                };
            }
        }
    }
}

/// How many workers a tenant may use.
fn usable(tenant: &SceneTenant, workers: &[Machine]) -> usize {
    let takes = |worker: &&Machine| worker.takes(tenant);
    workers.iter().filter(takes).count()
}

/// Makes a program close its session at the end.
fn close(program: &mut Program) {
    if program.steps.last() != Some(&Step::Close) {
        program.steps.push(Step::Close);
    }
}

/// The group of a worker that says this.
#[must_use]
pub(crate) fn group_of(said: Option<Tenant>) -> Tenant {
    said.unwrap_or_else(|| DEFAULT.parse().expect("a valid name"))
}

impl Machine {
    /// The group it is in.
    #[must_use]
    pub(crate) fn group(&self) -> Tenant {
        group_of(self.group.clone())
    }

    /// Whether a tenant may use it at all.
    #[must_use]
    pub(crate) fn takes(&self, tenant: &SceneTenant) -> bool {
        let groups = &tenant.settings.groups;
        match groups.is_empty() {
            true => !self.exclusive,
            false => groups.contains(&self.group()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_scenes_are_as_before_and_the_others_differ_in_every_way() {
        let mut counts = [0; 6];
        for seed in 1..=400 {
            let scene = Scene::draw(seed, None);
            let programs = || scene.clients.iter().flat_map(|client| &client.programs);
            let met = [
                scene.workers.iter().any(|worker| worker.group.is_some()),
                scene.workers.iter().any(|worker| worker.exclusive),
                scene
                    .tenants
                    .iter()
                    .any(|it| !it.settings.groups.is_empty()),
                programs().any(|program| program.devices > 1),
                programs().any(|program| program.devices as usize > scene.workers.len()),
                scene.workers.iter().any(|worker| worker.start > 50 * MILLI),
            ];
            for (count, met) in counts.iter_mut().zip(met) {
                *count += u32::from(met);
            }
        }
        assert!(counts.iter().all(|count| *count > 4), "{counts:?}");
        assert!(counts.iter().all(|count| *count < 140), "{counts:?}");
    }
}
