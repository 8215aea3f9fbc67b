//! Scalar types and state spaces.

use std::fmt;

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident $text:literal $size:literal,)*) => {
        /// A fundamental type. Registers are untyped bits; the type comes from the opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Scalar { $($(#[$doc])* $name,)* }

        impl Scalar {
            /// Returns the type spelt `text` (without its dot), if there is one.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            /// The type's spelling, without its dot.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Bytes that one value takes in memory; 1 for a predicate.
            pub fn size(self) -> u64 {
                match self { $(Self::$name => $size,)* }
            }
        }
    };
}

scalars! {
    /// 8 bits, untyped.
    B8 "b8" 1,
    /// 16 bits, untyped.
    B16 "b16" 2,
    /// 32 bits, untyped.
    B32 "b32" 4,
    /// 64 bits, untyped.
    B64 "b64" 8,
    /// 128 bits, untyped.
    B128 "b128" 16,
    /// 8-bit unsigned integer.
    U8 "u8" 1,
    /// 16-bit unsigned integer.
    U16 "u16" 2,
    /// 32-bit unsigned integer.
    U32 "u32" 4,
    /// 64-bit unsigned integer.
    U64 "u64" 8,
    /// 8-bit signed integer.
    S8 "s8" 1,
    /// 16-bit signed integer.
    S16 "s16" 2,
    /// 32-bit signed integer.
    S32 "s32" 4,
    /// 64-bit signed integer.
    S64 "s64" 8,
    /// Two 16-bit unsigned integers.
    U16x2 "u16x2" 4,
    /// Two 16-bit signed integers.
    S16x2 "s16x2" 4,
    /// IEEE half.
    F16 "f16" 2,
    /// Two halves.
    F16x2 "f16x2" 4,
    /// bfloat16.
    Bf16 "bf16" 2,
    /// Two bfloat16.
    Bf16x2 "bf16x2" 4,
    /// A float; the tensor core reads 10 bits of its mantissa.
    Tf32 "tf32" 4,
    /// IEEE single.
    F32 "f32" 4,
    /// IEEE double.
    F64 "f64" 8,
    /// One bit.
    Pred "pred" 1,
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.text())
    }
}

impl Scalar {
    /// True for a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// True for a floating-point type of any width.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F64
        )
    }
}

/// The state space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Registers.
    Reg,
    /// Memory of the session, read and write.
    Global,
    /// Memory of the session that kernels can only read.
    Const,
    /// Memory of one block.
    Shared,
    /// Memory of one thread.
    Local,
    /// Parameters of a kernel or function.
    Param,
}

impl Space {
    /// Returns the space spelt `text` (without its dot; `shared::cta` and the like included).
    pub fn from_text(text: &str) -> Option<Self> {
        let head = text.split("::").next().unwrap_or(text);
        Some(match head {
            "reg" => Self::Reg,
            "global" => Self::Global,
            "const" => Self::Const,
            "shared" => Self::Shared,
            "local" => Self::Local,
            "param" => Self::Param,
            _ => return None,
        })
    }
}
