//! Tests that allocations and frees leave contiguous room: nearly all free memory can be allocated
//! at once.

use bus_schemas::{Window, limits};
use client_agent_core::Addresses;
use proptest::prelude::*;

const STEPS: usize = 10_000;
const MIB: u64 = 1 << 20;

/// The window that the leader gives to a session of this quota.
fn window(quota: u64) -> Window {
    let size = (3 * quota)
        .max(limits::WINDOW_MIN_BYTES)
        .next_power_of_two();
    Window {
        base: limits::ADDRESS_FIRST + size,
        size,
    }
}

/// Random numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number between the two, with each order of magnitude equally likely.
    fn spread(&mut self, least: u64, most: u64) -> u64 {
        let bits = (most / least).ilog2();
        let low = least << self.below(u64::from(bits) + 1);
        (low + self.below(low)).min(most)
    }
}

/// The distribution of a program's allocation sizes.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    Small,
    Large,
    Mixed,
    /// Arrays that grow: each a little larger than the one before.
    Growing,
}

impl Sizes {
    fn draw(self, numbers: &mut Numbers, step: usize, quota: u64) -> u64 {
        match self {
            Self::Small => 1 + numbers.below(64 << 10),
            Self::Large => 2 * MIB + numbers.below(quota / 8),
            Self::Mixed => numbers.spread(256, quota / 4),
            Self::Growing => quota / 1_000 + step as u64 * (quota / 8 / STEPS as u64),
        }
    }
}

/// Allocates 95 % of the free memory.
fn most_of_what_is_free(addresses: &mut Addresses, quota: u64) {
    let free = quota - addresses.held();
    let bytes = free / 20 * 19;
    if bytes > 0 {
        let had = addresses.alloc(bytes);
        assert!(had.is_ok(), "{bytes} of {free} of {quota}: {had:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn after_ten_thousand_steps_nearly_all_that_is_free_can_be_had(
        seed in any::<u64>(),
        quota in prop_oneof![Just(1 << 30), Just(8 << 30), (64 * MIB..32 << 30)],
        sizes in prop_oneof![Just(Sizes::Small), Just(Sizes::Large), Just(Sizes::Mixed), Just(Sizes::Growing)],
        frees in 20_u64..60,
        kept in 0_u64..100,
    ) {
        let mut numbers = Numbers(seed);
        let mut addresses = Addresses::new(window(quota), quota);
        let mut live = Vec::new();
        for step in 0..STEPS {
            let free = numbers.below(100) < frees;
            if !free && let Ok(address) = addresses.alloc(sizes.draw(&mut numbers, step, quota)) {
                live.push(address);
            } else if !live.is_empty() {
                let place = numbers.below(live.len() as u64) as usize;
                addresses.free(live.swap_remove(place)).unwrap();
            }
        }
        // Frees some of the allocations.
        while live.len() as u64 * 100 > kept * STEPS as u64 {
            let place = numbers.below(live.len() as u64) as usize;
            addresses.free(live.swap_remove(place)).unwrap();
        }
        most_of_what_is_free(&mut addresses, quota);
    }
}

/// A window has room for three times the quota, less the worker's sixteenth. So the remains of a
/// full session leave seven eighths of the quota contiguous, wherever they lie.
#[test]
fn whichever_blocks_of_a_full_session_stay() {
    const LARGE: u64 = 2 * MIB;
    for quota in [1 << 30, 3 << 29, 8 << 30] {
        for bytes in [quota / 10_000, LARGE, (quota / 100).next_multiple_of(LARGE)] {
            for nth in [2, 3, 5, 10, 20, 40, 100] {
                let mut addresses = Addresses::new(window(quota), quota);
                let all: Vec<u64> = std::iter::from_fn(|| addresses.alloc(bytes).ok()).collect();
                for (place, address) in all.into_iter().enumerate() {
                    if place % nth > 0 {
                        addresses.free(address).unwrap();
                    }
                }
                let most = (quota - addresses.held()) / 20 * 19;
                let had = addresses.alloc(most.min(quota / 8 * 7 - 2 * LARGE));
                assert!(had.is_ok(), "every {nth}th of {bytes} of {quota}: {had:?}");
            }
        }
    }
}
