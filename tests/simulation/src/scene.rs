//! What a seed makes: the cluster's shape, its tenants, programs, settings and troubles.

use bus_schemas::{ClusterSettings, Tenant, TenantSettings};

use crate::faults::{Fault, Troubles, schedule};
use crate::network::Weather;
use crate::program::{Plan, plan};
use virtual_time::Random;
use virtual_time::{MICRO, MILLI, Nanos, SECOND};

/// One run's cast and plot.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// Leader candidates.
    pub leaders: usize,
    /// Workers.
    pub workers: usize,
    /// The cluster's name.
    pub cluster: Tenant,
    /// How the leaders order.
    pub settings: ClusterSettings,
    /// The tenants.
    pub tenants: Vec<(Tenant, TenantSettings)>,
    /// The client processes: whose, and what they do.
    pub clients: Vec<(Tenant, Plan)>,
    /// The kinds of trouble.
    pub troubles: Troubles,
    /// What goes wrong when.
    pub faults: Vec<(Nanos, Fault)>,
    /// All faults are over.
    pub quiet: Nanos,
    /// Everything must be done.
    pub deadline: Nanos,
}

impl Scene {
    /// The scene of a seed, with these troubles or such as the seed draws.
    ///
    /// # Panics
    /// Never: the names are valid.
    #[must_use]
    pub(crate) fn draw(random: &mut Random, troubles: Option<Troubles>) -> Self {
        let drawn = Troubles::draw(random);
        let troubles = troubles.unwrap_or(drawn);
        let length = random.between(200, 5000) * MILLI;
        // Shares show where many want the same.
        let crowded = random.chance(250);
        let tenants = tenants(random, crowded);
        let unruly = random.chance(600);
        let clients: Vec<(Tenant, Plan)> = (0..1 + random.index(5))
            .map(|_| {
                let tenant = tenants[random.index(tenants.len())].0.clone();
                (tenant, plan(random, length, unruly, crowded))
            })
            .collect();
        let quiet = length + random.between(200, 4000) * MILLI;
        let mut faults = schedule(random, troubles, quiet);
        if troubles.weather {
            faults.push((quiet, Fault::Weather(Weather::FAIR)));
        }
        // Expiry takes 60 s: of a client that died, and of a session that was opened while its
        // answer, and the leader with it, were lost.
        let expiry = !troubles.none() || clients.iter().any(|(_, plan)| plan.dies.is_some());
        Self {
            leaders: if random.chance(800) {
                3
            } else {
                1 + random.index(2)
            },
            workers: if crowded { 1 } else { 1 + random.index(3) },
            cluster: "sim".parse().expect("a valid name"),
            settings: settings(random, crowded),
            tenants,
            clients,
            troubles,
            faults,
            quiet,
            deadline: quiet + if expiry { 110 } else { 45 } * SECOND,
        }
    }
}

fn tenants(random: &mut Random, crowded: bool) -> Vec<(Tenant, TenantSettings)> {
    let same = crowded || random.chance(400);
    (0..2 + random.index(3))
        .map(|index| {
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
                ..TenantSettings::default()
            };
            let name = format!("tenant-{index}");
            (name.parse().expect("a valid name"), settings)
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
        ..ClusterSettings::default()
    }
}
