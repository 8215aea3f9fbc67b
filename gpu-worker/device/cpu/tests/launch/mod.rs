//! One launch of a program, in a memory with one allocation.

use device_cpu::{Engine, EngineConfig, Grid, Instance, LaunchError, Memory, Program};
use std::sync::Arc;

/// Address of the allocation.
pub(crate) const BASE: u64 = 0x1000_0000_0000;

/// A number in a kernel's format.
pub(crate) trait Stored: Sized {
    /// Contiguous numbers.
    fn all(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! stored {
    ($($ty:ident)*) => {$(
        impl Stored for $ty {
            fn all(bytes: &[u8]) -> Vec<Self> {
                let (chunks, _) = bytes.as_chunks();
                chunks.iter().map(|chunk| Self::from_le_bytes(*chunk)).collect()
            }
        }
    )*};
}
stored! { u8 u32 u64 }

/// Launches a program's first entry with these bytes allocated, and returns the bytes afterwards.
/// Its parameters are their address and `more`.
pub(crate) fn launch<T: Stored>(
    program: &Arc<Program>,
    config: EngineConfig,
    grid: Grid,
    mut bytes: Vec<u8>,
    more: &[u8],
) -> Result<Vec<T>, LaunchError> {
    let mut memory = Memory::new(BASE, 64 << 20, 64 << 20).expect("reserved");
    memory.alloc(BASE, bytes.len() as u64).expect("room");
    memory.write(BASE, &bytes).expect("live");
    let instance = Instance::new(program, &mut memory).expect("placed");
    let params = [&BASE.to_le_bytes(), more].concat();
    Engine::new(config).launch(&instance, 0, grid, &params, &mut memory)?;
    memory.read(BASE, &mut bytes).expect("live");
    Ok(T::all(&bytes))
}
