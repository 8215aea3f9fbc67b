//! The conformance suite. Its kernels have their effects in the fake driver, by their names.

use device_swap::{SwapConfig, SwapFile, SwapSpace};

use crate::setup::{CAPACITY, enter, open};

fn swap_space(memory: u64, bytes: u64) -> Option<SwapSpace> {
    let file = Some(SwapFile {
        dir: std::env::temp_dir(),
        bytes,
    });
    SwapSpace::new(&SwapConfig { memory, file }).expect("the host has it")
}

#[test]
fn without_swap_space() {
    let Some(fake) = enter(module_path!(), "without_swap_space") else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    device_conformance::run_in_time(&mut device, &|time| fake.pass(time));
}

#[test]
fn with_swap_space() {
    let Some(fake) = enter(module_path!(), "with_swap_space") else {
        return;
    };
    let mut device = open(&fake, CAPACITY).swapping(swap_space(5 << 20, 11 << 20));
    device_conformance::run_in_time(&mut device, &|time| fake.pass(time));
}

#[test]
fn memory_is_wiped() {
    let Some(fake) = enter(module_path!(), "memory_is_wiped") else {
        return;
    };
    let mut device = open(&fake, 64 << 20).swapping(swap_space(32 << 20, 33 << 20));
    device_conformance::wiped(&mut device, 6);
}

#[test]
fn sessions_are_mixed() {
    let Some(fake) = enter(module_path!(), "sessions_are_mixed") else {
        return;
    };
    device_conformance::mixed(&mut open(&fake, CAPACITY), 40);
}

#[test]
fn a_fault_ends_it() {
    let Some(fake) = enter(module_path!(), "a_fault_ends_it") else {
        return;
    };
    device_conformance::ends_by_a_fault(&mut open(&fake, CAPACITY));
}
