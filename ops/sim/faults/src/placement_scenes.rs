//! Scenes in which placement is hard. Workers are in groups, and some are exclusive. Tenants are bound to
//! groups, sessions use several devices, and workers join while others are at work.
//!
//! They have a random source of their own, so that a scene without any of this is as its seed made it
//! before.

use bus_schemas::{Groups, Tenant};

use crate::program::{Program, Step};
use crate::scene::{Machine, Scene, SceneTenant};
use sim_cluster::{MILLI, Nanos, Random};

/// Purpose of the random source.
const PURPOSE: u64 = 0x0067_726f_7570_7321;
/// Groups beside the default group.
const NAMES: [&str; 2] = ["batch", "spare"];
/// The group of a worker that names none.
const DEFAULT: &str = "default";

/// The variations of a scene.
pub(crate) struct Variety {
    random: Random,
    grouped: bool,
    several: bool,
    late: bool,
}

impl Variety {
    /// Draws the variations of a seed; none if `plain`.
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

    /// Number of additional workers.
    pub(crate) fn more_workers(&mut self) -> usize {
        match self.grouped || self.several {
            true => self.random.index(3),
            false => 0,
        }
    }

    /// Applies the variations to a scene with programs that take about `length`.
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
        // Mostly each tenant may use some worker.
        for tenant in &mut scene.tenants {
            let none = usable(tenant, &scene.workers) == 0;
            let worker = random.pick(&scene.workers);
            if let Some(worker) = worker.filter(|_| none && random.chance(850)) {
                tenant.settings.groups = Groups::new([worker.group()]).unwrap_or_default();
            }
        }
        // A client that may use an exclusive worker leaves it in the end.
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
                // Sometimes more than there are.
                program.devices = match self.random.chance(80) {
                    true => devices,
                    false => devices.min(most).max(1),
                };
            }
        }
    }
}

/// Number of workers that a tenant may use.
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

/// The group of a worker, given the group that it names.
#[must_use]
pub(crate) fn group_of(said: Option<Tenant>) -> Tenant {
    said.unwrap_or_else(|| DEFAULT.parse().expect("a valid name"))
}

impl Machine {
    /// The group of the machine.
    #[must_use]
    pub(crate) fn group(&self) -> Tenant {
        group_of(self.group.clone())
    }

    /// True if a tenant may use it at all.
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
