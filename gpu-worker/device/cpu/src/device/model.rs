//! Models of GPUs that a CPU device can report to be. Programs choose their kernels by the
//! properties: the number of multiprocessors, the size of shared memory. Parallelism, credits and
//! quotas stay the machine's own.
//!
//! Sources: CUDA C++ Programming Guide, "Technical specifications per compute capability", and the
//! products' data sheets.

use bus_schemas::DeviceProperties;
use std::fmt;
use std::str::FromStr;

/// The GPU that a CPU device reports to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeviceModel {
    /// A GPU of compute capability 8.0 without a name. It has as many multiprocessors as libraries
    /// require for their usual code paths.
    #[default]
    Usual,
    /// One multiprocessor for each thread.
    Machine,
    /// A commercial GPU.
    Product(&'static Product),
}

/// A GPU's public figures.
#[derive(Debug, PartialEq, Eq)]
pub struct Product {
    setting: &'static str,
    name: &'static str,
    compute: (u32, u32),
    sms: u32,
    clock_khz: u32,
    memory_clock_khz: u32,
    memory_bus_bits: u32,
    l2_kib: u64,
}

/// The products, by the names of the setting.
static PRODUCTS: [Product; 7] = [
    Product {
        setting: "t4",
        name: "Tesla T4",
        compute: (7, 5),
        sms: 40,
        clock_khz: 1_590_000,
        memory_clock_khz: 5_001_000,
        memory_bus_bits: 256,
        l2_kib: 4 << 10,
    },
    Product {
        setting: "a100",
        name: "NVIDIA A100-SXM4-40GB",
        compute: (8, 0),
        sms: 108,
        clock_khz: 1_410_000,
        memory_clock_khz: 1_215_000,
        memory_bus_bits: 5_120,
        l2_kib: 40 << 10,
    },
    Product {
        setting: "a10",
        name: "NVIDIA A10",
        compute: (8, 6),
        sms: 72,
        clock_khz: 1_695_000,
        memory_clock_khz: 6_251_000,
        memory_bus_bits: 384,
        l2_kib: 6 << 10,
    },
    Product {
        setting: "rtx3090",
        name: "NVIDIA GeForce RTX 3090",
        compute: (8, 6),
        sms: 82,
        clock_khz: 1_695_000,
        memory_clock_khz: 9_751_000,
        memory_bus_bits: 384,
        l2_kib: 6 << 10,
    },
    Product {
        setting: "l4",
        name: "NVIDIA L4",
        compute: (8, 9),
        sms: 58,
        clock_khz: 2_040_000,
        memory_clock_khz: 6_251_000,
        memory_bus_bits: 192,
        l2_kib: 48 << 10,
    },
    Product {
        setting: "rtx4090",
        name: "NVIDIA GeForce RTX 4090",
        compute: (8, 9),
        sms: 128,
        clock_khz: 2_520_000,
        memory_clock_khz: 10_501_000,
        memory_bus_bits: 384,
        l2_kib: 72 << 10,
    },
    // Newer than NVIDIA's libraries before CUDA 12.8. For an unknown GPU they use PTX, and for a
    // known one machine code.
    Product {
        setting: "rtx5090",
        name: "NVIDIA GeForce RTX 5090",
        compute: (12, 0),
        sms: 170,
        clock_khz: 2_407_000,
        memory_clock_khz: 14_001_000,
        memory_bus_bits: 512,
        l2_kib: 96 << 10,
    },
];

/// Multiprocessors of [`DeviceModel::Usual`], as on an A100.
const USUAL_SMS: u32 = 108;

/// Limits of a multiprocessor by compute capability.
struct Limits {
    threads: u32,
    blocks: u32,
    /// KiB of shared memory: per multiprocessor, per block that opts in, reserved for the device.
    shared_kib: (u32, u32, u32),
}

fn limits(compute: (u32, u32)) -> Limits {
    let (threads, blocks, shared_kib) = match compute {
        (7, 5) => (1024, 16, (64, 64, 0)),
        (8, 6) => (1536, 16, (100, 99, 1)),
        (8, 9) | (12, 0) => (1536, 24, (100, 99, 1)),
        _ => (2048, 32, (164, 163, 1)),
    };
    Limits {
        threads,
        blocks,
        shared_kib,
    }
}

impl DeviceModel {
    /// Words of the setting.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let products = PRODUCTS.iter().map(|product| product.setting);
        ["usual", "machine"].into_iter().chain(products)
    }

    /// Overwrites a machine's properties with those of the model. Shared memory per block stays
    /// within the engine's limit.
    pub(super) fn apply(self, properties: &mut DeviceProperties) {
        match self {
            Self::Machine => return,
            Self::Usual => {
                properties.sms = USUAL_SMS;
                // Nonzero, because programs divide by them.
                properties.memory_clock_khz = 1_215_000;
                properties.memory_bus_bits = 5_120;
            }
            Self::Product(product) => {
                properties.name = product.name.to_owned();
                properties.compute = product.compute;
                properties.sms = product.sms;
                properties.clock_khz = product.clock_khz;
                properties.memory_clock_khz = product.memory_clock_khz;
                properties.memory_bus_bits = product.memory_bus_bits;
                properties.l2_bytes = product.l2_kib << 10;
            }
        }
        let limits = limits(properties.compute);
        let (sm, block, reserved) = limits.shared_kib;
        properties.sm_threads = limits.threads;
        properties.sm_blocks = limits.blocks;
        properties.block_shared_optin = properties.block_shared_optin.min(block << 10);
        properties.sm_shared = sm << 10;
        properties.block_shared_reserved = reserved << 10;
    }
}

impl fmt::Display for DeviceModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usual => "usual",
            Self::Machine => "machine",
            Self::Product(product) => product.setting,
        })
    }
}

impl FromStr for DeviceModel {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let product = PRODUCTS.iter().find(|product| product.setting == word);
        match (word, product) {
            ("usual", _) => Ok(Self::Usual),
            ("machine", _) => Ok(Self::Machine),
            (_, Some(product)) => Ok(Self::Product(product)),
            (_, None) => {
                let words: Vec<_> = Self::words().collect();
                Err(format!("{word:?} is none of {}", words.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;

    #[test]
    fn every_word_is_a_model_of_that_name() {
        for word in DeviceModel::words() {
            let model: DeviceModel = word.parse().expect("a model");
            assert_eq!(model.to_string(), word);
        }
        let error = "b200".parse::<DeviceModel>().expect_err("no such model");
        assert!(error.contains("a100"), "{error}");
    }

    #[test]
    fn a_model_changes_what_is_said_and_not_what_is_there() {
        let machine = super::super::properties::of(2, 1 << 30);
        for word in DeviceModel::words() {
            let mut said = machine.clone();
            word.parse::<DeviceModel>()
                .expect("a model")
                .apply(&mut said);
            assert_eq!(
                (said.memory, said.kind),
                (machine.memory, machine.kind.clone())
            );
            assert!(
                said.block_shared_optin <= machine.block_shared_optin,
                "{word}"
            );
            assert!(said.sm_shared >= said.block_shared_optin, "{word}");
            assert_eq!(said.sms == 2, word == "machine");
            assert!(
                said.sms as usize <= EngineConfig::default().resident,
                "{word}: one thread runs a block for each multiprocessor at a time"
            );
        }
    }
}
