//! Short sessions in some scenes. They are opened, used a little and closed, one after the other, often
//! within one append of the record. Then a leader's death loses not only the end of a session's order but
//! all of it, including its name.
//!
//! They have a random source of their own, so that a scene without them is as its seed made it before.

use crate::program::{Conduct, Program, Step};
use crate::scene::{Customer, Scene};
use sim_cluster::{MILLI, Nanos, Random};

/// Purpose of the random source.
const PURPOSE: u64 = 0x0062_7269_6566_2121;
/// Number of such scenes in a thousand.
const SCENES: u64 = 300;

/// Gives a scene clients with short sessions if its seed asks for them. Its other programs take about
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
    // If fewer sessions than fit are drawn, their start is random, so that they meet faults.
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
    // A client that closes without a wait is told by a successor that the session is gone, even if its ops
    // ran.
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
