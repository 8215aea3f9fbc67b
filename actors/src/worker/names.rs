//! A module as launches know it, and what its kernels are called.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use bus_schemas::{FunctionFingerprint, KernelKey, KernelName, Launch, ModuleHash, ModuleId};
use device::{BlockBytes, PreparedModule};
use gpu_worker_core::dispatch::{LaunchNeeds, ModuleBytes};

/// What a launch needs to know of its module.
#[derive(Debug)]
pub(super) struct Module {
    hash: ModuleHash,
    /// By function index: what kernel keys are made of.
    fingerprints: Vec<FunctionFingerprint>,
    /// Names by function index.
    functions: Vec<String>,
    /// What a block of each takes.
    blocks: Vec<BlockBytes>,
    /// What it takes of a session's memory.
    bytes: ModuleBytes,
}

impl Module {
    /// An image as the device prepared it.
    pub(super) fn new(hash: ModuleHash, info: PreparedModule) -> Self {
        let functions = info.functions.iter();
        let fingerprint = |name: &str| FunctionFingerprint::new(&hash, name);
        Self {
            hash,
            bytes: ModuleBytes {
                variables: info.variables,
                heap: info.heap,
            },
            fingerprints: functions.clone().map(|it| fingerprint(&it.name)).collect(),
            blocks: functions.map(|it| it.block).collect(),
            functions: info.functions.into_iter().map(|it| it.name).collect(),
        }
    }

    /// What it takes of a session's memory.
    pub(super) fn bytes(&self) -> ModuleBytes {
        self.bytes
    }

    /// What a launch of it is, if it has such a function.
    pub(super) fn kernel(&self, launch: &Launch) -> Option<LaunchNeeds> {
        let function = launch.function as usize;
        let fingerprint = self.fingerprints.get(function)?;
        let block = self.blocks.get(function);
        Some(LaunchNeeds {
            key: fingerprint.launch_key(launch),
            block: block.map_or(0, |block| block.of(launch)),
        })
    }

    /// What the key of a launch of this module stands for.
    pub(super) fn name(&self, kernel: KernelKey, launch: &Launch) -> KernelName {
        let function = self.functions.get(launch.function as usize);
        let function = function.map_or("", |name| {
            let end = (0..=name.len().min(NAME_BYTES)).rfind(|end| name.is_char_boundary(*end));
            &name[..end.unwrap_or(0)]
        });
        KernelName {
            kernel,
            function: function.to_owned(),
            grid_dim: launch.grid,
            block_dim: launch.block,
            shared_bytes: launch.shared,
            module: Some(ModuleId(self.hash.short())),
        }
    }
}

/// Bytes of a function's name that usage blocks keep.
const NAME_BYTES: usize = 512;
/// Kernel keys whose names were given on, at most: after so many they are given on again.
const NAMED: usize = 1 << 16;

/// What kernel keys stand for: each is given on once.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: RefCell<HashSet<KernelKey>>,
    unpublished: RefCell<HashMap<KernelKey, KernelName>>,
}

impl Names {
    /// Notes a key, if it is new.
    pub(super) fn note(&self, key: KernelKey, name: impl FnOnce() -> KernelName) {
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMED {
            known.clear();
        }
        if known.insert(key) {
            self.unpublished.borrow_mut().insert(key, name());
        }
    }

    /// The names of these keys that were not given on yet.
    pub(super) fn take(&self, keys: impl Iterator<Item = KernelKey>) -> Vec<KernelName> {
        let mut unpublished = self.unpublished.borrow_mut();
        if unpublished.is_empty() {
            return Vec::new();
        }
        keys.filter_map(|key| unpublished.remove(&key)).collect()
    }
}
