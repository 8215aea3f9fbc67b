//! Bounded waits: clients with a deadline, and clients that leave a long-running kernel behind.
//!
//! They have a random source of their own, so that a scene is otherwise as its seed made it before.

use crate::device::LONG;
use crate::program::Step;
use crate::scene::Scene;
use sim_cluster::{MILLI, Nanos, Random, SECOND};

/// Purpose of the random source.
const PURPOSE: u64 = 0x0077_6169_7473_2121;
/// Default of `client.deadline`.
const USUAL: Nanos = 30 * SECOND;

/// Gives a scene's clients their deadlines, and a dying client a long kernel.
pub(crate) fn arrange(seed: u64, scene: &mut Scene) {
    let mut random = Random::of(seed, PURPOSE);
    for client in &mut scene.clients {
        client.deadline = match random.chance(200) {
            true => random.between(1500, 8000) * MILLI,
            false => USUAL,
        };
    }
    let leaves = random.chance(500);
    let mut dying = scene.clients.iter_mut();
    let dying = dying.find(|it| it.dies.is_some_and(|death| death.told));
    if let Some(program) = dying
        .filter(|_| leaves)
        .and_then(|it| it.programs.first_mut())
        && let [Step::Load { slot: 0, .. }, Step::Alloc(_), ..] = program.steps[..]
    {
        let long = Step::Launch {
            function: LONG,
            grid: 1,
            stream: 0,
            fill: 0,
        };
        program.steps.insert(2, long);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_clients_wait_less_and_some_leave_a_long_kernel() {
        let (mut short, mut long) = (0, 0);
        for seed in 1..=200 {
            let scene = Scene::draw(seed, None);
            short += scene
                .clients
                .iter()
                .filter(|it| it.deadline < USUAL)
                .count();
            let programs = scene.clients.iter().flat_map(|it| &it.programs);
            let steps = programs.flat_map(|it| &it.steps);
            let is_long = |step: &&Step| matches!(step, Step::Launch { function: LONG, .. });
            long += steps.filter(is_long).count();
        }
        assert!(short > 50 && long > 5, "{short} short, {long} long");
    }
}
