//! The kernels of the cluster, by their keys: names and estimates.

use std::collections::HashMap;

use bus_schemas::{KernelKey, KernelRecord};

use crate::demangle::demangled;

/// Maximum number of kernels that are known.
const MOST: usize = 100_000;

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
pub(crate) struct Kernels(HashMap<KernelKey, Kernel>);

impl Kernels {
    /// Takes in the record of a kernel. One without a name is not known yet.
    pub(crate) fn learn(&mut self, key: KernelKey, record: &KernelRecord) {
        let Some(name) = &record.name else {
            return;
        };
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            return;
        }
        // Its record comes again with each measurement.
        let known = self.0.get(&key).filter(|it| it.name == name.function);
        let shown = match known {
            Some(known) => known.shown.clone(),
            None => demangled(&name.function),
        };
        let kernel = Kernel {
            name: name.function.clone(),
            shown,
            estimate_ns: record.percentile_ns(50),
        };
        self.0.insert(key, kernel);
    }

    /// True if the kernel has a name, or never will.
    pub(crate) fn knows(&self, key: KernelKey) -> bool {
        self.0.len() >= MOST || self.0.contains_key(&key)
    }

    /// The name of a kernel in its module, or else its key in hexadecimal digits.
    pub(crate) fn name(&self, key: KernelKey) -> String {
        match self.0.get(&key) {
            Some(kernel) => kernel.name.clone(),
            None => key.to_string(),
        }
    }

    /// The name of a kernel for people, or else its key in hexadecimal digits.
    pub(crate) fn shown(&self, key: KernelKey) -> String {
        let kernel = self.0.get(&key);
        match kernel.and_then(|kernel| kernel.shown.as_ref()) {
            Some(shown) => shown.clone(),
            None => self.name(key),
        }
    }

    /// Estimated nanoseconds of one launch.
    pub(crate) fn estimate(&self, key: KernelKey) -> Option<u64> {
        self.0.get(&key)?.estimate_ns
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
        Self(kernels.iter().map(kernel).collect())
    }
}
