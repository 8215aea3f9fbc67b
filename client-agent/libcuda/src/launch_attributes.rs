//! Attributes of launches: clusters of blocks, and grids with blocks that wait for each other.

use std::ffi::c_int;

use bus_schemas::LaunchAttributes;

use crate::abi::Handle;
use crate::current_context::current_device;
use crate::launch::{How, Shape};
use crate::module::Kernel;
use crate::occupancy::fits_together;
use crate::status::{Result, Status};

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    id: c_int,
    pad: [u8; 4],
    value: [u64; 8],
}

/// The attributes of cooperative launches and of thread block clusters. Others are hints, or demand
/// properties of streams and memory that a session has anyway.
const COOPERATIVE: c_int = 2;
const CLUSTER: c_int = 4;

impl LaunchAttribute {
    /// The sides of the cluster that the attribute names.
    fn cluster(&self) -> Option<[u32; 3]> {
        let [first, second, ..] = self.value;
        let sides = [first as u32, (first >> 32) as u32, second as u32];
        (self.id == CLUSTER).then(|| sides.map(|side| side.max(1)))
    }

    /// Blocks of the cluster that the attribute names.
    pub(crate) fn cluster_blocks(&self) -> Option<i64> {
        self.cluster().map(product)
    }

    /// Adds the attribute to a launch of the kernel.
    pub(crate) fn apply(&self, kernel: Handle<Kernel>, how: &mut How) -> Result {
        if let Some(sides) = self.cluster() {
            how.attributes.cluster = checked(kernel, how.shape, sides)?;
        }
        if self.id == COOPERATIVE && self.value[0] as u32 != 0 {
            fits_together(kernel, how.shape)?;
            how.attributes.cooperative = true;
        }
        Ok(())
    }
}

fn product(sides: [u32; 3]) -> i64 {
    let sides = sides.iter().map(|side| i64::from(*side));
    sides.fold(1, i64::saturating_mul)
}

/// The sides of a cluster, checked against the kernel; none for a cluster of one block.
fn checked(kernel: Handle<Kernel>, shape: Shape, sides: [u32; 3]) -> Result<[u8; 3]> {
    let blocks = product(sides);
    if blocks == 1 {
        return Ok([0; 3]);
    }
    let takes = current_device()?.properties.takes_clusters();
    if !takes || blocks > i64::from(kernel.get()?.cluster_limit()) {
        return Err(Status::INVALID_CLUSTER_SIZE);
    }
    let whole = shape.grid.iter().zip(sides);
    if !whole.clone().all(|(grid, side)| grid.is_multiple_of(side)) {
        return Err(Status::INVALID_VALUE);
    }
    Ok(sides.map(|side| u8::try_from(side).unwrap_or(u8::MAX)))
}

impl How {
    /// A launch without attributes.
    #[inline]
    pub(crate) fn plain(shape: Shape) -> Self {
        let attributes = LaunchAttributes::default();
        Self { shape, attributes }
    }

    /// A launch with blocks that wait for each other.
    pub(crate) fn cooperative(shape: Shape) -> Self {
        let attributes = LaunchAttributes {
            cooperative: true,
            ..LaunchAttributes::default()
        };
        Self { shape, attributes }
    }
}
