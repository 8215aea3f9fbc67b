//! The scene of a seed.

use bus_schemas::{ClusterSettings, TenantSettings};
use sim_cluster::{MICRO, MILLI, Nanos, Random};

use super::{Customer, Machine, Member, Scene, SceneTenant};
use crate::epochs;
use crate::faults::Troubles;
use crate::faults::schedule::{
    Cast, drain, drains, halve, hostile, hostile_times, schedule, slow_nodes, slowness,
    store_faults, stores,
};
use crate::hostile::tenant;
use crate::offered_copies;
use crate::placement_scenes::Variety;
use crate::program::plan;
use crate::shared_memory;
use crate::short_sessions;
use crate::waits;

impl Scene {
    /// Draws the scene of a seed, with these troubles or with those that the seed draws.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "one draw for each part of a scene")]
    pub fn draw(seed: u64, troubles: Option<Troubles>) -> Self {
        let random = &mut Random::new(seed);
        let drawn = Troubles::draw(random);
        let (mut chance, drains) = drains(seed);
        let (mut hard, stores) = stores(seed);
        let (mut slow, slowness) = slowness(seed);
        let (mut harm, hostile) = hostile(seed);
        let troubles = troubles.unwrap_or(Troubles {
            drains,
            stores,
            slowness,
            hostile,
            ..drawn
        });
        let length = random.between(200, 5000) * MILLI;
        // Shares become visible when many want the same.
        let crowded = random.chance(250);
        let tenants = tenants(random, crowded);
        let unruly = random.chance(600);
        let clients = clients(random, &tenants, length, (unruly, crowded));
        let quiet = length + random.between(200, 4000) * MILLI;
        let leaders = match random.chance(800) {
            true => 3,
            false => 1 + random.index(2),
        };
        let mut variety = Variety::draw(seed, crowded);
        let few = if crowded { 1 } else { 1 + random.index(3) };
        let workers = few + variety.more_workers();
        let cast = Cast {
            leaders,
            workers,
            clients: clients.len(),
        };
        let mut faults = schedule(random, troubles, cast, quiet);
        if troubles.drains {
            drain(&mut chance, cast, quiet, &mut faults);
        }
        let capacity = match random.chance(200) {
            true => random.between(2, 8) << 20,
            false => 1 << 30,
        };
        let leaders = (0..leaders as u32).map(|it| leader(random, it)).collect();
        let workers = (0..workers as u32).map(|it| worker(random, it)).collect();
        let mut scene = Self {
            seed,
            quiet,
            capacity,
            // Taken from the seed and not drawn, so that the rest of the scene stays as it was before.
            overcommit: match (capacity < 1 << 30, seed % 4) {
                (true, 1) => 150,
                (true, 2 | 3) => 300,
                _ => 100,
            },
            leaders,
            workers,
            settings: settings(random, crowded),
            tenants,
            faults,
            clients,
        };
        if !crowded {
            short_sessions::arrange(seed, length, &mut scene);
        }
        variety.arrange(&mut scene, length);
        waits::arrange(seed, &mut scene);
        offered_copies::arrange(seed, &mut scene);
        shared_memory::arrange(seed, &mut scene);
        if troubles.partitions && troubles.crashes {
            let halves = halve(seed, cast, &scene.clients, quiet);
            scene.faults.extend(halves);
            scene.faults.sort_by_key(|strike| strike.at);
        }
        if troubles.crashes && !troubles.stores {
            epochs::arrange(seed, &mut scene);
        }
        if troubles.stores {
            store_faults(&mut hard, quiet, &mut scene.faults);
            // Some leaders find their buffer full before the store accepts writes again.
            scene.settings.record_buffer = hard.between(64, 160) << 10;
        }
        if troubles.slowness {
            slow_nodes(&mut slow, cast, quiet, &mut scene.faults);
        }
        if troubles.hostile {
            hostile_times(&mut harm, quiet, &mut scene.faults);
            scene.tenants.push(SceneTenant {
                name: tenant(),
                settings: TenantSettings::default(),
            });
        }
        scene
    }
}

fn leader(random: &mut Random, number: u32) -> Member {
    Member {
        number,
        start: random.between(0, 20) * MILLI,
    }
}

fn worker(random: &mut Random, number: u32) -> Machine {
    Machine {
        number,
        start: random.between(0, 50) * MILLI,
        group: None,
        exclusive: false,
    }
}

fn clients(
    random: &mut Random,
    tenants: &[SceneTenant],
    length: Nanos,
    (unruly, crowded): (bool, bool),
) -> Vec<Customer> {
    let count = 1 + random.index(5) as u32;
    let client = |number| {
        let tenant = tenants[random.index(tenants.len())].name.clone();
        let (programs, dies) = plan(random, length, unruly, crowded);
        Customer {
            number,
            tenant,
            start: random.between(0, 100) * MILLI,
            deadline: 0,
            dies,
            programs,
        }
    };
    (0..count).map(client).collect()
}

fn tenants(random: &mut Random, crowded: bool) -> Vec<SceneTenant> {
    let same = crowded || random.chance(400);
    (0..2 + random.index(3))
        .filter_map(|index| {
            let settings = TenantSettings {
                priority: if same { 2 } else { random.between(0, 4) as u8 },
                weight: random.between(1, 4) as u32,
                cap: match random.chance(150) && !crowded {
                    true => random.between(20, 90) as u8,
                    false => 0,
                },
                slo_ns: match random.chance(300) {
                    true => random.between(50, 20_000) * MICRO,
                    false => 0,
                },
                quota: match random.chance(250) {
                    true => random.between(1, 4) << 20,
                    false => 0,
                },
                ..TenantSettings::default()
            };
            let name = format!("tenant-{index}").parse().ok()?;
            Some(SceneTenant { name, settings })
        })
        .collect()
}

fn settings(random: &mut Random, crowded: bool) -> ClusterSettings {
    ClusterSettings {
        window_ns: random.between(200, 4000) * 1000,
        quantum_ns: random.between(50, 500) * 1000,
        unknown_ns: 20_000,
        learn: random.chance(500),
        settle: random.chance(if crowded { 200 } else { 700 }),
        slo_window_ns: match random.chance(300) {
            true => 0,
            false => random.between(50, 800) * 1000,
        },
        slo_wait_ticks: random.between(0, 30) as u32,
        standing: random.chance(700),
        ..ClusterSettings::default()
    }
}
