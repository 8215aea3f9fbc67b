//! Short epochs in some scenes: leaders take over from themselves every second or two, among all other
//! trouble.
//!
//! They have a random source of their own, so that a scene is otherwise as its seed made it before.

use crate::scene::Scene;
use sim_cluster::Random;

/// Purpose of the random source.
const PURPOSE: u64 = 0x0065_706f_6368_7321;
/// Number of such scenes in a thousand.
const SCENES: u64 = 300;

/// Gives a scene short epochs if its seed asks for them.
pub(crate) fn arrange(seed: u64, scene: &mut Scene) {
    let mut random = Random::of(seed, PURPOSE);
    if random.chance(SCENES) {
        // An epoch is an eighth of the record's maximum age.
        scene.settings.record_max_age_s = 8 * random.between(1, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scenes_have_short_epochs() {
        let short = |seed: &u64| Scene::draw(*seed, None).settings.record_max_age_s < 60;
        let short = (1..=400).filter(short).count();
        assert!((20..160).contains(&short), "{short}");
    }
}
