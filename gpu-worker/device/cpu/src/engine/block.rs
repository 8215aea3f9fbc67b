//! One block in execution: warps, their splits, register files, barriers. It is plain data.

use crate::decode::form::{Bank, Slot, Special};
use crate::engine::launch::Launch;
use crate::engine::printed::Printed;
use crate::engine::warp_budget::WarpBudget;
use crate::lane_value::{Doubles, LANES, Words};

/// Start of the registers and local memory of an activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) preds: u32,
    pub(crate) local: u32,
}

/// State that a call returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    pub(crate) pc: u32,
    pub(crate) site: u32,
    pub(crate) function: u32,
    pub(crate) base: Base,
}

/// The condition that a split waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Gathered: the instruction at pc runs without waiting.
    Gathered,
    /// At a barrier.
    Barrier(u8),
    /// Waits for these lanes, at pc.
    Lanes(u32),
    /// Its threads have ended. The last split of a warp is kept for the first one of the next
    /// block.
    Ended,
}

/// Lanes of a warp at the same instruction.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) state: State,
    /// Backward jumps that it made while others of its warp waited.
    pub(crate) age: u32,
    pub(crate) function: u32,
    pub(crate) base: Base,
    pub(crate) calls: Vec<Activation>,
}

/// A warp of thirty-two threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub(crate) splits: Vec<Split>,
    pub(crate) live: u32,
    pub(crate) carry: u32,
    /// Lanes for which the cluster's barrier is complete, but that have not waited for it yet.
    pub(crate) answered: u32,
}

impl Warp {
    /// Sets up all its threads at the start of a function. In place, because a copied split would
    /// have to wait until it has left the store buffer.
    fn begin(&mut self, mask: u32, function: u32, pc: u32) {
        self.live = mask;
        self.carry = 0;
        self.answered = 0;
        if self.splits.len() != 1 {
            self.splits.clear();
            self.splits.push(Split {
                pc,
                mask,
                state: State::Ended,
                age: 0,
                function,
                base: Base::default(),
                calls: Vec::new(),
            });
        }
        let split = &mut self.splits[0];
        split.pc = pc;
        split.mask = mask;
        split.state = State::Ready;
        split.age = 0;
        split.function = function;
        split.base = Base::default();
        split.calls.clear();
    }
}

/// One of a block's sixteen barriers, or its cluster's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Barrier {
    pub(crate) arrived: u32,
    /// Number of threads that it waits for; 0 for all live ones.
    pub(crate) expected: u32,
    pub(crate) count: u32,
    pub(crate) all: bool,
    pub(crate) any: bool,
}

/// Progress of a round over a block's warps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Number of warps that have had their turn.
    pub(crate) ran: usize,
    /// Backward jumps left to the next warp, if its turn was interrupted.
    pub(crate) jumps: u32,
    /// True if some warp could run.
    pub(crate) moved: bool,
    /// True if some warp used up its jumps.
    pub(crate) spun: bool,
}

/// Maximum local memory of a block that is cleared at once when a block starts. More is cleared
/// warp by warp, just before the warp runs.
const AT_ONCE: usize = 64 << 10;
/// Bytes cleared between two checks of the time.
const PIECE: u32 = 256 << 10;

/// Uncleared data of an earlier block in a warp's local memory.
#[derive(Clone, Copy, Debug, Default)]
struct Leftover {
    /// Bytes of each thread that must be cleared.
    bytes: u32,
    /// Number of threads that are cleared already.
    lanes: u32,
}

/// Scratch and state of a block.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) index: u64,
    pub(crate) ctaid: [u32; 3],
    pub(crate) warps: Vec<Warp>,
    pub(crate) words: Vec<Words>,
    pub(crate) doubles: Vec<Doubles>,
    pub(crate) preds: Vec<u32>,
    pub(crate) shared: Vec<u128>,
    pub(crate) local: Vec<u128>,
    /// By warp, if local memory is too large to be cleared at once.
    leftovers: Vec<Leftover>,
    /// Bytes of each thread's local memory that its frames have reached.
    pub(crate) top: u32,
    /// True if a block has run here since everything was cleared.
    used: bool,
    pub(crate) barriers: [Barrier; 17],
    /// Barriers with arrivals, one bit each. Most blocks use few barriers, or none.
    pub(crate) awaited: u32,
    pub(crate) live: u32,
    /// Its position in the order in which the launch's blocks began.
    pub(crate) place: u64,
    pub(crate) round: Round,
    pub(crate) spins: u32,
    pub(crate) printed: Printed,
}

/// Position of a block in its grid. Many launches have one block, and divisions cost as much as the
/// rest of its start.
fn ctaid(grid: [u32; 3], index: u64) -> [u32; 3] {
    let [x, y, _] = grid.map(u64::from);
    match index {
        0 => [0; 3],
        _ => [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ],
    }
}

impl Block {
    /// Sizes and clears the scratch for a launch, so that data of an earlier one cannot be read.
    /// Every bank has room behind its last register for any slot of any bank. An instruction that
    /// is decoded wrongly reads a wrong value there, but never foreign memory.
    pub(crate) fn fit(&mut self, launch: &Launch) {
        fn zeroed<T: Clone>(list: &mut Vec<T>, count: usize, zero: T) {
            list.clear();
            list.resize(count, zero);
        }
        let stack = &launch.stack;
        let warps = launch.warps;
        zeroed(
            &mut self.words,
            warps * stack.words as usize / 128 + launch.reach.div_ceil(128),
            Words([0; LANES]),
        );
        zeroed(
            &mut self.doubles,
            warps * stack.doubles as usize / 256 + launch.reach.div_ceil(256),
            Doubles([0; LANES]),
        );
        let preds = warps * stack.preds as usize + launch.preds_mask as usize + 1;
        zeroed(&mut self.preds, preds, 0);
        zeroed(&mut self.shared, (launch.shared as usize).div_ceil(16), 0);
        let local = warps * LANES * stack.local as usize / 16;
        self.leftovers.clear();
        if local * 16 > AT_ONCE {
            // Fresh memory from the system: its pages are zeroed on first touch.
            self.local = vec![0; local];
            self.leftovers.resize(warps, Leftover::default());
        } else {
            zeroed(&mut self.local, local, 0);
        }
        self.used = false;
        self.warps.resize_with(warps, Warp::default);
        for (special, slot) in &launch.program.decoded.functions[launch.function as usize].specials
        {
            if let Special::Ctaid(_) = special {
                continue;
            }
            for warp in 0..warps {
                let at = self.word_at(launch, warp, Base::default(), *slot);
                self.words[at].0 = launch.place(*special, warp, [0; 3]);
            }
        }
    }

    pub(crate) fn word_at(&self, launch: &Launch, warp: usize, base: Base, slot: Slot) -> usize {
        (warp * launch.stack.words as usize + (base.words + slot.0) as usize) / 128
    }

    /// Clears the data of an earlier block in shared and local memory. A kernel that reads it
    /// before it writes must not depend on the blocks that this thread has run.
    fn wipe(&mut self, launch: &Launch) {
        // An empty fill by `memset` costs a masked store to an invalid address: a hundred
        // nanoseconds on some processors.
        if !self.shared.is_empty() {
            self.shared.fill(0);
        }
        if self.top == 0 {
            return;
        }
        if !self.leftovers.is_empty() {
            for left in &mut self.leftovers {
                left.bytes = left.bytes.max(self.top);
                left.lanes = 0;
            }
            return;
        }
        let (stride, top) = (launch.stack.local as usize, self.top as usize);
        // Frames and stacks take whole rows of 16 bytes.
        let (stride, top) = (stride / 16, top.div_ceil(16));
        if top == stride {
            self.local.fill(0);
        } else {
            let threads = self.local.chunks_exact_mut(stride);
            threads.for_each(|thread| thread[..top].fill(0));
        }
    }

    /// Clears the data of an earlier block in a warp's local memory, within the time of its turn.
    /// True if all of it is cleared.
    pub(crate) fn is_cleared(
        &mut self,
        launch: &Launch,
        warp: usize,
        budget: &WarpBudget<'_>,
    ) -> bool {
        let Some(left) = self.leftovers.get_mut(warp).filter(|it| it.bytes > 0) else {
            return true;
        };
        let stride = launch.stack.local as usize / 16;
        let bytes = left.bytes.div_ceil(16) as usize;
        let look = (PIECE / left.bytes).max(1);
        while (left.lanes as usize) < LANES {
            let at = (warp * LANES + left.lanes as usize) * stride;
            self.local[at..at + bytes].fill(0);
            left.lanes += 1;
            if left.lanes.is_multiple_of(look) && budget.is_late() {
                break;
            }
        }
        let whole = left.lanes as usize == LANES;
        if whole {
            *left = Leftover::default();
        }
        whole
    }

    /// Bytes of memory that the block takes.
    pub(crate) fn bytes(&self) -> u64 {
        let registers = size_of_val(&*self.words) + size_of_val(&*self.doubles);
        let rest = size_of_val(&*self.preds) + size_of_val(&*self.shared);
        (registers + rest + size_of_val(&*self.local)) as u64
    }

    /// Starts a block of the grid in this scratch.
    pub(crate) fn start(&mut self, launch: &Launch, index: u64) {
        let function = &launch.program.decoded.functions[launch.function as usize];
        if std::mem::replace(&mut self.used, true) {
            self.wipe(launch);
        }
        self.top = function.frame.local;
        self.index = index;
        self.ctaid = ctaid(launch.grid, index);
        self.live = launch.threads;
        if self.awaited != 0 {
            self.barriers = [Barrier::default(); 17];
            self.awaited = 0;
        }
        self.round = Round::default();
        self.spins = 0;
        if !self.printed.is_empty() {
            self.printed = Printed::default();
        }
        for (special, slot) in &function.specials {
            if let Special::Ctaid(_) = special {
                let row = launch.place(*special, 0, self.ctaid);
                for warp in 0..launch.warps {
                    let at = self.word_at(launch, warp, Base::default(), *slot);
                    self.words[at].0 = row;
                }
            }
        }
        for warp in 0..launch.warps {
            self.clear(
                launch,
                (warp, u32::MAX),
                Base::default(),
                &function.unwritten,
            );
        }
        for (at, warp) in self.warps.iter_mut().enumerate() {
            let threads = launch.threads - (at * LANES) as u32;
            let mask = if threads >= 32 {
                u32::MAX
            } else {
                (1 << threads) - 1
            };
            warp.begin(mask, launch.function, function.start);
        }
    }

    /// Zeroes registers that a function may read before it writes them.
    pub(crate) fn clear(
        &mut self,
        launch: &Launch,
        place: (usize, u32),
        base: Base,
        registers: &[(Bank, Slot)],
    ) {
        let (warp, mask) = place;
        for (bank, slot) in registers {
            if *bank == Bank::Word && mask == u32::MAX {
                let row = self.word_at(launch, warp, base, *slot);
                self.words[row].0 = [0; LANES];
            } else {
                self.write(launch, place, base, (*bank, *slot), &[0; LANES]);
            }
        }
    }

    /// Lanes of a source, as 64-bit values.
    pub(crate) fn read(
        &self,
        launch: &Launch,
        warp: usize,
        base: Base,
        bank: Bank,
        slot: Slot,
    ) -> [u64; LANES] {
        let constant = slot.0 & Slot::CONSTANT != 0;
        let at = (slot.0 & !Slot::CONSTANT) as usize;
        match bank {
            Bank::Word if constant => launch.words[at / 128].0.map(u64::from),
            Bank::Double if constant => launch.doubles[at / 256].0,
            Bank::Word => self.words[self.word_at(launch, warp, base, slot)]
                .0
                .map(u64::from),
            Bank::Double => {
                let first = warp * launch.stack.doubles as usize + base.doubles as usize;
                self.doubles[(first + at) / 256].0
            }
            Bank::Pred => {
                let first = warp * launch.stack.preds as usize + base.preds as usize;
                let bits = self.preds[first + at];
                std::array::from_fn(|lane| u64::from(bits >> lane & 1))
            }
        }
    }

    /// Stores the lanes of a mask.
    pub(crate) fn write(
        &mut self,
        launch: &Launch,
        (warp, mask): (usize, u32),
        base: Base,
        (bank, slot): (Bank, Slot),
        values: &[u64; LANES],
    ) {
        let at = slot.0 as usize;
        for (lane, value) in values
            .iter()
            .enumerate()
            .filter(|(lane, _)| mask >> lane & 1 != 0)
        {
            match bank {
                Bank::Word => {
                    let row = self.word_at(launch, warp, base, slot);
                    self.words[row].0[lane] = *value as u32;
                }
                Bank::Double => {
                    let first = warp * launch.stack.doubles as usize + base.doubles as usize;
                    self.doubles[(first + at) / 256].0[lane] = *value;
                }
                Bank::Pred => {
                    let first = warp * launch.stack.preds as usize + base.preds as usize;
                    let bits = &mut self.preds[first + at];
                    *bits = *bits & !(1 << lane) | u32::from(*value != 0) << lane;
                }
            }
        }
    }
}
