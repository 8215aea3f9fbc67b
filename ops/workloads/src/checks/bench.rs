//! The base of a check: an image on a device, with buffers that are compared and guarded.

use crate::{FunctionId, Gpu, ModuleId, Params, kernels::Image};

/// Reason for the failure of a check.
#[derive(Debug, thiserror::Error)]
pub enum CheckFailure<E: std::error::Error + Send + Sync + 'static> {
    /// The device refused an op or is gone.
    #[error("the device failed: {0}")]
    Device(#[from] E),
    /// A result differs from the reference.
    #[error("wrong result: {0}")]
    Wrong(Wrong),
}

/// Description of a result that differs from the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

/// Result of a check.
pub type Checked<G> = Result<(), CheckFailure<<G as Gpu>::Error>>;

/// One check.
pub struct Check<G: Gpu> {
    /// The kernels it launches.
    pub entries: &'static [&'static str],
    /// Runs the check; it leaves no allocation behind.
    pub run: fn(&mut G) -> Checked<G>,
}

impl<G: Gpu> Check<G> {
    pub(super) fn of(entries: &'static [&'static str], run: fn(&mut G) -> Checked<G>) -> Self {
        Self { entries, run }
    }
}

/// Bytes after each buffer that no kernel may touch.
const GUARD: usize = 64;
/// Value of the guard bytes.
const GUARD_BYTE: u8 = 0xa5;

/// A number in its device memory format.
pub(super) trait Number: Copy + PartialEq + std::fmt::Debug {
    fn append(self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Number for $kind {
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
            fn read(bytes: &[u8]) -> Vec<Self> {
                let words = bytes.as_chunks::<{ size_of::<$kind>() }>().0;
                words.iter().map(|word| Self::from_le_bytes(*word)).collect()
            }
        }
    )*};
}
numbers!(u8, i8, u16, i16, u32, u64, i64, f32, f64);

/// An image on a device, with buffers that are checked for overruns.
pub(super) struct Bench<'a, G: Gpu> {
    pub(super) gpu: &'a mut G,
    module: ModuleId,
    buffers: Vec<(u64, usize)>,
}

impl<'a, G: Gpu> Bench<'a, G> {
    pub(super) fn new(gpu: &'a mut G, image: Image) -> Result<Self, G::Error> {
        let module = gpu.load(image.bytes())?;
        Ok(Self {
            gpu,
            module,
            buffers: Vec::new(),
        })
    }

    /// A buffer that holds `values`.
    pub(super) fn filled<T: Number>(&mut self, values: &[T]) -> Result<u64, G::Error> {
        let mut bytes = Vec::new();
        for &value in values {
            value.append(&mut bytes);
        }
        let length = bytes.len();
        bytes.extend([GUARD_BYTE; GUARD]);
        let address = self.gpu.alloc(bytes.len() as u64)?;
        self.gpu.copy_in(address, &bytes)?;
        self.buffers.push((address, length));
        Ok(address)
    }

    pub(super) fn launch(
        &mut self,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: Params,
    ) -> Result<(), G::Error> {
        self.launch_shared(entry, grid, block, 0, params)
    }

    pub(super) fn launch_shared(
        &mut self,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        params: Params,
    ) -> Result<(), G::Error> {
        let function: FunctionId = self.gpu.function(self.module, entry)?;
        self.gpu
            .launch(function, grid, block, shared, params.bytes())
    }

    /// The current content of the buffer at `address`.
    pub(super) fn read<T: Number>(&mut self, address: u64) -> Result<Vec<T>, G::Error> {
        let known = self.buffers.iter().find(|buffer| buffer.0 == address);
        let mut bytes = vec![0; known.map_or(0, |buffer| buffer.1)];
        self.gpu.copy_out(address, &mut bytes)?;
        Ok(T::read(&bytes))
    }

    /// Checks that every value of the buffer at `address` equals the expected one.
    pub(super) fn expect<T: Number>(
        &mut self,
        what: &str,
        address: u64,
        expected: &[T],
    ) -> Checked<G> {
        let actual = self.read(address)?;
        equal(what, &actual, expected).map_err(CheckFailure::Wrong)
    }

    /// Checks that every value of the buffer at `address` is near the expected one.
    pub(super) fn expect_near(
        &mut self,
        what: &str,
        at: u64,
        expected: &[f32],
        scale: f32,
    ) -> Checked<G> {
        let actual = self.read(at)?;
        near(what, &actual, expected, scale).map_err(CheckFailure::Wrong)
    }

    /// Checks the guards and frees the buffers.
    pub(super) fn finish(self) -> Checked<G> {
        let mut overrun = None;
        for (at, &(address, length)) in self.buffers.iter().enumerate() {
            let mut guard = [0; GUARD];
            self.gpu.copy_out(address + length as u64, &mut guard)?;
            if guard != [GUARD_BYTE; GUARD] {
                overrun.get_or_insert(format!("buffer {at} was written past its {length} bytes"));
            }
            self.gpu.free(address)?;
        }
        self.gpu.sync()?;
        overrun.map_or(Ok(()), |text| Err(CheckFailure::Wrong(Wrong(text))))
    }
}

/// Checks that every value equals the expected one.
pub(super) fn equal<T: Number>(what: &str, actual: &[T], expected: &[T]) -> Result<(), Wrong> {
    if actual.len() != expected.len() {
        return Err(Wrong(format!(
            "{what}: {} values, not {}",
            actual.len(),
            expected.len()
        )));
    }
    match actual.iter().zip(expected).position(|(a, e)| a != e) {
        None => Ok(()),
        Some(at) => Err(Wrong(format!(
            "{what}[{at}]: {:?}, not {:?}",
            actual[at], expected[at]
        ))),
    }
}

/// Checks that every value is within one part in 10,000 of the expected one, or of `scale`.
pub(super) fn near(what: &str, actual: &[f32], expected: &[f32], scale: f32) -> Result<(), Wrong> {
    let tolerance = crate::Tolerance {
        absolute: 1e-5 * scale,
        relative: 1e-4,
    };
    tolerance
        .difference(what, actual, expected)
        .map_or(Ok(()), |text| Err(Wrong(text)))
}

/// A one-dimensional grid of `count` blocks, or a block of `count` threads.
pub(super) const fn line(count: u32) -> [u32; 3] {
    [count, 1, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_is_told() {
        assert_eq!(equal("x", &[1u32, 2], &[1, 2]), Ok(()));
        assert!(equal("x", &[1u32, 2], &[1, 3]).is_err());
        assert!(equal("x", &[1u32], &[1, 3]).is_err());
        assert!(near("x", &[1.0], &[1.001], 1.0).is_err());
    }
}
