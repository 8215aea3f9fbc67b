//! The syntax tree of a module. Text is borrowed from the source.

use crate::{Position, Scalar, SourceLines, Space};

/// One module: everything between `.version` and the end of the text.
#[derive(Clone, Debug, Default)]
pub struct ParsedModule<'a> {
    /// PTX ISA version, major and minor.
    pub version: (u32, u32),
    /// Items of `.target`: `sm_80` and perhaps options.
    pub target: Vec<&'a str>,
    /// 32 or 64.
    pub address_size: u32,
    /// Module-scope variables, in order.
    pub variables: Vec<ParsedVariable<'a>>,
    /// Entries and functions, declarations included, in order.
    pub functions: Vec<ParsedFunction<'a>>,
    /// `.alias name, target`.
    pub aliases: Vec<(&'a str, &'a str)>,
    /// Lines of the source, by its `.file` and `.loc`.
    pub lines: SourceLines,
}

/// The visibility of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// This module only.
    #[default]
    Internal,
    /// All modules.
    Visible,
    /// Defined elsewhere.
    Extern,
    /// All modules; other definitions may override it.
    Weak,
    /// All modules; definitions of the same name are one.
    Common,
}

/// A variable declaration of any space; also a formal parameter.
#[derive(Clone, Debug)]
pub struct ParsedVariable<'a> {
    /// Position of the name.
    pub position: Position,
    /// Visibility of the name.
    pub linkage: Linkage,
    /// State space.
    pub space: Space,
    /// Type of one element.
    pub scalar: Scalar,
    /// Lanes of one element: 1, 2 or 4 (8 for wide loads).
    pub lanes: u8,
    /// Alignment in bytes, at least the natural one.
    pub align: u64,
    /// True if the host may access it too: `.attribute(.managed)`.
    pub managed: bool,
    /// The name; `_` in prototypes.
    pub name: &'a str,
    /// `%r<n>`: declares name0 to name(n-1).
    pub range: Option<u32>,
    /// Array dimensions; 0 for an unsized one. Empty for a scalar.
    pub dims: Vec<u64>,
    /// Initial values, flattened; each takes one element of `scalar`.
    pub init: Vec<Init<'a>>,
}

impl ParsedVariable<'_> {
    /// Bytes that the variable takes, `None` on overflow; an unsized array takes 0.
    pub fn size(&self) -> Option<u64> {
        let one = self.scalar.size().checked_mul(u64::from(self.lanes))?;
        self.dims
            .iter()
            .try_fold(one, |size, dim| size.checked_mul(*dim))
    }
}

/// One initial value.
#[derive(Clone, Debug, PartialEq)]
pub enum Init<'a> {
    /// Bits of an integer or float, already in the variable's type.
    Bits(u64),
    /// The address of a symbol plus an offset.
    Symbol {
        /// The symbol.
        name: &'a str,
        /// Bytes added to it.
        offset: i64,
        /// True if `generic()` was written around it.
        generic: bool,
        /// `0xFF(sym)`: the byte selected by this mask, if written.
        mask: Option<u64>,
    },
}

/// The kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// `.entry`: launched from outside.
    Entry,
    /// `.func`: called.
    Func,
}

/// An entry or function.
#[derive(Clone, Debug)]
pub struct ParsedFunction<'a> {
    /// Position of the name.
    pub position: Position,
    /// Entry or function.
    pub kind: FunctionKind,
    /// Visibility of the name.
    pub linkage: Linkage,
    /// The name.
    pub name: &'a str,
    /// Results (functions only).
    pub returns: Vec<ParsedVariable<'a>>,
    /// Parameters.
    pub params: Vec<ParsedVariable<'a>>,
    /// `.maxntid`; missing dimensions are 1.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`; missing dimensions are 1.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub minnctapersm: Option<u32>,
    /// `.maxnreg`.
    pub maxnreg: Option<u32>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    /// Its text, from `.entry` or `.func` to the end.
    pub text: &'a str,
}

/// One statement of a body. Scopes are flat, so that nesting costs no stack.
#[derive(Clone, Debug)]
pub enum Statement<'a> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `name:`
    Label(&'a str, Position),
    /// A declaration.
    Variable(ParsedVariable<'a>),
    /// An instruction.
    Instruction(Instruction<'a>),
    /// `name: .callprototype …`
    Prototype(Prototype<'a>),
    /// `name: .branchtargets a, b, …`
    BranchTargets(&'a str, Vec<&'a str>),
    /// `name: .calltargets f, g, …`
    CallTargets(&'a str, Vec<&'a str>),
}

/// The shape of an indirect call.
#[derive(Clone, Debug)]
pub struct Prototype<'a> {
    /// The label before it.
    pub name: &'a str,
    /// Results.
    pub returns: Vec<ParsedVariable<'a>>,
    /// Parameters.
    pub params: Vec<ParsedVariable<'a>>,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The predicate register.
    pub name: &'a str,
    /// True if lanes with the predicate *false* run.
    pub negated: bool,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction<'a> {
    /// Position of the opcode.
    pub position: Position,
    /// Condition on the lanes that run it.
    pub guard: Option<Guard<'a>>,
    /// The whole dotted opcode, `ld.global.v4.f32`.
    pub opcode: &'a str,
    /// Operands in order.
    pub operands: Vec<Operand<'a>>,
}

/// The inside of `[ ]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// A register or symbol; `None` for an absolute address.
    pub base: Option<&'a str>,
    /// Bytes added to it; elements of the array `base` if `index` is given.
    pub offset: i64,
    /// A register with the index of an element of the array `base`.
    pub index: Option<&'a str>,
}

/// One operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, special register (`%tid.x`), symbol, label, or `_`.
    Name(&'a str),
    /// `!p`
    Not(&'a str),
    /// `-r`: a factor or summand of `vmad` that is subtracted.
    Minus(&'a str),
    /// An integer; negative ones in two's complement of 64 bits.
    Integer(i64),
    /// `0f…` bits, or a decimal float rounded to single.
    Single(u32),
    /// `0d…` bits; a decimal float that is not `0f…` also arrives here.
    Double(u64),
    /// `[base + offset]`
    Address(Address<'a>),
    /// `[base, {x, y}]`, `[base, sampler, {x, y}]`: an element at coordinates of a texture, a surface or a
    /// tensor.
    Coordinates(Address<'a>, Vec<Operand<'a>>),
    /// `symbol + offset` or `symbol[index]` outside brackets.
    Symbol {
        /// The symbol.
        name: &'a str,
        /// Bytes (`+`) or elements (`[ ]`) added to it.
        offset: i64,
        /// True if `offset` counts elements.
        index: bool,
    },
    /// `symbol[register + offset]`
    Indexed {
        /// The array.
        name: &'a str,
        /// The register with the index.
        register: &'a str,
        /// Elements added to it.
        offset: i64,
    },
    /// `{a, b, …}`; elements are never vectors themselves.
    Vector(Vec<Operand<'a>>),
    /// `{a, b, …}|p`
    VectorPair(Vec<Operand<'a>>, &'a str),
    /// An element of a vector register, by its number. Texts name it `v.x`; whole vector registers consist of
    /// these.
    Element(&'a str, u8),
    /// `(a, b, …)`: the lists of a call.
    List(Vec<Operand<'a>>),
    /// `d|p`
    Pair(&'a str, &'a str),
}
