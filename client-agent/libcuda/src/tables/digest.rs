//! The number by which the runtime verifies that its driver answered: an HMAC (RFC 2104) with MD2
//! (RFC 1319) over data that both sides know. The runtime computes it as well.

use hmac::{KeyInit, Mac, SimpleHmac};
use md2::Md2;

/// The input of the number, in the order of the message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    /// The driver's version, as reported by `cuDriverGetVersion`.
    pub(super) driver: u32,
    /// The version of the runtime's question.
    pub(super) version: u32,
    pub(super) process: u32,
    pub(super) thread: u32,
    /// Addresses: of the runtime's interface, of the table with the function, of the function.
    pub(super) runtime: u64,
    pub(super) integrity: u64,
    pub(super) function: u64,
    /// The time that the runtime passed, seconds.
    pub(super) seconds: u64,
}

/// A device as the public calls report it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device {
    pub(super) uuid: [u8; 16],
    /// Domain, bus and device on PCI.
    pub(super) place: [i32; 3],
}

/// The key that both sides have, and the fixed answers to questions with a version that ends in 0
/// or 1. The protocol defines these numbers; a driver without them is not accepted.
/// docs/howto/cuda-runtime.md names their source.
const KEY: u128 = 0x9f5a_f50b_3641_08aa_52a7_a953_aedd_6a14;
const FIXED: [u128; 2] = [
    0x8ed3_83aa_1f4c_d1e8_3341_181c_03cb_675c,
    0x8ed3_83aa_1f4c_d1e8_1841_181c_03cb_675c,
];

/// The answer.
pub(super) fn answer(question: &Question, devices: impl Iterator<Item = Device>) -> [u8; 16] {
    if let Some(fixed) = FIXED.get(question.version as usize % 10) {
        return fixed.to_le_bytes();
    }
    let mut mac =
        SimpleHmac::<Md2>::new_from_slice(&KEY.to_le_bytes()).expect("an HMAC takes any key");
    for word in [
        question.driver,
        question.version,
        question.process,
        question.thread,
    ] {
        mac.update(&word.to_le_bytes());
    }
    for word in [
        question.runtime,
        question.integrity,
        question.function,
        question.seconds,
    ] {
        mac.update(&word.to_le_bytes());
    }
    for device in devices {
        mac.update(&device.uuid);
        for number in device.place {
            mac.update(&number.to_le_bytes());
        }
    }
    mac.finalize().into_bytes().into()
}
