//! A module as launches use it, and the names of its kernels.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use bus_schemas::{FunctionFingerprint, KernelKey, KernelName, Launch, ModuleHash, ModuleId};
use device::{BlockBytes, PreparedModule};
use gpu_worker_core::dispatch::{LaunchNeeds, ModuleBytes};

/// The properties of a module that a launch needs.
#[derive(Debug)]
pub(super) struct Module {
    hash: ModuleHash,
    /// Fingerprints by function index, from which kernel keys are made.
    fingerprints: Vec<FunctionFingerprint>,
    /// Names by function index.
    functions: Vec<String>,
    /// Memory per block of each function.
    blocks: Vec<BlockBytes>,
    /// Memory of a session that the module takes.
    bytes: ModuleBytes,
}

impl Module {
    /// Creates the module from an image that the device prepared.
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

    /// Memory of a session that the module takes.
    pub(super) fn bytes(&self) -> ModuleBytes {
        self.bytes
    }

    /// Returns the needs of a launch, if the module has the function.
    pub(super) fn kernel(&self, launch: &Launch) -> Option<LaunchNeeds> {
        let function = launch.function as usize;
        let fingerprint = self.fingerprints.get(function)?;
        let block = self.blocks.get(function);
        Some(LaunchNeeds {
            key: fingerprint.launch_key(launch),
            block: block.map_or(0, |block| block.of(launch)),
        })
    }

    /// Returns the name behind the kernel key of a launch of this module.
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

/// Maximum bytes of a function's name in usage blocks.
const NAME_BYTES: usize = 512;
/// Maximum number of kernel keys known as published; beyond it their names are published again.
const NAMED: usize = 1 << 16;

/// Names behind kernel keys; each is published once.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: RefCell<HashSet<KernelKey>>,
    unpublished: RefCell<HashMap<KernelKey, KernelName>>,
}

impl Names {
    /// Notes a key if it is new.
    pub(super) fn note(&self, key: KernelKey, name: impl FnOnce() -> KernelName) {
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMED {
            known.clear();
        }
        if known.insert(key) {
            self.unpublished.borrow_mut().insert(key, name());
        }
    }

    /// Takes the names of these keys that are not published yet.
    pub(super) fn take(&self, keys: impl Iterator<Item = KernelKey>) -> Vec<KernelName> {
        let mut unpublished = self.unpublished.borrow_mut();
        if unpublished.is_empty() {
            return Vec::new();
        }
        keys.filter_map(|key| unpublished.remove(&key)).collect()
    }
}
