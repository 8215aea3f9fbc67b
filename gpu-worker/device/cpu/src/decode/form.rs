//! The decoded form: what an instruction is, with registers, labels and symbols resolved.
//!
//! It is plain data and knows nothing of how it is executed; `engine::code` picks the lane loops.

pub(crate) use super::kind::{
    Atomic, BarRed, Carry, Compare, Float1, Float2, Int1, Int2, Int3, Limit, Logic, Mode,
    Narrowing, Permute, Place, Redux, Round, Shuffle, Small, Taken, Test, Vote, Wait,
};
pub(crate) use super::texture_kind::{Asked, Bounds, Geometry, Given, Sample, Surface};
pub(crate) use super::tile::{
    Element, Family, Finish, Fragment, Mma, Quads, Role, Shape, Sparse, Total,
};
pub(crate) use super::video_kind::{
    Field, Negated, Secondary, Video, VideoMad, VideoOp, VideoParts,
};
use ptx::Scalar;
use std::collections::BTreeSet;

/// A register, predicate or constant of a frame.
///
/// For the banks of 32- and 64-bit registers this is the byte offset of the lane array, with
/// [`Slot::CONSTANT`] for the launch's constants; for predicates it is an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    pub(crate) const CONSTANT: u32 = 1 << 31;
    /// A register of a body that is being decoded, by its number.
    const VIRTUAL: u32 = 1 << 30;

    /// A register that has no place yet.
    pub(crate) fn virtual_register(number: usize) -> Self {
        Self(number as u32 | Self::VIRTUAL)
    }

    /// The number of a register that has no place yet.
    pub(crate) fn number(self) -> Option<usize> {
        (self.0 >> 30 == 1).then_some((self.0 & !Self::VIRTUAL) as usize)
    }
}

/// Which lanes run an instruction: a predicate and its sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuardSlot {
    pub(crate) slot: u32,
    pub(crate) negated: bool,
}

/// What an instruction does. `slots` are its operands; each group says in which order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// d, a. Whole registers of 32 bits.
    Move32,
    /// d, a. Whole registers of 64 bits.
    Move64,
    /// d(64), lo, hi.
    Pack64,
    /// lo, hi, a(64).
    Unpack64,
    /// d, then n parts: n parts of 32 / n bits into one register of 32, lowest first.
    Pack32(u8),
    /// n parts, then the whole.
    Unpack32(u8),
    /// d(64), then 4 parts of 16 bits.
    Pack64x4,
    /// 4 parts, then the whole.
    Unpack64x4,
    /// d, a, b.
    Int2(Int2, Scalar),
    /// d, a.
    Int1(Int1, Scalar),
    /// d, a, b, c (and the fourth for bfi: d, a, b, c, d).
    Int3(Int3, Scalar),
    /// d, a, b (, c): operation, whether the carry comes in, whether it goes out.
    Carry(Carry, Scalar, bool, bool),
    /// d, a, b.
    Float2(Float2, Scalar, Mode),
    /// d, a.
    Float1(Float1, Scalar, Mode),
    /// d, a, b, c: fused; `true`: and then max(0, x).
    Fma(Scalar, Mode, bool),
    /// d, a, b, c.
    Video(Video),
    /// d, a, b, c.
    VideoMad(VideoMad),
    /// d, a, b, c.
    VideoParts(VideoParts),
    /// p, a.
    Testp(Test, Scalar),
    /// d, a: to, from.
    Convert(Scalar, Scalar, Mode),
    /// d, a: a float to an integral value of its type.
    Integral(Scalar, Mode),
    /// d, a (, b): into formats of tensor cores; a is the upper part of a pair.
    Narrow(Narrowing),
    /// d, a: two floats of 8 bits into an f16x2; `true`: and then max(0, x).
    WidenPair(Small, bool),
    /// d, a, b, c: `cvt.pack` into so many bits each.
    PackSat {
        bits: u8,
        signed: bool,
    },
    /// p, q, a, b, c; `q` may be absent, `c` joins by logic.
    Setp(Compare, Scalar, bool, Option<(Logic, bool)>),
    /// d, a, b, c: result type, source type.
    Set(Compare, Scalar, Scalar, bool, Option<(Logic, bool)>),
    /// d, a, b, p: registers of 32 bits.
    Select32,
    /// d, a, b, p: registers of 64 bits.
    Select64,
    /// p, a, b, q.
    SelectPred,
    /// d, a, b, c: type of c.
    Slct(bool, Scalar, bool),
    /// p, a, b; the flags negate a and b.
    Logic(Logic, bool, bool),
    /// address, values: place, type, how many; the address register has 64 bits if `wide`.
    Load {
        place: Place,
        ty: Scalar,
        lanes: u8,
        wide: bool,
    },
    /// As `Load`.
    Store {
        place: Place,
        ty: Scalar,
        lanes: u8,
        wide: bool,
    },
    /// d, address, b, c; `fetch`: whether d is wanted.
    Atomic {
        place: Place,
        op: Atomic,
        ty: Scalar,
        wide: bool,
        fetch: bool,
    },
    /// address; values, then results if `fetch`, in the pool from `target`.
    AtomicVector {
        place: Place,
        op: Atomic,
        ty: Scalar,
        lanes: u8,
        wide: bool,
        fetch: bool,
    },
    /// address; d, b and if `cas` c, halves of 128 bits each, in the pool from `target`.
    AtomicWide {
        place: Place,
        wide: bool,
        cas: bool,
    },
    /// Orders memory.
    Fence,
    /// Nothing to do (prefetches, cp.async groups).
    Nothing,
    /// to(shared), from(global), what limits the source; each address register's width.
    CopyAsync {
        bytes: u8,
        wide: [bool; 2],
        limit: Limit,
    },
    /// d(64) or p, address, number or state.
    MemoryBarrier {
        wait: Wait,
        place: Place,
        wide: bool,
    },
    /// d, state(64).
    PendingCount,
    /// d, p, a, b, c, member mask.
    Shuffle(Shuffle),
    /// d or p, a, member mask; the flag negates a.
    Vote(Vote, bool),
    /// d, p, a, member mask: whether `.all`, whether of 64 bits.
    Match(bool, bool),
    /// d, a, member mask.
    Redux(Redux, Scalar),
    /// d, p, member mask.
    Elect,
    /// d.
    Activemask,
    /// member mask.
    WarpSync,
    /// member mask; registers of D, A, B, C in the pool from `imm`.
    Mma(Mma),
    /// As `Mma`.
    MmaSparse(Sparse),
    /// As `Mma`.
    MmaQuads(Quads),
    /// member mask, address, then `count` registers: `ldmatrix`, or `stmatrix` if `write`.
    MatrixRows {
        count: u8,
        turned: bool,
        place: Place,
        wide: bool,
        write: bool,
    },
    /// member mask, d, a: `movmatrix`.
    MatrixTurn,
    /// member mask, address, stride; registers in the pool from `target`: `wmma.load`, or
    /// `wmma.store` if `write`.
    MatrixLines {
        fragment: Fragment,
        place: Place,
        wide: bool,
        write: bool,
    },
    /// object(64); results, layer, coordinates and offsets in the pool from `target`.
    Sample(Sample),
    /// object(64); layer, coordinates and values in the pool from `target`.
    Surface(Surface),
    /// d, object(64): what is asked, whether of a surface.
    Ask(Asked, bool),
    /// p, a(64): whether it is the handle of a texture, or of a surface; of neither if `None`.
    IsObject(Option<bool>),
    /// id, count, d or p, a: `arrive` does not wait.
    Barrier {
        arrive: bool,
        counted: bool,
        red: Option<(BarRed, bool)>,
    },
    /// The halves of a barrier of the cluster.
    ClusterArrive,
    ClusterWait,
    /// d(64): virtual clock; the flag: nanoseconds.
    Clock(bool),
    /// d(32): what the warp's place gives.
    Place(Special),
    /// d(64): the frame's place in local memory plus `imm`.
    FrameAddress,
    /// d(32).
    Lanemask(Lanemask),
    /// p, a(64): whether a generic address lies in a window.
    IsSpace(Place),
    /// To `target`.
    Branch,
    /// index: to one of `targets` from `imm`.
    BranchIndex,
    /// Call site `target`.
    Call,
    /// Back to the caller, or the end of the thread.
    Return,
    /// The end of the thread.
    Exit,
    /// A fault; of a breakpoint if `imm` is not 0.
    Trap,
    /// Lets others run.
    Yield,
}

/// `%lanemask_…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lanemask {
    Eq,
    Le,
    Lt,
    Ge,
    Gt,
}

/// One decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: Option<GuardSlot>,
    pub(crate) slots: [Slot; 6],
    /// Address offset, or index into a side table or the pool of operands.
    pub(crate) imm: i64,
    /// Instruction or call site jumped to, or index into the pool of operands.
    pub(crate) target: u32,
    /// Line in the module's text.
    pub(crate) line: u32,
}

/// Which bank a register lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bank {
    /// 16- and 32-bit registers, one u32 per lane.
    Word,
    /// 64-bit registers.
    Double,
    /// One bit per lane.
    Pred,
}

impl Bank {
    /// The bank for values of a type.
    pub(crate) fn of(ty: Scalar) -> Self {
        match ty {
            Scalar::Pred => Self::Pred,
            Scalar::B64 | Scalar::U64 | Scalar::S64 | Scalar::F64 => Self::Double,
            _ => Self::Word,
        }
    }
}

/// What a constant of a launch is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    /// Bits known at decode.
    Bits(u64),
    /// A piece of the parameter block, extended by its sign or with zeros.
    Param { offset: u32, ty: Scalar },
    /// Address of module variable `symbol`, plus bytes.
    Global { symbol: u32, offset: i64 },
    /// Where dynamic shared memory begins, plus bytes.
    DynamicShared { offset: i64 },
    /// `%ntid`.
    Ntid(u8),
    /// `%nctaid`.
    Nctaid(u8),
    /// `%dynamic_smem_size` and `%total_smem_size`.
    SharedSize { total: bool },
    /// `%reserved_smem_offset_begin` and its like.
    ReservedShared(Reserved),
    /// `%laneid`: differs by lane, is the same for every warp.
    Lane,
}

/// What is said of the shared memory that lies apart from the program's in each block, for libraries
/// that are part of the toolkit (cooperative groups keep barriers in its second half).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reserved {
    Begin,
    End,
    Size,
    /// Where one of its parts begins: 0 or 1.
    Part(u8),
}

impl Reserved {
    /// Its bytes, as on every device since compute capability 8.0.
    pub(crate) const BYTES: u32 = 1024;

    /// What is said of memory that begins at an offset.
    pub(crate) fn value(self, begin: u32) -> u32 {
        match self {
            Self::Begin => begin,
            Self::End => begin + Self::BYTES,
            Self::Size => Self::BYTES,
            Self::Part(part) => begin + u32::from(part) * (Self::BYTES / 2),
        }
    }
}

/// Registers that a warp's or block's place gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ctaid(u8),
    WarpId,
}

/// Where an argument or result of a call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// A register of a bank.
    Register(Bank, Slot),
    /// Bytes of local memory: offset from the frame, size.
    Local(u32, u32),
}

/// Whom a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of this module.
    Function(u32),
    /// The function whose address is in this register.
    Register(Slot),
    /// A function that the device provides.
    Runtime(Runtime),
}

/// What the device provides where a module only declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// `vprintf(format, arguments)`.
    Print,
    /// `malloc(bytes)`.
    Allocate,
    /// `free(address)`.
    Free,
    /// `__assertfail(message, file, line, function, character size)`.
    Assert,
}

impl Runtime {
    /// The function of this name and of so many arguments and results.
    pub(crate) fn find(name: &str, shape: (usize, usize)) -> Option<Self> {
        Some(match (name, shape) {
            ("vprintf", (2, 1)) => Self::Print,
            ("malloc", (1, 1)) => Self::Allocate,
            ("free", (1, 0)) => Self::Free,
            ("__assertfail", (5, 0)) => Self::Assert,
            _ => return None,
        })
    }
}

/// One call instruction's operands.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    pub(crate) callee: Callee,
    pub(crate) args: Vec<Passed>,
    pub(crate) rets: Vec<Passed>,
}

impl CallSite {
    /// Every register it names.
    pub(crate) fn registers(&self) -> impl Iterator<Item = &Slot> {
        let passed = self.args.iter().chain(&self.rets);
        let passed = passed.filter_map(|passed| match passed {
            Passed::Register(_, slot) => Some(slot),
            Passed::Local(..) => None,
        });
        let callee = match &self.callee {
            Callee::Register(slot) => Some(slot),
            _ => None,
        };
        passed.chain(callee)
    }
}

/// A function or entry, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) start: u32,
    pub(crate) frame: Frame,
    pub(crate) params: Vec<Passed>,
    pub(crate) returns: Vec<Passed>,
    /// Registers that a warp's place fills.
    pub(crate) specials: Vec<(Special, Slot)>,
    /// Functions called directly.
    pub(crate) calls: Vec<u32>,
    pub(crate) indirect: bool,
    /// Constants it uses, of words and of doubles.
    pub(crate) constants: (BTreeSet<u32>, BTreeSet<u32>),
    /// Registers that it may read before it writes them: zeroed when it starts.
    pub(crate) unwritten: Vec<(Bank, Slot)>,
    /// The blocks in the order in which parted lanes run, each by its first instruction and that behind its last;
    /// empty where that is the order of the text.
    pub(crate) order: Vec<(u32, u32)>,
    /// Where its registers live, for who generates code.
    pub(crate) alive: Alive,
}

/// Which of a function's registers live behind its blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive {
    /// First instruction of each block.
    pub(crate) starts: Vec<u32>,
    /// Numbers of registers that live behind each.
    pub(crate) behind: super::lists::Lists,
    /// Numbers of those that are taken to live everywhere.
    pub(crate) always: Vec<u32>,
    /// The places of registers, by their numbers.
    pub(crate) places: Vec<(Bank, Slot)>,
}

/// What one activation of a function takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes in the bank of 32-bit registers.
    pub(crate) words: u32,
    /// Bytes in the bank of 64-bit registers.
    pub(crate) doubles: u32,
    /// Predicates.
    pub(crate) preds: u32,
    /// Bytes of local memory per thread.
    pub(crate) local: u32,
}

impl Frame {
    /// What a bank takes.
    pub(crate) fn bank(&mut self, bank: Bank) -> &mut u32 {
        match bank {
            Bank::Word => &mut self.words,
            Bank::Double => &mut self.doubles,
            Bank::Pred => &mut self.preds,
        }
    }
}

/// Base of the generic window of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// Base of the generic window of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
/// Bytes of each of these windows.
pub(crate) const WINDOW_SIZE: u64 = 1 << 32;
/// Base of the addresses of a kernel's parameters.
pub(crate) const PARAM_WINDOW: u64 = 0x0400_0000_0000;
/// Base of the addresses of functions.
pub(crate) const CODE_WINDOW: u64 = 0x0300_0000_0000;
/// Distance of two functions' addresses.
pub(crate) const CODE_STRIDE: u64 = 16;
