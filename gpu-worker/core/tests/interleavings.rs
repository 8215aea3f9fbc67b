//! I1, I2 and I3 under arbitrary interleavings: lost, repeated and reordered messages, successive and rival
//! leaders, voids, faults.

mod world;

use proptest::prelude::*;
use world::World;

fn run(seed: u64, steps: u32, faults: bool, elections: u64) -> World {
    let mut world = World::new(seed, faults);
    for _ in 0..steps {
        if elections > 0 && world.dice.roll(400 / elections) == 0 {
            let rival = world.dice.roll(3) == 0;
            world.elect(rival);
        }
        world.step();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn ops_run_once_in_order_under_one_leader(seed: u64, steps in 1..1_500_u32) {
        run(seed, steps, false, 0);
    }

    #[test]
    fn nothing_stale_runs_under_many_leaders_and_faults(seed: u64, steps in 1..1_500_u32) {
        run(seed, steps, true, 3);
    }
}

#[test]
fn when_the_bus_calms_down_everything_submitted_runs() {
    let (mut voids, mut parts) = (0, 0);
    for seed in 0..60 {
        let mut world = run(seed, 800, seed % 2 == 0, 2);
        world.calm();
        assert_eq!(world.unfinished(), [], "seed {seed}");
        let accepted = world.core.accepted().0;
        assert_eq!(
            world.settled.len() as u64,
            accepted,
            "seed {seed}: every position ends"
        );
        voids += world.voids;
        parts += world.parts.len();
    }
    assert!(parts > 100, "too few standing grants ran: {parts}");
    assert!(voids > 100, "the tests void too little: {voids}");
}
