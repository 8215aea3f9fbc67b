//! Calls and returns: frames, arguments, results.

#![expect(unsafe_code, reason = "copies between frames of local memory")]

use super::block::{Activation, Base, Block};
use super::context::Context;
use super::launch::Launch;
use crate::decode::form::{Bank, CODE_STRIDE, CODE_WINDOW, CallSite, Callee, Inst, Passed, Slot};
use crate::error::FaultKind;
use crate::lane_value::LANES;

/// Maximum number of nested calls; functions without registers use no stack that would limit them.
const DEPTH: usize = 4096;

impl Block {
    pub(super) fn local_bytes(
        &mut self,
        launch: &Launch,
        warp: usize,
        lane: usize,
        at: u32,
    ) -> *mut u8 {
        let stride = launch.stack.local as usize;
        let place = (warp * LANES + lane) * stride + at as usize;
        debug_assert!(
            place <= self.local.len() * 16,
            "frames lie within local memory"
        );
        self.local.as_mut_ptr().cast::<u8>().wrapping_add(place)
    }

    /// Copies an argument or a result between frames.
    fn pass(
        &mut self,
        launch: &Launch,
        (warp, mask): (usize, u32),
        (from, from_base): (Passed, Base),
        (to, to_base): (Passed, Base),
    ) {
        let bytes = match (from, to) {
            (Passed::Local(_, a), Passed::Local(_, b)) => a.max(b),
            (Passed::Register(bank, _), Passed::Local(_, n))
            | (Passed::Local(_, n), Passed::Register(bank, _)) => {
                let most = if bank == Bank::Double { 8 } else { 4 };
                if n == 0 { most } else { n.min(most) }
            }
            _ => 8,
        };
        // A caller's variable may be smaller than the formal; never copy past the thread's memory.
        let room = |passed: Passed, base: Base| match passed {
            Passed::Local(at, _) => launch.stack.local.saturating_sub(base.local + at),
            Passed::Register(..) => bytes,
        };
        let bytes = bytes.min(room(from, from_base)).min(room(to, to_base)) as usize;
        let mut values = [0_u64; LANES];
        if let Passed::Register(bank, slot) = from {
            values = self.read(launch, warp, from_base, bank, slot);
        }
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            let source = match from {
                Passed::Local(at, _) => self
                    .local_bytes(launch, warp, lane, from_base.local + at)
                    .cast_const(),
                Passed::Register(..) => (&raw const values[lane]).cast(),
            };
            let target = match to {
                Passed::Local(at, _) => self.local_bytes(launch, warp, lane, to_base.local + at),
                Passed::Register(..) => (&raw mut values[lane]).cast(),
            };
            if source != target.cast_const() {
                // SAFETY: both are within their frames, which `call` checked to fit; a register's
                // value has eight bytes.
                unsafe { std::ptr::copy(source, target, bytes) };
            }
        }
        if let Passed::Register(bank, slot) = to {
            self.write(launch, (warp, mask), to_base, (bank, slot), &values);
        }
    }

    /// Runs a call for a split, or for the lanes of it that call the same function. False after a
    /// fault.
    pub(super) fn call(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, at): (usize, usize),
        inst: &Inst,
    ) -> bool {
        let site: &CallSite = &launch.program.decoded.sites[inst.target as usize];
        let index = match site.callee {
            Callee::Function(index) => index,
            Callee::Runtime(function) => {
                let split = &mut self.warps[warp].splits[at];
                let (place, base) = ((warp, split.mask), split.base);
                split.pc += 1;
                return self.runtime(launch, cx, place, base, (function, site));
            }
            Callee::Register(slot) => match self.callee(launch, cx, (warp, at), (slot, site)) {
                Some(index) => index,
                None => return false,
            },
        };
        self.activate(launch, cx, (warp, at), (inst.target, index))
    }

    /// The function at the address of a split's first lane, checked against the signature of the
    /// call. This group calls it now, the others after it. `None` after a fault.
    fn callee(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, at): (usize, usize),
        (slot, site): (Slot, &CallSite),
    ) -> Option<u32> {
        let decoded = &launch.program.decoded;
        let split = &self.warps[warp].splits[at];
        let row = self.read(launch, warp, split.base, Bank::Double, slot);
        let split = &self.warps[warp].splits[at];
        let lane = split.mask.trailing_zeros() as usize;
        let same = (0..LANES).fold(0, |mask, other| {
            mask | u32::from(split.mask >> other & 1 != 0 && row[other] == row[lane]) << other
        });
        if same != split.mask {
            let mut rest = split.clone();
            rest.mask &= !same;
            self.warps[warp].splits[at].mask = same;
            self.warps[warp].splits.push(rest);
        }
        let place = row[lane].wrapping_sub(CODE_WINDOW);
        let index = (place / CODE_STRIDE).wrapping_sub(1);
        let known = place.is_multiple_of(CODE_STRIDE) && index < decoded.functions.len() as u64;
        let fits = known && {
            let function = &decoded.functions[index as usize];
            let shape = (function.params.len(), function.returns.len());
            shape == (site.args.len(), site.rets.len()) && launch.program.callable[index as usize]
        };
        if !fits {
            let detail = "an indirect call to what is no function of this shape";
            let address = Some(row[lane]);
            cx.note(FaultKind::IllegalInstruction, address, lane as u32, detail);
        }
        fits.then_some(index as u32)
    }

    /// Enters a function; its frame is behind the caller's. False after a fault.
    fn activate(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, at): (usize, usize),
        (number, index): (u32, u32),
    ) -> bool {
        let decoded = &launch.program.decoded;
        let site = &decoded.sites[number as usize];
        let split = &self.warps[warp].splits[at];
        let (mask, outer) = (split.mask, split.base);
        let caller = decoded.functions[split.function as usize].frame;
        let callee = &decoded.functions[index as usize];
        let base = Base {
            words: outer.words + caller.words,
            doubles: outer.doubles + caller.doubles,
            preds: outer.preds + caller.preds,
            local: outer.local + caller.local,
        };
        let (stack, frame) = (&launch.stack, callee.frame);
        let fits = split.calls.len() < DEPTH
            && base.words + frame.words <= stack.words
            && base.doubles + frame.doubles <= stack.doubles
            && base.preds + frame.preds <= stack.preds
            && base.local + frame.local <= stack.local;
        if !fits {
            let detail = "calls are nested too deeply";
            cx.note(
                FaultKind::StackOverflow,
                None,
                mask.trailing_zeros(),
                detail,
            );
            return false;
        }
        self.top = self.top.max(base.local + frame.local);
        self.clear(launch, (warp, mask), base, &callee.unwritten);
        for (from, to) in site.args.iter().zip(&callee.params) {
            self.pass(launch, (warp, mask), (*from, outer), (*to, base));
        }
        let split = &mut self.warps[warp].splits[at];
        split.calls.push(Activation {
            pc: split.pc + 1,
            site: number,
            function: split.function,
            base: outer,
        });
        split.function = index;
        split.base = base;
        split.pc = callee.start;
        true
    }

    pub(super) fn returned(&mut self, launch: &Launch, (warp, at): (usize, usize)) {
        let split = &mut self.warps[warp].splits[at];
        let (mask, inner, function) = (split.mask, split.base, split.function);
        let Some(back) = split.calls.pop() else {
            return;
        };
        split.pc = back.pc;
        split.base = back.base;
        split.function = back.function;
        let decoded = &launch.program.decoded;
        let site = &decoded.sites[back.site as usize];
        for (to, from) in site
            .rets
            .iter()
            .zip(&decoded.functions[function as usize].returns)
        {
            self.pass(launch, (warp, mask), (*from, inner), (*to, back.base));
        }
    }
}
