//! Native code for straight runs of decoded instructions; `warp` is the second tier, which follows
//! branches.
//!
//! The interpreter stays in charge. It schedules warps and splits, takes branches, waits at
//! barriers, and runs all instructions that this generator does not support. If all 32 lanes of a
//! warp are at the head of a run, it calls the run's code, which returns at the run's end. For each
//! of the four groups of eight lanes, the code does exactly what the interpreter's lane loops would
//! have done, bit for bit. So a launch can stop at the same places as without it: branches and
//! block starts.
//!
//! Lanes of one group run the whole run before the next group begins. Runs are cut so that this
//! makes no difference: no access to a space after a store to it, no store after an access.

#![expect(unsafe_code, reason = "calls into generated code")]

mod access;
mod address_pattern;
mod assembler;
mod constants;
mod def_use;
mod extent;
mod lower;
mod mapping;
mod math;
mod plan;
pub(crate) mod site;
mod strided;
mod support;
mod supported;
mod values;
mod warp;

use crate::decode::Decoded;
use crate::decode::form::Inst;
use crate::engine::context::Context;
use crate::error::BuildError;
use crate::watched::Watched;
use constants::Constants;
use device::Halt;
use mapping::Mapping;
use plan::Blocks;

/// Generated code as a Rust function.
type Code = unsafe extern "sysv64" fn(*mut Context<'_>) -> u64;

/// The code of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native {
    code: Code,
    /// Number of instructions that it replaces.
    pub(crate) len: u32,
}

impl Native {
    /// Runs it for all lanes of the context's warp; the error is the number of the instruction at
    /// fault.
    ///
    /// # Safety
    /// The context is that of a warp at the head of this run, in its frame.
    #[inline]
    pub(crate) unsafe fn call(self, cx: &mut Context<'_>) -> Result<(), u32> {
        let cx = std::ptr::from_mut(cx).cast();
        // SAFETY: the code was generated for this frame's layout; the caller vouches for the rest.
        match unsafe { (self.code)(cx) } {
            0 => Ok(()),
            at => Err(at as u32 - 1),
        }
    }
}

/// Reason why a warp's code returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The interpreter must continue.
    Left,
    /// The warp's share of backward jumps is used up, or it must stop.
    Spun,
    /// All its threads are done.
    Ended,
    /// The instruction faulted.
    Fault,
}

/// Code for warps with all lanes at one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warp {
    code: Code,
}

impl Warp {
    /// Runs a warp. Returns the reason why it stopped, the instruction, and after a fault the start
    /// of the straight line of the fault.
    ///
    /// # Safety
    /// The context is that of a full warp of a linear launch, at this instruction and in its first
    /// frame.
    #[inline]
    pub(crate) unsafe fn call(self, cx: &mut Context<'_>) -> (Ending, u32, u32) {
        let cx = std::ptr::from_mut(cx).cast();
        // SAFETY: the code was generated for this frame's layout; the caller vouches for the rest.
        let came = unsafe { (self.code)(cx) };
        let ending = match came >> 32 & 0xff {
            warp::ending::LEFT => Ending::Left,
            warp::ending::SPUN => Ending::Spun,
            warp::ending::ENDED => Ending::Ended,
            _ => Ending::Fault,
        };
        let at = came as u32;
        // A function is shorter than the range of its start's low bits.
        let begun = at.wrapping_sub(at.wrapping_sub((came >> warp::BEGUN) as u32) & 0x00ff_ffff);
        (ending, at, begun)
    }
}

/// The generated code of a module.
#[derive(Debug, Default)]
pub(crate) struct Generated {
    /// Kept for the code, which contains addresses of these.
    _kept: Box<[Inst]>,
    _mapping: Option<Mapping>,
    /// Runs by their first instruction.
    pub(crate) runs: Vec<(usize, Native)>,
    /// Entries of the code for whole warps, by instruction.
    pub(crate) warps: Vec<(usize, Warp)>,
}

impl Generated {
    /// Bytes of the code.
    pub(crate) fn bytes(&self) -> usize {
        self._mapping.as_ref().map_or(0, Mapping::len)
    }
}

/// Generates code for a module, if the system permits executing it.
///
/// Functions that exceed the watch's time or memory get no code and are interpreted.
///
/// # Errors
/// If the module is not wanted any more.
pub(crate) fn generate(decoded: &Decoded, watched: &Watched<'_>) -> Result<Generated, BuildError> {
    let kept: Box<[Inst]> = decoded.code.clone().into();
    let known = Constants(&decoded.constants);
    let mut code = Vec::new();
    let mut places = Vec::new();
    let mut entries = Vec::new();
    let mut launched = vec![false; decoded.functions.len()];
    for entry in &decoded.entries {
        launched[entry.function as usize] = true;
    }
    for (function, launched) in launched.into_iter().enumerate() {
        if !goes_on(watched, 0)? {
            break;
        }
        let blocks = Blocks::new(decoded, function, launched);
        for run in plan::runs(&blocks, supported::supported) {
            if !goes_on(watched, 0)? {
                break;
            }
            let Some(bytes) = lower::lower(&kept, &run, known) else {
                continue;
            };
            if !goes_on(watched, bytes.len())? {
                break;
            }
            places.push((run.start, run.len, code.len()));
            code.extend(bytes);
            code.resize(code.len().next_multiple_of(64), 0xcc);
        }
        if let Some(compiled) = warp::compile(&blocks, &kept, known) {
            if !goes_on(watched, compiled.code.len())? {
                break;
            }
            let first = code.len();
            entries.extend(
                compiled
                    .entries
                    .iter()
                    .map(|(at, place)| (*at, first + place)),
            );
            code.extend(compiled.code);
            code.resize(code.len().next_multiple_of(64), 0xcc);
        }
    }
    let Some(mapping) = Mapping::new(&code).filter(|_| !places.is_empty()) else {
        return Ok(Generated::default());
    };
    let runs = places.into_iter().map(|(start, len, at)| {
        // SAFETY: code of this signature begins at this address.
        let code = unsafe { std::mem::transmute::<*const u8, Code>(mapping.at(at)) };
        let len = len as u32;
        (start, Native { code, len })
    });
    let warps = entries.into_iter().map(|(start, at)| {
        // SAFETY: as above.
        let code = unsafe { std::mem::transmute::<*const u8, Code>(mapping.at(at)) };
        (start, Warp { code })
    });
    Ok(Generated {
        warps: warps.collect(),
        runs: runs.collect(),
        _kept: kept,
        _mapping: Some(mapping),
    })
}

/// True if there is time and memory for more code.
fn goes_on(watched: &Watched<'_>, bytes: usize) -> Result<bool, BuildError> {
    match watched.grown(bytes) {
        Ok(()) => Ok(watched.halted().is_none()),
        Err(BuildError::Halted(Halt::Seconds(_) | Halt::Bytes(_))) => Ok(false),
        Err(error) => Err(error),
    }
}
