//! Operands of matrix instructions: element types, shapes, and their layout in registers.
//!
//! Every register of a fragment holds one **tile** of its matrix. Lane `4 g + t` holds columns (of
//! A) or rows (of B) `t * elements ..`, in row (of A) or column (of B) `g`. C and D have pairs of
//! columns instead. So a register of A is eight rows of sixteen bytes, one after the other, and so
//! is a register of B, transposed. All shapes of `mma` and `wmma` but one are lists of such tiles;
//! `mma.m8n8k4` of halves is the exception.

use super::kind::{Round, kinds};

kinds! {
    /// Element types of A and B.
    Element {
        F16 = "f16",
        Bf16 = "bf16",
        Tf32 = "tf32",
        F64 = "f64",
        S8 = "s8",
        U8 = "u8",
        S4 = "s4",
        U4 = "u4",
        B1 = "b1",
        /// Eight bits with a mantissa of 3.
        E4m3 = "e4m3",
        /// Eight bits with a mantissa of 2.
        E5m2 = "e5m2",
    }

    /// Element types of C and D.
    Total {
        F16 = "f16",
        F32 = "f32",
        S32 = "s32",
        F64 = "f64",
    }
}

impl Element {
    /// Bits of one element.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::F64 => 64,
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Elements in one register.
    pub(crate) fn each(self) -> u32 {
        if self == Self::F64 {
            1
        } else {
            32 / self.bits()
        }
    }

    /// Elements along k that one register covers.
    pub(crate) fn reach(self) -> u32 {
        4 * self.each()
    }

    /// The family of elements that can be multiplied with one another.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::F16 | Self::Bf16 | Self::Tf32 | Self::E4m3 | Self::E5m2 => Family::Single,
            Self::F64 => Family::Double,
            Self::S8 | Self::U8 | Self::S4 | Self::U4 => Family::Integer,
            Self::B1 => Family::Bit,
        }
    }
}

/// The type in which products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Single,
    Double,
    Integer,
    Bit,
}

impl Total {
    /// Registers that hold one tile of 8 by 8.
    pub(crate) fn registers(self) -> u32 {
        if self == Self::F16 { 1 } else { 2 }
    }

    /// Bytes of one element in memory.
    pub(crate) fn size(self) -> u32 {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::S32 => 4,
            Self::F64 => 8,
        }
    }
}

/// `.m16n8k16`: the sizes of a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
}

impl Shape {
    /// The shape spelt `text`, for any sizes.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let number = |text: &str| text.parse().ok();
        Some(Self {
            m: number(m)?,
            n: number(n)?,
            k: number(k)?,
        })
    }

    /// The shape in tiles of an element.
    pub(crate) fn tiles(self, element: Element) -> Tiles {
        Tiles {
            rows: (self.m / 8) as u8,
            columns: (self.n / 8) as u8,
            depth: (self.k / element.reach()) as u8,
        }
    }
}

/// Sizes in tiles: m and n in units of 8, k in units of a register's reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tiles {
    pub(crate) rows: u8,
    pub(crate) columns: u8,
    pub(crate) depth: u8,
}

impl Tiles {
    /// Index of the register of A for a tile: by 16 rows, then by depth, then the upper half first.
    pub(crate) fn a(self, row: usize, depth: usize) -> usize {
        let high = usize::from(self.rows).min(2);
        row / 2 * 2 * usize::from(self.depth) + depth * high + row % 2
    }

    /// Index of the register of B for a tile: by column, then by depth.
    pub(crate) fn b(self, column: usize, depth: usize) -> usize {
        column * usize::from(self.depth) + depth
    }

    /// Index of a tile of C and D: by column, then by row.
    pub(crate) fn c(self, row: usize, column: usize) -> usize {
        column * usize::from(self.rows) + row
    }

    /// Number of registers of A, one per tile.
    pub(crate) fn a_registers(self) -> usize {
        usize::from(self.rows) * usize::from(self.depth)
    }

    /// Number of registers of B, one per tile.
    pub(crate) fn b_registers(self) -> usize {
        usize::from(self.columns) * usize::from(self.depth)
    }

    /// Number of tiles of C and D.
    pub(crate) fn sums(self) -> usize {
        usize::from(self.rows) * usize::from(self.columns)
    }
}

/// Final treatment of products and sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Finish {
    /// Integers wrap, floats stay unchanged.
    Plain,
    /// `.satfinite`: the sum is clamped to its type's finite range.
    Finite,
    /// `.xor.popc`
    Xor,
    /// `.and.popc`
    And,
    /// Sums of f64 in a directed rounding.
    Rounded(Round),
}

/// A multiplication. Its registers are in the pool: D, A, B, C, in the order of their tiles. A tile
/// of A or B takes one register; a tile of C or D takes one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mma {
    pub(crate) tiles: Tiles,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) c: Total,
    pub(crate) d: Total,
    pub(crate) finish: Finish,
}

/// `mma.sp`: a multiplication with a sparse A that stores every other element. Its registers are
/// those of [`Mma`]. `tiles` counts A as stored, and B has twice the tiles. One more register has
/// the positions of A's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sparse {
    pub(crate) mma: Mma,
    /// The first lane of each group of four that provides positions.
    pub(crate) first_lane: u8,
}

/// `mma.m8n8k4` of halves: four multiplications by eight lanes each. Registers are in the order of
/// [`Mma`]: two of A and B, eight of C and D in f32 and four in f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quads {
    pub(crate) a_by_column: bool,
    pub(crate) b_by_column: bool,
    pub(crate) c: Total,
    pub(crate) d: Total,
}

/// The matrix of a multiplication that a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    A,
    B,
    /// C or D.
    Sum,
}

/// The fragment that `wmma.load` and `wmma.store` move. A line is contiguous in memory. It is a
/// row, or a column if `crossed` for A and C or not for B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fragment {
    pub(crate) role: Role,
    /// Bits of an element.
    pub(crate) bits: u8,
    /// True if lines run across the direction that registers hold contiguously.
    pub(crate) crossed: bool,
    pub(crate) tiles: Tiles,
    /// Registers in the pool; those beyond one for each tile repeat the first.
    pub(crate) registers: u8,
}

impl Fragment {
    /// Number of lines, and of elements of a line, in the registers' own layout.
    pub(crate) fn straight(self) -> (usize, usize) {
        let Tiles {
            rows,
            columns,
            depth,
        } = self.tiles;
        let reach = if self.bits == 64 {
            4
        } else {
            128 / usize::from(self.bits)
        };
        match self.role {
            Role::A => (8 * usize::from(rows), reach * usize::from(depth)),
            Role::B => (8 * usize::from(columns), reach * usize::from(depth)),
            Role::Sum => (8 * usize::from(rows), 8 * usize::from(columns)),
        }
    }
}
