//! Programs that offer copies by the hashes of their chunks, as clients that load the same weights do.
//!
//! They have a random source of their own, so that a scene is otherwise as its seed made it before.

use sim_cluster::Random;

use crate::program::{Conduct, FIRST, Program, Step};
use crate::scene::Scene;

/// Purpose of the random source.
const PURPOSE: u64 = 0x006f_6666_6572_2121;
/// Number of such scenes in a thousand.
const SCENES: u64 = 350;
/// Bytes of the first allocation of programs with copies of several transfers.
const LARGE: u64 = 3 << 20;
/// Number of different contents.
const CONTENTS: u64 = 2;

/// Lets some programs of a scene offer copies, if its seed asks for them.
pub(crate) fn arrange(seed: u64, scene: &mut Scene) {
    let mut random = Random::of(seed, PURPOSE);
    if !random.chance(SCENES) {
        return;
    }
    let is_small = scene.capacity < 1 << 30;
    let Scene {
        clients, tenants, ..
    } = scene;
    for client in clients {
        let tenant = tenants.iter().find(|tenant| tenant.name == client.tenant);
        let is_bounded = is_small || tenant.is_none_or(|tenant| tenant.settings.quota > 0);
        for program in &mut client.programs {
            if program.conduct == Conduct::Honest && random.chance(600) {
                offer(&mut random, program, is_bounded);
            }
        }
    }
}

fn offer(random: &mut Random, program: &mut Program, is_bounded: bool) {
    let [Step::Load { slot: 0, .. }, Step::Alloc(FIRST), rest @ ..] = &program.steps[..] else {
        return;
    };
    let ends = rest.len().saturating_sub(3);
    let is_large = !is_bounded && random.chance(500);
    for _ in 0..1 + random.index(3) {
        let bytes = match is_large {
            true => random.between(1 << 20, LARGE),
            // Equal contents are of one length, so that their last chunks are equal too.
            false => [300 << 10, FIRST][random.index(2)],
        };
        let content = random.between(1, CONTENTS) as u32;
        let step = Step::Offered {
            content,
            bytes: bytes as u32,
        };
        program.steps.insert(2 + random.index(ends + 1), step);
    }
    if is_large {
        program.steps[1] = Step::Alloc(LARGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenes_offer_copies_of_one_chunk_and_of_several() {
        let (mut small, mut large) = (0, 0);
        for seed in 1..=200 {
            let scene = Scene::draw(seed, None);
            let programs = scene.clients.iter().flat_map(|it| &it.programs);
            for step in programs.flat_map(|it| &it.steps) {
                match step {
                    Step::Offered { bytes, .. } if u64::from(*bytes) <= FIRST => small += 1,
                    Step::Offered { .. } => large += 1,
                    _ => {}
                }
            }
            assert_eq!(scene.sense(), Ok(()));
        }
        assert!(small > 50 && large > 30, "{small} small, {large} large");
    }
}
