//! Records of `.nv.info` sections: what machine code says of its kernels.
//!
//! A record begins with its format and its attribute, a byte each. Of format 4 a length (16 bit) and so many
//! bytes follow, of 1 to 3 two bytes, which are its value.

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
/// A parameter, with all 16 bits of its size: for kernels that take more than 4 KiB.
const PARAM_V2: u8 = 0x45;

/// Most bytes of parameters a kernel may take.
const PARAM_LIMIT: u32 = 32_764;

/// One record.
struct Record<'a> {
    attribute: u8,
    payload: &'a [u8],
}

/// The records of a section.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    /// `None` where the section ends within one.
    type Item = Option<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // What is left is less than a record's head only where it is padding.
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
    /// The word at a place.
    fn word(&self, at: usize) -> Result<u32, &'static str> {
        let bytes = self.payload.get(4 * at..).and_then(<[u8]>::first_chunk);
        let bytes = bytes.ok_or("one of its records is too short")?;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn dimensions(&self) -> Result<[u32; 3], &'static str> {
        Ok([self.word(0)?, self.word(1)?, self.word(2)?])
    }

    /// Number, offset and size of a parameter.
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

/// What the section of a kernel says.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) params: Vec<ParamInfo>,
    pub(super) param_bytes: u32,
    pub(super) maxntid: Option<[u32; 3]>,
    pub(super) reqntid: Option<[u32; 3]>,
    /// Of the CUDA that it was assembled by.
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

/// Numbers of the section that is for all kernels, by symbol.
type BySymbol = HashMap<usize, u32>;

/// Registers of each function's threads, and bytes of local memory.
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
