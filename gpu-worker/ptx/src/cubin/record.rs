//! Records of `.nv.info` sections: the facts that machine code has about its kernels.
//!
//! A record begins with its format and its attribute, a byte each. In format 4, a length (16 bit) and that
//! many bytes follow. In formats 1 to 3, two bytes follow, which are the value.

use std::collections::HashMap;

use crate::ParamInfo;

/// The format of a record with bytes of its own.
const SIZED: u8 = 4;

// Attributes.
const MAX_THREADS: u8 = 0x05;
const REQUIRED_THREADS: u8 = 0x10;
const FRAME: u8 = 0x11;
const PARAM: u8 = 0x17;
const REGISTERS: u8 = 0x2f;
const VERSION: u8 = 0x37;
/// A parameter with all 16 bits of its size, for kernels that take more than 4 KiB.
const PARAM_V2: u8 = 0x45;

/// Maximum bytes of parameters of a kernel.
const PARAM_LIMIT: u32 = 32_764;

/// One record.
struct Record<'a> {
    attribute: u8,
    payload: &'a [u8],
}

/// The records of a section.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    /// `None` if the section ends within a record.
    type Item = Option<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // Remaining bytes that are fewer than a record's head can only be padding.
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        let [format, attribute, value @ ..] = *head;
        let length = match format {
            1..SIZED => 0,
            SIZED => usize::from(u16::from_le_bytes(value)),
            _ => usize::MAX,
        };
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            self.0 = &[];
            return Some(None);
        };
        self.0 = rest;
        Some(Some(Record { attribute, payload }))
    }
}

impl Record<'_> {
    /// Returns the word at an index.
    fn word(&self, at: usize) -> Result<u32, &'static str> {
        let bytes = self.payload.get(4 * at..).and_then(<[u8]>::first_chunk);
        let bytes = bytes.ok_or("one of its records is too short")?;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn dimensions(&self) -> Result<[u32; 3], &'static str> {
        Ok([self.word(0)?, self.word(1)?, self.word(2)?])
    }

    /// Returns number, offset and size of a parameter.
    fn parameter(&self) -> Result<(u32, u32, u32), &'static str> {
        let (place, size) = (self.word(1)?, self.word(2)?);
        let size = match self.attribute {
            PARAM => size >> 18,
            _ => size & 0xffff,
        };
        Ok((place & 0xffff, place >> 16, size))
    }
}

const CUT: &str = "its description ends within a record";

/// The facts in the section of a kernel.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) params: Vec<ParamInfo>,
    pub(super) param_bytes: u32,
    pub(super) maxntid: Option<[u32; 3]>,
    pub(super) reqntid: Option<[u32; 3]>,
    /// Version of the CUDA that assembled it.
    pub(super) version: (u32, u32),
}

impl Kernel {
    /// Reads the records of a kernel.
    pub(super) fn read(section: &[u8]) -> Result<Self, &'static str> {
        let mut kernel = Self::default();
        let mut params = Vec::new();
        for record in Records(section) {
            let record = record.ok_or(CUT)?;
            match record.attribute {
                PARAM | PARAM_V2 => params.push(record.parameter()?),
                MAX_THREADS => kernel.maxntid = Some(record.dimensions()?),
                REQUIRED_THREADS => kernel.reqntid = Some(record.dimensions()?),
                VERSION => {
                    let version = record.word(0)?;
                    kernel.version = (version / 10, version % 10);
                }
                _ => {}
            }
        }
        kernel.lay_out(params)?;
        Ok(kernel)
    }

    /// Takes the parameters, which come in any order.
    fn lay_out(&mut self, mut params: Vec<(u32, u32, u32)>) -> Result<(), &'static str> {
        params.sort_unstable();
        for (at, (number, offset, size)) in (0..).zip(params) {
            if number != at || offset < self.param_bytes {
                return Err("its parameters are not one behind the other");
            }
            self.param_bytes = offset + size;
            if self.param_bytes > PARAM_LIMIT {
                return Err("its parameters exceed what a kernel may take");
            }
            self.params.push(ParamInfo {
                name: format!("param_{number}"),
                offset,
                size,
                align: 1 << (offset | size).trailing_zeros().min(4),
            });
        }
        Ok(())
    }
}

/// Numbers from the section for all kernels, by symbol.
type BySymbol = HashMap<usize, u32>;

/// Returns the registers of each function's threads, and their bytes of local memory.
pub(super) fn registers_and_frames(section: &[u8]) -> Result<(BySymbol, BySymbol), &'static str> {
    let (mut registers, mut frames) = (BySymbol::new(), BySymbol::new());
    for record in Records(section) {
        let record = record.ok_or(CUT)?;
        let rows = match record.attribute {
            REGISTERS => &mut registers,
            FRAME => &mut frames,
            _ => continue,
        };
        rows.insert(record.word(0)? as usize, record.word(1)?);
    }
    Ok((registers, frames))
}
