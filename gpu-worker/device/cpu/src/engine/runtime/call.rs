//! Calls of runtime functions for the lanes of a split: arguments, operation, results.

#![expect(
    unsafe_code,
    reason = "reads arguments in local memory, and writes results there"
)]

use super::print;
use super::text::text;
use crate::decode::form::{CallSite, Passed, Runtime};
use crate::engine::block::{Base, Block};
use crate::engine::context::Context;
use crate::engine::launch::Launch;
use crate::error::FaultKind;
use crate::lane_value::LANES;

impl Block {
    /// Runs a call of a runtime function for the lanes of a mask; false after a fault.
    pub(in crate::engine) fn runtime(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, mask): (usize, u32),
        base: Base,
        (function, site): (Runtime, &CallSite),
    ) -> bool {
        let mut arguments = [[0_u64; LANES]; 5];
        for (row, passed) in arguments.iter_mut().zip(&site.args) {
            *row = self.argument(launch, warp, base, *passed);
        }
        let mut results = [0_u64; LANES];
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            let of = arguments.map(|row| row[lane]);
            let done = match function {
                Runtime::Print => print::record(cx, &mut self.printed, of, lane as u32),
                Runtime::Allocate => Some(allocate(cx, of[0])),
                Runtime::Free => release(cx, of[0], lane as u32),
                Runtime::Assert => fail(cx, of, lane as u32),
            };
            match done {
                Some(value) => results[lane] = value,
                None => return false,
            }
        }
        if let Some(passed) = site.rets.first() {
            self.result(launch, (warp, mask), base, *passed, &results);
        }
        true
    }

    /// An argument of at most eight bytes, for every lane.
    fn argument(
        &mut self,
        launch: &Launch,
        warp: usize,
        base: Base,
        passed: Passed,
    ) -> [u64; LANES] {
        match passed {
            Passed::Register(bank, slot) => self.read(launch, warp, base, bank, slot),
            Passed::Local(at, size) => {
                let at = base.local + at;
                let size = size.min(8).min(launch.stack.local.saturating_sub(at)) as usize;
                std::array::from_fn(|lane| {
                    let mut bytes = [0; 8];
                    let from = self.local_bytes(launch, warp, lane, at);
                    // SAFETY: `size` bytes from there are within the thread's local memory.
                    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size) };
                    u64::from_le_bytes(bytes)
                })
            }
        }
    }

    fn result(
        &mut self,
        launch: &Launch,
        (warp, mask): (usize, u32),
        base: Base,
        passed: Passed,
        values: &[u64; LANES],
    ) {
        match passed {
            Passed::Register(bank, slot) => {
                self.write(launch, (warp, mask), base, (bank, slot), values);
            }
            Passed::Local(at, size) => {
                let at = base.local + at;
                let size = size.min(8).min(launch.stack.local.saturating_sub(at)) as usize;
                for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                    let bytes = values[lane].to_le_bytes();
                    let to = self.local_bytes(launch, warp, lane, at);
                    // SAFETY: as in `argument`.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, size) };
                }
            }
        }
    }
}

fn allocate(cx: &mut Context<'_>, bytes: u64) -> u64 {
    let Some(heap) = cx.memory.heap() else {
        return 0;
    };
    let (address, looked) = heap.allocate(bytes);
    cx.spent += looked;
    address
}

fn release(cx: &mut Context<'_>, address: u64, lane: u32) -> Option<u64> {
    if address != 0 && !cx.memory.heap().is_some_and(|heap| heap.free(address)) {
        let detail = "freed what `malloc` did not return, or freed it twice";
        cx.note(FaultKind::IllegalAddress, Some(address), lane, detail);
        return None;
    }
    Some(0)
}

/// `__assertfail(message, file, line, function, character size)`.
fn fail(cx: &mut Context<'_>, of: [u64; 5], lane: u32) -> Option<u64> {
    let mut read = |address| {
        let bytes = text(cx, address, lane)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (message, file, function) = (read(of[0])?, read(of[1])?, read(of[3])?);
    let line = of[2] as u32;
    let detail = format!("{file}:{line}: {function}: assertion `{message}` failed");
    cx.note(FaultKind::Assert, None, lane, "assertion failed");
    cx.noted_detail = Some(detail);
    None
}
