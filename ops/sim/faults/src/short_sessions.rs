//! Short sessions in some scenes: opened, used a little and closed, one after the other, often all
//! of it within one append of the record. What dies with a leader then is not only the end of a
//! session's order but all of it, its name included.
//!
//! Drawn by chance of its own, so that a scene that has none of it is what its seed made before.

use crate::program::{Conduct, Program, Step};
use crate::scene::{Customer, Scene};
use sim_cluster::{MILLI, Nanos, Random};

/// What its chance is drawn for.
const PURPOSE: u64 = 0x0062_7269_6566_2121;
/// Such scenes, of a thousand.
const SCENES: u64 = 300;

/// Gives a scene clients with short sessions, if its seed has any; its other programs take about
/// `length`.
pub(crate) fn arrange(seed: u64, length: Nanos, scene: &mut Scene) {
    let mut random = Random::of(seed, PURPOSE);
    if !random.chance(SCENES) {
        return;
    }
    for _ in 0..1 + random.index(2) {
        let tenant = scene.tenants[random.index(scene.tenants.len())]
            .name
            .clone();
        let number = scene.clients.iter().map(|it| it.number + 1).max();
        scene.clients.push(Customer {
            number: number.unwrap_or(0),
            tenant,
            start: random.between(0, 100) * MILLI,
            deadline: 0,
            dies: None,
            programs: programs(&mut random, length),
        });
    }
}

fn programs(random: &mut Random, length: Nanos) -> Vec<Program> {
    let apart = random.between(4, 40) * MILLI;
    let count = (length / apart).clamp(1, 60);
    // Where there are fewer than fit, they are where something may go wrong, too.
    let begin = random.between(0, length - count * apart.min(length / count));
    let program = |number: u64| Program {
        number: number as u32,
        start: begin + number * apart + random.between(0, apart),
        conduct: Conduct::Honest,
        devices: 1,
        steps: steps(random),
    };
    (0..count).map(program).collect()
}

fn steps(random: &mut Random) -> Vec<Step> {
    let launch = Step::Launch {
        function: random.between(0, 9) as u32,
        grid: 1,
        stream: 0,
        fill: random.draw() as u8,
    };
    let load = Step::Load { slot: 0, bytes: 64 };
    let mut steps = match random.index(4) {
        0 => Vec::new(),
        1 => vec![Step::Alloc(4096)],
        2 => vec![load, launch],
        _ => vec![load, launch, Step::Sync, Step::Wait, launch],
    };
    // Who closes without having waited is told by a successor that the session is gone, whether its
    // ops ran or were lost with their device.
    if !steps.is_empty() {
        steps.extend([Step::Sync, Step::Wait]);
    }
    steps.push(Step::Close);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenes_have_short_sessions_and_the_others_are_as_before() {
        let (mut met, mut sessions) = (0, 0);
        for seed in 1..=200 {
            let scene = Scene::draw(seed, None);
            let brief = |client: &&Customer| client.programs.iter().all(|it| it.steps.len() < 9);
            let brief: Vec<_> = scene.clients.iter().filter(brief).collect();
            met += u32::from(!brief.is_empty());
            sessions += brief.iter().map(|it| it.programs.len()).sum::<usize>();
            assert_eq!(scene.sense(), Ok(()));
        }
        assert!((20..100).contains(&met), "{met}");
        assert!(sessions > 500, "{sessions}");
    }
}
