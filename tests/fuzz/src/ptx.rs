//! The libFuzzer target; its findings are kept under `fuzz/regressions`.
#![no_main]

mod exercise;
mod mutate;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| exercise::exercise(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(8) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut text = data[..size].to_vec();
    mutate::mutate(&mut text, &mut mutate::Numbers::new(u64::from(seed)));
    text.truncate(max_size);
    data[..text.len()].copy_from_slice(&text);
    text.len()
});
