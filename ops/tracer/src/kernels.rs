//! The kernels of the cluster, by their keys: names and estimates.

use std::collections::HashMap;

use bus_schemas::{KernelKey, KernelRecord};

use crate::demangle::demangled;

/// Maximum number of kernels that are known.
const MOST: usize = 100_000;
/// The name of kernels that are not told apart.
pub(crate) const OTHERS: &str = "other kernels";

/// A known kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kernel {
    name: String,
    /// The name for people, if it is another one.
    shown: Option<String>,
    /// Estimated nanoseconds of one launch, if it was measured.
    estimate_ns: Option<u64>,
}

/// All known kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kernels {
    kernels: HashMap<KernelKey, Kernel>,
    /// The names for people, by function: a function has a kernel for each shape of its launches.
    shown: HashMap<String, Option<String>>,
}

impl Kernels {
    /// Takes in the record of a kernel. One without a name is not known yet.
    pub(crate) fn learn(&mut self, key: KernelKey, record: &KernelRecord) {
        let Some(name) = &record.name else {
            return;
        };
        if self.kernels.len() >= MOST && !self.kernels.contains_key(&key) {
            return;
        }
        if self.shown.len() >= MOST {
            self.shown.clear();
        }
        let shown = match self.shown.get(&name.function) {
            Some(shown) => shown.clone(),
            None => {
                let shown = demangled(&name.function);
                self.shown.insert(name.function.clone(), shown.clone());
                shown
            }
        };
        let kernel = Kernel {
            name: name.function.clone(),
            shown,
            estimate_ns: record.percentile_ns(50),
        };
        self.kernels.insert(key, kernel);
    }

    /// True if the kernel has a name, or never will.
    pub(crate) fn knows(&self, key: KernelKey) -> bool {
        key == KernelKey::OTHER || self.kernels.len() >= MOST || self.kernels.contains_key(&key)
    }

    /// The name of a kernel in its module, or else its key in hexadecimal digits.
    pub(crate) fn name(&self, key: KernelKey) -> String {
        match self.kernels.get(&key) {
            Some(kernel) => kernel.name.clone(),
            None if key == KernelKey::OTHER => OTHERS.to_owned(),
            None => key.to_string(),
        }
    }

    /// The name of a kernel for people, or else its key in hexadecimal digits.
    pub(crate) fn shown(&self, key: KernelKey) -> String {
        let kernel = self.kernels.get(&key);
        match kernel.and_then(|kernel| kernel.shown.as_ref()) {
            Some(shown) => shown.clone(),
            None => self.name(key),
        }
    }

    /// Estimated nanoseconds of one launch.
    pub(crate) fn estimate(&self, key: KernelKey) -> Option<u64> {
        self.kernels.get(&key)?.estimate_ns
    }

    #[cfg(test)]
    pub(crate) fn with(kernels: &[(u64, &str, u64)]) -> Self {
        let kernel = |(key, name, ns): &(u64, &str, u64)| {
            let kernel = Kernel {
                name: (*name).to_owned(),
                shown: demangled(name),
                estimate_ns: Some(*ns),
            };
            (KernelKey(*key), kernel)
        };
        Self {
            kernels: kernels.iter().map(kernel).collect(),
            shown: HashMap::new(),
        }
    }
}
