//! The kinds of instructions that an opcode and its modifiers select.

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
        /// With a final max(0, x).
        MinRelu,
        /// With a final max(0, x).
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
        /// Direction (true: left), and wrapping of the count.
        Shf(bool, bool),
        Lop3(u8),
        /// Signedness of the two factors.
        Dp4a(bool, bool),
        /// Signedness of the two factors, and true for the high halves.
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
        /// `.xorsign.abs`: of the absolute values, with the sign of the product.
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

    /// Rounding of a float result.
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

    /// Comparisons. The last six are true if an operand is NaN.
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

    /// Operations of an atomic.
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

/// Source of a conversion into a small format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Taken {
    /// An f32.
    One,
    /// Two f32.
    Two,
    /// An f16x2.
    Halves,
}

/// A conversion of numbers to a small format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Narrowing {
    pub(crate) to: Small,
    pub(crate) taken: Taken,
    pub(crate) round: Round,
    /// `.relu`: negative numbers become zero.
    pub(crate) relu: bool,
    /// `.satfinite`: a number that is too large becomes the greatest finite number.
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

/// Memory space of a memory instruction.
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
    /// True if the address register has 64 bits.
    pub(crate) wide: bool,
}

/// The part of the source that an asynchronous copy reads; the rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// All of it.
    None,
    /// A number of bytes.
    Bytes,
    /// Nothing if a predicate holds, or if it does not hold for `true`.
    Ignored(bool),
}

/// Operations on a memory barrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    Init,
    Invalidate,
    /// Expects more bytes.
    Expect,
    /// Counts bytes as arrived.
    Complete,
    /// Counts arrivals (or one, and expects bytes); `drop` removes them from all later phases.
    Arrive {
        expect: bool,
        drop: bool,
    },
    /// Tests for the end of a phase, named by its state or by its parity.
    Test {
        parity: bool,
    },
}
