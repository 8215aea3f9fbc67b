//! The kernels that `warploom bench ptx` measures: inputs, a plain Rust loop for each, checks.
//!
//! The CUDA C source is in `tests/kernels/suite`. The same algorithms with the same tiles are in
//! OpenCL C in `tests/pocl`. A native loop is idiomatic CPU code, compiled for AVX2 and FMA on
//! machines that have them.

mod input;
mod native;

use crate::{Params, Tolerance};

/// A buffer's contents.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Numbers.
    Floats(Vec<f32>),
    /// Words, which may be packed bytes or pairs of f16.
    Words(Vec<u32>),
}

impl Data {
    /// The bytes in their memory format.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Floats(values) => crate::compare::to_bytes(values),
            Self::Words(words) => crate::compare::words_to_bytes(words),
        }
    }

    /// Parses bytes of memory into contents of the same type.
    #[must_use]
    pub fn with_bytes(&self, bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<4>().0.iter();
        match self {
            Self::Floats(_) => Self::Floats(words.map(|word| f32::from_le_bytes(*word)).collect()),
            Self::Words(_) => Self::Words(words.map(|word| u32::from_le_bytes(*word)).collect()),
        }
    }

    fn floats(&self) -> &[f32] {
        match self {
            Self::Floats(values) => values,
            Self::Words(_) => &[],
        }
    }

    fn words(&self) -> &[u32] {
        match self {
            Self::Words(words) => words,
            Self::Floats(_) => &[],
        }
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Floats(values) => values,
            Self::Words(_) => &mut [],
        }
    }

    fn words_mut(&mut self) -> &mut [u32] {
        match self {
            Self::Words(words) => words,
            Self::Floats(_) => &mut [],
        }
    }
}

/// An argument of a kernel; arguments are in the order of the declaration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// The buffer of this number.
    Buffer(usize),
    /// 32 bits.
    Word(u32),
    /// A number.
    Float(f32),
}

/// One kernel of the suite. Launches may be repeated: the time does not depend on the previous
/// content of buffers.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the kernel and its entry.
    pub name: &'static str,
    /// Its PTX.
    pub ptx: &'static str,
    /// The same kernel in OpenCL C, if it can be expressed there.
    pub opencl: Option<&'static str>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Arguments.
    pub arguments: &'static [Argument],
    /// The buffer that holds the result.
    pub output: usize,
    tolerance: f32,
    input: fn() -> Vec<Data>,
    native: fn(&mut [Data]),
}

impl Case {
    /// Fresh buffers.
    #[must_use]
    pub fn input(&self) -> Vec<Data> {
        (self.input)()
    }

    /// Runs the native loop over the buffers.
    pub fn native(&self, buffers: &mut [Data]) {
        (self.native)(buffers);
    }

    /// The parameters for buffers at these addresses.
    #[must_use]
    pub fn parameters(&self, addresses: &[u64]) -> Params {
        let add = |params: Params, argument: &Argument| match *argument {
            Argument::Buffer(index) => params.address(addresses[index]),
            Argument::Word(word) => params.u32(word),
            Argument::Float(value) => params.f32(value),
        };
        self.arguments.iter().fold(Params::new(), add)
    }

    /// The difference between a result and that of the native loop, if any.
    #[must_use]
    pub fn difference(&self, actual: &Data, expected: &Data) -> Option<String> {
        match (actual, expected) {
            (Data::Floats(actual), Data::Floats(expected)) => Tolerance {
                absolute: self.tolerance,
                relative: self.tolerance,
            }
            .difference(self.name, actual, expected),
            _ if actual == expected => None,
            _ => Some(format!("{}: the words differ", self.name)),
        }
    }
}

macro_rules! cases {
    ($($name:ident $grid:expr, $block:expr, [$($argument:expr),*], $output:literal, $tolerance:literal;)*) => {
        [$(Case {
            name: stringify!($name),
            ptx: include_str!(concat!("../../../tests/kernels/suite/", stringify!($name), ".ptx")),
            opencl: opencl!($name),
            grid: $grid,
            block: $block,
            arguments: &[$($argument),*],
            output: $output,
            tolerance: $tolerance,
            input: input::$name,
            native: native::$name,
        }),*]
    };
}

macro_rules! opencl {
    (mma) => {
        None
    };
    ($name:ident) => {
        Some(include_str!(concat!(
            "../../../tests/pocl/",
            stringify!($name),
            ".cl"
        )))
    };
}

use Argument::{Buffer, Float, Word};

/// All kernels of the suite. Sizes are chosen so that a launch takes milliseconds.
pub const CASES: [Case; 14] = cases! {
    saxpy [4096, 1, 1], [256, 1, 1], [Word(1 << 20), Float(0.5), Buffer(0), Buffer(1)], 1, 1e-6;
    gelu [4096, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Word(1 << 20)], 1, 1e-5;
    layernorm [1024, 1, 1], [256, 1, 1],
        [Buffer(0), Buffer(1), Buffer(2), Buffer(3), Word(1024)], 3, 1e-4;
    softmax [1024, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Word(1024)], 1, 1e-5;
    reduce [4096, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Word(1 << 20)], 1, 1e-4;
    scan [4096, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Buffer(2)], 1, 0.0;
    matmul [32, 32, 1], [16, 16, 1], [Buffer(0), Buffer(1), Buffer(2), Word(512)], 2, 1e-4;
    mma [32, 16, 1], [32, 1, 1], [Buffer(0), Buffer(1), Buffer(2), Word(256)], 2, 1e-3;
    attention [128, 1, 1], [128, 1, 1],
        [Buffer(0), Buffer(1), Buffer(2), Buffer(3), Word(512)], 3, 1e-4;
    transpose [32, 32, 1], [32, 8, 1], [Buffer(0), Buffer(1), Word(1024)], 1, 0.0;
    histogram [64, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Word(1 << 20)], 1, 0.0;
    nbody [8, 1, 1], [256, 1, 1], [Buffer(0), Buffer(1), Word(2048)], 1, 1e-3;
    stencil [32, 128, 1], [32, 8, 1], [Buffer(0), Buffer(1), Word(1024)], 1, 1e-5;
    gather [8192, 1, 1], [128, 1, 1], [Buffer(0), Buffer(1), Buffer(2), Word(128)], 2, 0.0;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_takes_what_it_is_given() {
        for case in CASES {
            let module = ptx::ModuleInfo::parse(case.ptx.as_bytes()).expect(case.name);
            let entry = module.entry(case.name).expect(case.name);
            let parameters = case.parameters(&[0; 4]);
            assert_eq!(parameters.bytes().len(), entry.param_bytes as usize);
            if let Some(source) = case.opencl {
                assert!(source.contains(&format!("{}(", case.name)), "{}", case.name);
            }
        }
    }

    #[test]
    fn the_native_loop_writes_a_whole_result() {
        for case in CASES {
            let mut buffers = case.input();
            let before = buffers[case.output].clone();
            case.native(&mut buffers);
            let after = &buffers[case.output];
            assert_eq!(after.bytes().len(), before.bytes().len());
            assert!(case.difference(after, &before).is_some(), "{}", case.name);
            assert_eq!(case.difference(after, after), None);
            assert_eq!(&after.with_bytes(&after.bytes()), after);
        }
    }
}
