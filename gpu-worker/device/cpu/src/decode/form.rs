//! The decoded form: instructions with registers, labels and symbols resolved.
//!
//! It is plain data, independent of its execution; `engine::code` picks the lane loops.

pub(crate) use super::function::{Alive, CallSite, Callee, Frame, Function, Passed, Runtime};
pub(crate) use super::kind::{
    Atomic, BarRed, Carry, Compare, Float1, Float2, Int1, Int2, Int3, Limit, Logic, Mode,
    Narrowing, Permute, Place, Pointer, Redux, Round, Shuffle, Small, Taken, Test, Vote, Wait,
};
pub(crate) use super::texture_kind::{Asked, Bounds, Geometry, Given, Sample, Surface};
pub(crate) use super::tile::{
    Element, Family, Finish, Fragment, Mma, Quads, Role, Shape, Sparse, Total,
};
pub(crate) use super::video_kind::{
    Field, Negated, Secondary, Video, VideoMad, VideoOp, VideoParts,
};
use ptx::Scalar;

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

/// The predicate that selects the lanes of an instruction, and its sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuardSlot {
    pub(crate) slot: u32,
    pub(crate) negated: bool,
}

/// The operation of an instruction. `slots` are its operands; each group names their order.
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
    /// d, a, b (, c): operation, carry in, carry out.
    Carry(Carry, Scalar, bool, bool),
    /// d, a, b.
    Float2(Float2, Scalar, Mode),
    /// d, a.
    Float1(Float1, Scalar, Mode),
    /// d, a, b, c: fused; `true`: then max(0, x).
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
    /// d, a (, b): into the formats of tensor cores; a is the upper part of a pair.
    Narrow(Narrowing),
    /// d, a: two floats of 8 bits into an f16x2; `true`: then max(0, x).
    WidenPair(Small, bool),
    /// d, a, b, c: `cvt.pack` into that many bits each.
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
    /// address, values: place, type, count.
    Load {
        at: Pointer,
        ty: Scalar,
        lanes: u8,
    },
    /// As `Load`.
    Store {
        at: Pointer,
        ty: Scalar,
        lanes: u8,
    },
    /// d, address, b, c; `fetch`: d is used.
    Atomic {
        at: Pointer,
        op: Atomic,
        ty: Scalar,
        fetch: bool,
    },
    /// address; values, then results if `fetch`, in the pool from `target`.
    AtomicVector {
        at: Pointer,
        op: Atomic,
        ty: Scalar,
        lanes: u8,
        fetch: bool,
    },
    /// address; d, b and if `cas` c, halves of 128 bits each, in the pool from `target`.
    AtomicWide {
        at: Pointer,
        cas: bool,
    },
    /// Orders memory.
    Fence,
    /// Nothing to do (prefetches, cp.async groups).
    Nothing,
    /// to(shared), from(global), the limit of the source; each address register's width.
    CopyAsync {
        bytes: u8,
        wide: [bool; 2],
        limit: Limit,
    },
    /// d(64) or p, address, number or state.
    MemoryBarrier {
        wait: Wait,
        at: Pointer,
    },
    /// d, state(64).
    PendingCount,
    /// d, p, a, b, c, member mask.
    Shuffle(Shuffle),
    /// d or p, a, member mask; the flag negates a.
    Vote(Vote, bool),
    /// d, p, a, member mask: `.all`, 64 bits.
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
        at: Pointer,
        write: bool,
    },
    /// member mask, d, a: `movmatrix`.
    MatrixTurn,
    /// member mask, address, stride; registers in the pool from `target`: `wmma.load`, or
    /// `wmma.store` if `write`.
    MatrixLines {
        fragment: Fragment,
        at: Pointer,
        write: bool,
    },
    /// object(64); results, layer, coordinates and offsets in the pool from `target`.
    Sample(Sample),
    /// object(64); layer, coordinates and values in the pool from `target`.
    Surface(Surface),
    /// d, object(64): the query; `true`: of a surface.
    Ask(Asked, bool),
    /// p, a(64): true for the handle of a texture, or of a surface; of neither if `None`.
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
    /// d(32): a value of the warp's place.
    Place(Special),
    /// d(64): the frame's place in local memory plus `imm`.
    FrameAddress,
    /// d(32).
    Lanemask(Lanemask),
    /// p, a(64): true if a generic address is in a window.
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
    /// A fault; a breakpoint if `imm` is not 0.
    Trap,
    /// Lets other warps run.
    Yield,
}

impl Op {
    /// The move of a register that holds a value of a type.
    pub(crate) fn moving(ty: Scalar) -> Self {
        match Bank::of(ty) {
            Bank::Double => Self::Move64,
            _ => Self::Move32,
        }
    }

    /// The conversion of an unsigned 32-bit number to 64 bits.
    pub(crate) fn widening() -> Self {
        Self::Convert(Scalar::B64, Scalar::U32, Mode::default())
    }

    /// The low half of 64 bits.
    pub(crate) fn narrowing() -> Self {
        Self::Convert(Scalar::B32, Scalar::B64, Mode::default())
    }
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

/// The bank of a register.
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

/// A constant of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    /// Bits known at decode.
    Bits(u64),
    /// A piece of the parameter block, extended by its sign or with zeros.
    Param { offset: u32, ty: Scalar },
    /// Address of module variable `symbol`, plus bytes.
    Global { symbol: u32, offset: i64 },
    /// Start of dynamic shared memory, plus bytes.
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

/// Properties of the reserved shared memory, which is separate from the program's in each block.
/// Libraries of the toolkit use it: cooperative groups keep barriers in its second half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reserved {
    Begin,
    End,
    Size,
    /// Start of part 0 or 1.
    Part(u8),
}

impl Reserved {
    /// Its bytes, as on every device since compute capability 8.0.
    pub(crate) const BYTES: u32 = 1024;

    /// The value of this register if the reserved memory begins at an offset.
    pub(crate) fn value(self, begin: u32) -> u32 {
        match self {
            Self::Begin => begin,
            Self::End => begin + Self::BYTES,
            Self::Size => Self::BYTES,
            Self::Part(part) => begin + u32::from(part) * (Self::BYTES / 2),
        }
    }
}

/// Registers that depend on the place of a warp or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ctaid(u8),
    WarpId,
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
/// Distance between the addresses of two functions.
pub(crate) const CODE_STRIDE: u64 = 16;
