//! The kinds of instructions: what an opcode and its modifiers choose from.

/// How a float result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Round {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// To nearest, ties away from zero (`.rna`).
    Away,
}

/// Modifiers of float arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Mode {
    pub(crate) round: Round,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
}

/// The formats of tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Small {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
}

/// What a conversion into a small format takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Taken {
    /// An f32.
    One,
    /// Two f32.
    Two,
    /// An f16x2.
    Halves,
}

/// How numbers become a small format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Narrowing {
    pub(crate) to: Small,
    pub(crate) taken: Taken,
    pub(crate) round: Round,
    /// `.relu`: negative numbers become zero.
    pub(crate) relu: bool,
    /// `.satfinite`: what is too large becomes the greatest finite number.
    pub(crate) finite: bool,
}

/// Integer operations of two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Int2 {
    Add,
    AddSat,
    Sub,
    SubSat,
    Mul,
    MulHi,
    MulWide,
    Mul24Lo,
    Mul24Hi,
    Div,
    Rem,
    Min,
    Max,
    /// And then max(0, x).
    MinRelu,
    /// And then max(0, x).
    MaxRelu,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    BmskClamp,
    BmskWrap,
    SzextClamp,
    SzextWrap,
}

/// Integer operations of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Int1 {
    Abs,
    Neg,
    Not,
    Cnot,
    Popc,
    Clz,
    Brev,
    Bfind,
    BfindShift,
}

/// Integer operations of three or four sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Int3 {
    Mad,
    MadHi,
    MadHiSat,
    MadWide,
    Mad24Lo,
    Mad24Hi,
    Mad24HiSat,
    Sad,
    Bfe,
    Fns,
    Bfi,
    Prmt(Permute),
    ShfLeftClamp,
    ShfLeftWrap,
    ShfRightClamp,
    ShfRightWrap,
    Lop3(u8),
    /// Signedness of the two factors.
    Dp4a(bool, bool),
    /// Signedness of the two factors, and whether the high halves are taken.
    Dp2a(bool, bool, bool),
}

/// Modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permute {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Arithmetic with the carry flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Carry {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// Float operations of two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    /// With the rule for divisors beyond 2^126.
    DivApprox,
    Min,
    Max,
    MinNan,
    MaxNan,
    /// `.xorsign.abs`: of sizes, with the sign of the product.
    MinXor,
    MaxXor,
    MinNanXor,
    MaxNanXor,
    Copysign,
}

/// Float operations of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Float1 {
    Abs,
    Neg,
    Rcp,
    Sqrt,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// `testp` properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Comparisons. The last six are true where an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Logic of predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    Not,
    Copy,
}

/// Where a memory instruction points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Any window, by address.
    Generic,
    /// The session's memory (`.global` and `.const`).
    Global,
    /// The block's shared memory.
    Shared,
    /// The thread's local memory.
    Local,
    /// The thread's local memory, from the frame of the running function.
    Frame,
    /// The kernel's parameters, by their generic addresses.
    Param,
    /// The session's memory that kernels only read.
    Const,
}

/// What an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Atomic {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

/// Shuffle modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Vote modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// Reductions over a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Redux {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Reductions over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BarRed {
    Popc,
    And,
    Or,
}

/// How much of the source an asynchronous copy reads; the rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// All.
    None,
    /// That many bytes.
    Bytes,
    /// None where a predicate holds, or does not if `true`.
    Ignored(bool),
}

/// What is done with a memory barrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    Init,
    Invalidate,
    /// Expects more bytes.
    Expect,
    /// Counts bytes as arrived.
    Complete,
    /// Counts arrivals (or one, and expects bytes); `drop` takes them off all later phases.
    Arrive {
        expect: bool,
        drop: bool,
    },
    /// Whether the phase of a state, or of a parity, is over.
    Test {
        parity: bool,
    },
}
