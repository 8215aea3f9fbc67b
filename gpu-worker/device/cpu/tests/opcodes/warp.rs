//! Instructions of whole warps: one warp runs a text over given registers, and every lane of every
//! result is compared.

pub(crate) use crate::launch::BASE;
use crate::launch::launch;
use device_cpu::{EngineConfig, Grid, Isa, LaunchError, Program};
use ptx::ParsedModule;

/// Bytes of the buffer in global memory and of the one in shared memory.
pub(crate) const BUFFER: usize = 16 << 10;

/// A warp without inputs, outputs and other additions.
pub(crate) const EMPTY: Warp<'static> = Warp {
    text: "",
    inputs: &[],
    outputs: &[],
    buffer: &[],
    shared: false,
};

/// Lanes of a register of 32 or 64 bits.
#[derive(Clone)]
pub(crate) struct Register {
    pub(crate) bits: u32,
    pub(crate) lanes: [u64; 32],
}

impl Register {
    pub(crate) fn words(lanes: [u32; 32]) -> Self {
        Self {
            bits: 32,
            lanes: lanes.map(u64::from),
        }
    }

    pub(crate) fn doubles(lanes: [u64; 32]) -> Self {
        Self { bits: 64, lanes }
    }
}

/// A run of one warp. `%i0`, `%i1` … are the inputs, `%o0` … are the results. `%g` and `buffer` are
/// the buffers in global and shared memory. If `shared` is set, the latter is copied from the
/// former before the text, and back after it.
pub(crate) struct Warp<'a> {
    pub(crate) text: &'a str,
    pub(crate) inputs: &'a [Register],
    pub(crate) outputs: &'a [u32],
    pub(crate) buffer: &'a [u8],
    pub(crate) shared: bool,
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) outputs: Vec<[u64; 32]>,
    pub(crate) buffer: Vec<u8>,
}

impl Warp<'_> {
    fn source(&self) -> String {
        let mut body = String::new();
        for (at, input) in self.inputs.iter().enumerate() {
            let bits = input.bits;
            body += &format!(
                ".reg .b{bits} %i{at}; ld.global.b{bits} %i{at}, [%at+{}];\n",
                256 * at
            );
        }
        let first = 256 * self.inputs.len();
        for (at, bits) in self.outputs.iter().enumerate() {
            let zero = if *bits == 64 { "mov.u64" } else { "mov.u32" };
            body += &format!(".reg .b{bits} %o{at}; {zero} %o{at}, 0;\n");
        }
        let copy = |to: &str, from: &str, name: &str| {
            format!(
                "mov.u32 %n, 0;\n{name}: ld.{from}.b32 %w, [%{from}]; st.{to}.b32 [%{to}], %w;
                add.u64 %global, %global, 128; add.u64 %shared, %shared, 128;
                add.u32 %n, %n, 128; setp.lt.u32 %more, %n, {BUFFER}; @%more bra {name};
                sub.u64 %global, %global, {BUFFER}; sub.u64 %shared, %shared, {BUFFER};
                bar.warp.sync 0xffffffff;\n"
            )
        };
        let (enter, leave) = if self.shared {
            (
                copy("shared", "global", "enter"),
                copy("global", "shared", "leave"),
            )
        } else {
            Default::default()
        };
        let mut results = String::new();
        for (at, bits) in self.outputs.iter().enumerate() {
            results += &format!("st.global.b{bits} [%at+{}], %o{at};\n", first + 256 * at);
        }
        format!(
            ".version 8.5\n.target sm_90\n.address_size 64\n
            .entry k(.param .u64 base) {{
            .shared .align 16 .b8 buffer[{BUFFER}];
            .reg .b64 %at, %g, %global, %shared; .reg .b32 %lane, %n, %w; .reg .pred %more;
            ld.param.u64 %g, [base]; mov.u32 %lane, %tid.x;
            mul.wide.u32 %at, %lane, 4; add.u64 %global, %at, %g;
            mov.u64 %shared, buffer; add.u64 %shared, %shared, %at;
            mul.wide.u32 %at, %lane, 8; add.u64 %at, %at, %g; add.u64 %at, %at, {BUFFER};
            {body} {enter}\n{}\n{leave} {results} ret; }}",
            self.text
        )
    }

    /// Runs it, or returns the fault that ended it.
    pub(crate) fn result(&self, isa: Isa) -> Result<Left, LaunchError> {
        let (text, source) = (self.text, self.source());
        let module = ParsedModule::parse(&source).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program = Program::build_for(&module, isa).unwrap_or_else(|e| panic!("{text}: {e}"));
        let rows = self.inputs.len() + self.outputs.len();
        let mut bytes = self.buffer.to_owned();
        bytes.resize(BUFFER, 0);
        for input in self.inputs {
            bytes.extend(input.lanes.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes.resize(BUFFER + 256 * rows, 0);
        let grid = Grid::flat(1, 32);
        let mut bytes: Vec<u8> = launch(&program, EngineConfig::default(), grid, bytes, &[])?;
        let results = bytes.split_off(BUFFER + 256 * self.inputs.len());
        bytes.truncate(BUFFER);
        let outputs = results.chunks_exact(256).map(|row| {
            let (lanes, _) = row.as_chunks::<8>();
            std::array::from_fn(|lane| u64::from_le_bytes(lanes[lane]))
        });
        Ok(Left {
            outputs: outputs.collect(),
            buffer: bytes,
        })
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, isa: Isa) -> Left {
        self.result(isa)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }
}

/// Every way to run an instruction.
pub(crate) fn isas() -> [Isa; 3] {
    [Isa::Portable, Isa::Avx2, Isa::Native]
}

/// A fixed sequence of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
