//! Every kernel on its own against a plain reference, on any [`Gpu`].
//!
//! The workloads check kernels in combination. These checks show which kernel is wrong, and cover
//! cases that the workloads do not: odd sizes, ties, corners of the instruction set. A device, and
//! a client of one, must pass all of them.

mod arrays;
mod bench;
mod chat;
mod corners;
mod matmul;
mod rounding;
mod search;
mod train;

use crate::Gpu;

pub use bench::{Check, CheckFailure, Checked, Wrong};

/// All checks. Together they launch every entry except those of [`FAULTY`](crate::kernels::FAULTY)
/// and [`RUNTIME`](crate::kernels::RUNTIME).
#[must_use]
pub fn all<G: Gpu>() -> Vec<Check<G>> {
    let mut checks = arrays::checks();
    checks.extend(corners::checks());
    checks.extend(matmul::checks());
    checks.extend(rounding::checks());
    checks.extend(chat::checks());
    checks.extend(search::checks());
    checks.extend(train::checks());
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::tests::NoGpu;
    use std::collections::BTreeSet;

    #[test]
    fn every_kernel_has_a_check() {
        let checked: BTreeSet<&str> = all::<NoGpu>()
            .iter()
            .flat_map(|check| check.entries)
            .copied()
            .collect();
        let kernels: BTreeSet<&str> = crate::kernels::ALL
            .iter()
            // A `Gpu` does not expose the output of `runtime`: the CPU device's tests check it.
            .filter(|image| !["faulty", "runtime"].contains(&image.name))
            .flat_map(|image| image.entries)
            .copied()
            .collect();
        assert_eq!(checked, kernels);
    }
}
