//! The kinds of instructions: what an opcode and its modifiers choose from.

/// Declares kinds, each of their variants with the modifiers of PTX that name it.
macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$note:meta])* $variant:ident $(($($held:ty),*))? $(= $($text:literal)|+)?,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $name { $($(#[$note])* $variant $(($($held),*))?,)* }

        impl $name {
            /// The variant that a modifier names.
            pub(crate) fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($($($text)|+ => Some(Self::$variant),)?)*
                    _ => None,
                }
            }
        }
    )*};
}
pub(super) use kinds;

kinds! {
    /// Integer operations of two sources.
    Int2 {
        Add = "add",
        AddSat,
        Sub = "sub",
        SubSat,
        Mul = "mul",
        MulHi,
        MulWide,
        Mul24Lo,
        Mul24Hi,
        Div = "div",
        Rem = "rem",
        Min = "min",
        Max = "max",
        /// And then max(0, x).
        MinRelu,
        /// And then max(0, x).
        MaxRelu,
        And = "and",
        Or = "or",
        Xor = "xor",
        Shl = "shl",
        Shr = "shr",
        BmskClamp,
        BmskWrap,
        SzextClamp,
        SzextWrap,
    }

    /// Integer operations of one source.
    Int1 {
        Abs = "abs",
        Neg = "neg",
        Not = "not",
        Cnot = "cnot",
        Popc = "popc",
        Clz = "clz",
        Brev = "brev",
        Bfind = "bfind",
        BfindShift,
    }

    /// Integer operations of three or four sources.
    Int3 {
        Mad = "mad",
        MadHi,
        MadHiSat,
        MadWide,
        Mad24Lo,
        Mad24Hi,
        Mad24HiSat,
        Sad = "sad",
        Bfe = "bfe",
        Fns = "fns",
        Bfi = "bfi",
        Prmt(Permute),
        /// Whether to the left, and whether the count wraps.
        Shf(bool, bool),
        Lop3(u8),
        /// Signedness of the two factors.
        Dp4a(bool, bool),
        /// Signedness of the two factors, and whether the high halves are taken.
        Dp2a(bool, bool, bool),
    }

    /// Float operations of two sources.
    Float2 {
        Add = "add",
        Sub = "sub",
        Mul = "mul",
        Div = "div",
        /// With the rule for divisors beyond 2^126.
        DivApprox,
        Min = "min",
        Max = "max",
        MinNan,
        MaxNan,
        /// `.xorsign.abs`: of sizes, with the sign of the product.
        MinXor,
        MaxXor,
        MinNanXor,
        MaxNanXor,
        Copysign = "copysign",
    }

    /// Float operations of one source.
    Float1 {
        Abs = "abs",
        Neg = "neg",
        Rcp = "rcp",
        Sqrt = "sqrt",
        Rsqrt = "rsqrt",
        Ex2 = "ex2",
        Lg2 = "lg2",
        Sin = "sin",
        Cos = "cos",
        Tanh = "tanh",
    }

    /// How a float result is rounded.
    #[derive(Default)]
    Round {
        /// To nearest, ties to even.
        #[default]
        Nearest = "rn" | "rni",
        /// Towards zero.
        Zero = "rz" | "rzi",
        /// Towards minus infinity.
        Down = "rm" | "rmi",
        /// Towards plus infinity.
        Up = "rp" | "rpi",
        /// To nearest, ties away from zero (`.rna`).
        Away = "rna",
    }

    /// Modes of `prmt`.
    #[derive(Default)]
    Permute {
        #[default]
        Index,
        F4e = "f4e",
        B4e = "b4e",
        Rc8 = "rc8",
        Ecl = "ecl",
        Ecr = "ecr",
        Rc16 = "rc16",
    }

    /// `testp` properties.
    Test {
        Finite = "finite",
        Infinite = "infinite",
        Number = "number",
        NotANumber = "notanumber",
        Normal = "normal",
        Subnormal = "subnormal",
    }

    /// Comparisons. The last six are true where an operand is NaN.
    Compare {
        Eq = "eq",
        Ne = "ne",
        Lt = "lt" | "lo",
        Le = "le" | "ls",
        Gt = "gt" | "hi",
        Ge = "ge" | "hs",
        Equ = "equ",
        Neu = "neu",
        Ltu = "ltu",
        Leu = "leu",
        Gtu = "gtu",
        Geu = "geu",
        Num = "num",
        Nan = "nan",
    }

    /// Logic of predicates.
    Logic {
        And = "and",
        Or = "or",
        Xor = "xor",
        Not,
        Copy,
    }

    /// What an atomic does.
    Atomic {
        Add = "add",
        Min = "min",
        Max = "max",
        Inc = "inc",
        Dec = "dec",
        And = "and",
        Or = "or",
        Xor = "xor",
        Exch = "exch",
        Cas = "cas",
    }

    /// Shuffle modes.
    Shuffle {
        Up = "up",
        Down = "down",
        Bfly = "bfly",
        Idx = "idx",
    }

    /// Vote modes.
    Vote {
        All = "all",
        Any = "any",
        Uni = "uni",
        Ballot = "ballot",
    }

    /// Reductions over a warp.
    Redux {
        Add = "add",
        Min = "min",
        Max = "max",
        And = "and",
        Or = "or",
        Xor = "xor",
    }

    /// Reductions over a block.
    BarRed {
        Popc = "popc",
        And = "and",
        Or = "or",
    }
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

/// Arithmetic with the carry flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Carry {
    Add,
    Sub,
    MadLo,
    MadHi,
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

/// The memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pointer {
    pub(crate) place: Place,
    /// Whether the address register has 64 bits.
    pub(crate) wide: bool,
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
