//! Programs that share memory with each other: a session exports an allocation, another of its tenant
//! imports it. All tenants use the same keys.
//!
//! They have a random source of their own, so that a scene is otherwise as its seed made it before.

use sim_cluster::{MILLI, Random};

use crate::program::{Conduct, FIRST, Program, Step};
use crate::scene::Scene;

/// Purpose of the random source.
const PURPOSE: u64 = 0x0065_7870_6f72_2121;
/// Number of such scenes in a thousand.
const SCENES: u64 = 350;
/// Number of different keys.
const KEYS: u64 = 2;

/// Lets programs of a scene share memory, if its seed asks for that.
pub(crate) fn arrange(seed: u64, scene: &mut Scene) {
    let mut random = Random::of(seed, PURPOSE);
    if !random.chance(SCENES) {
        return;
    }
    let programs = scene.clients.iter_mut().flat_map(|it| &mut it.programs);
    for program in programs.filter(|it| it.conduct == Conduct::Honest) {
        let [Step::Load { slot: 0, .. }, Step::Alloc(bytes), ..] = program.steps[..] else {
            continue;
        };
        if bytes < FIRST {
            continue;
        }
        match random.index(4) {
            0 | 1 => export(&mut random, program),
            2 => import(&mut random, program),
            _ => {
                export(&mut random, program);
                import(&mut random, program);
            }
        }
    }
}

/// Inserts steps at a place behind the first allocation, and before the last steps.
fn insert(random: &mut Random, program: &mut Program, steps: impl IntoIterator<Item = Step>) {
    let room = program.steps.len().saturating_sub(4);
    let at = 2 + random.index(room.max(1));
    program.steps.splice(at..at, steps);
}

fn export(random: &mut Random, program: &mut Program) {
    let key = random.between(1, KEYS) as u32;
    let mut steps = vec![Step::Sync, Step::Wait, Step::Export(key)];
    if random.chance(500) {
        // An allocation that is freed before its session ends.
        steps.insert(0, Step::Alloc(random.between(1, 1 << 16)));
        steps.push(Step::Think(random.between(1, 200) * MILLI));
        steps.extend([Step::Free; 3]);
    }
    insert(random, program, steps);
}

fn import(random: &mut Random, program: &mut Program) {
    let mut steps = Vec::new();
    // The export may come later.
    for _ in 0..1 + random.index(4) {
        let key = random.between(1, KEYS) as u32;
        steps.extend([
            Step::Import(key),
            Step::Peek,
            Step::Think(random.between(1, 100) * MILLI),
            Step::Peek,
        ]);
    }
    if random.chance(500) {
        steps.extend([Step::Sync, Step::Wait, Step::GiveBack]);
    }
    insert(random, program, steps);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenes_have_sessions_that_export_and_import() {
        let (mut exports, mut imports) = (0, 0);
        for seed in 1..=200 {
            let scene = Scene::draw(seed, None);
            let programs = scene.clients.iter().flat_map(|it| &it.programs);
            for step in programs.flat_map(|it| &it.steps) {
                exports += u32::from(matches!(step, Step::Export(_)));
                imports += u32::from(matches!(step, Step::Import(_)));
            }
            assert_eq!(scene.sense(), Ok(()));
        }
        assert!(exports > 50 && imports > 50, "{exports}, {imports}");
    }
}
