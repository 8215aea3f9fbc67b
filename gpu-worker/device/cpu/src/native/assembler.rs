//! Encoding of the x86-64 instructions that the generator uses.
//!
//! Vector instructions are AVX2 and FMA in their three-byte VEX form. Forward jumps and constants
//! are fixed up at the end, when the constants are placed behind the code.

use std::collections::HashMap;

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ymm(pub(super) u8);

/// A general register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);
pub(super) const R8: Gpr = Gpr(8);
pub(super) const R12: Gpr = Gpr(12);
pub(super) const R13: Gpr = Gpr(13);
pub(super) const R14: Gpr = Gpr(14);
pub(super) const R15: Gpr = Gpr(15);

/// A position in the code for jumps to target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label(usize);

/// The second operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    Ymm(Ymm),
    Gpr(Gpr),
    /// Bytes at a register plus a displacement.
    At(Gpr, i32),
    /// Index of a constant in the pool.
    Constant(usize),
}

impl From<Ymm> for Rm {
    fn from(it: Ymm) -> Self {
        Self::Ymm(it)
    }
}

impl From<Gpr> for Rm {
    fn from(it: Gpr) -> Self {
        Self::Gpr(it)
    }
}

/// Conditions of jumps, by their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cc {
    Overflow = 0,
    Below = 2,
    AboveEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowEqual = 6,
    Above = 7,
    Less = 12,
    GreaterEqual = 13,
    LessEqual = 14,
    Greater = 15,
}

/// A vector instruction: prefix, map, W, opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vex(pub(super) u8, pub(super) u8, pub(super) u8, pub(super) u8);

macro_rules! vex {
    ($($name:ident = $prefix:literal $map:literal $w:literal $opcode:literal;)*) => {
        $(pub(super) const $name: Vex = Vex($prefix, $map, $w, $opcode);)*
    };
}

// Prefixes: 0 none, 1 66, 2 F3, 3 F2. Maps: 1 0F, 2 0F38, 3 0F3A.
vex! {
    VMOVUPS = 0 1 0 0x10;
    VMOVUPS_TO = 0 1 0 0x11;
    VMOVAPS = 0 1 0 0x28;
    VADDPS = 0 1 0 0x58;
    VMULPS = 0 1 0 0x59;
    VSUBPS = 0 1 0 0x5c;
    VDIVPS = 0 1 0 0x5e;
    VSQRTPS = 0 1 0 0x51;
    VMINPS = 0 1 0 0x5d;
    VMAXPS = 0 1 0 0x5f;
    VANDPS = 0 1 0 0x54;
    VANDNPS = 0 1 0 0x55;
    VORPS = 0 1 0 0x56;
    VXORPS = 0 1 0 0x57;
    VCMPPS = 0 1 0 0xc2;
    VMOVMSKPS = 0 1 0 0x50;
    VCVTDQ2PS = 0 1 0 0x5b;
    VADDPD = 1 1 0 0x58;
    VMULPD = 1 1 0 0x59;
    VSUBPD = 1 1 0 0x5c;
    VMINPD = 1 1 0 0x5d;
    VMAXPD = 1 1 0 0x5f;
    VCVTPS2PD = 0 1 0 0x5a;
    VCVTPD2PS = 1 1 0 0x5a;
    VMOVMSKPD = 1 1 0 0x50;
    VFMADD213PS = 1 2 0 0xa8;
    VFMADD231PS = 1 2 0 0xb8;
    VBLENDVPS = 1 3 0 0x4a;
    VBROADCASTSS = 1 2 0 0x18;
    VBROADCASTSD = 1 2 0 0x19;
    VEXTRACTF128 = 1 3 0 0x19;
    VINSERTF128 = 1 3 0 0x18;
    VPBROADCASTD = 1 2 0 0x58;
    VPADDD = 1 1 0 0xfe;
    VPADDQ = 1 1 0 0xd4;
    VPSUBD = 1 1 0 0xfa;
    VPSUBQ = 1 1 0 0xfb;
    VPMULLD = 1 2 0 0x40;
    VPMULDQ = 1 2 0 0x28;
    VPMULUDQ = 1 1 0 0xf4;
    VPAND = 1 1 0 0xdb;
    VPOR = 1 1 0 0xeb;
    VPXOR = 1 1 0 0xef;
    VPSLLVD = 1 2 0 0x47;
    VPSRLVD = 1 2 0 0x45;
    VPSRAVD = 1 2 0 0x46;
    VPSLLVQ = 1 2 1 0x47;
    VPSRLVQ = 1 2 1 0x45;
    VPMINSD = 1 2 0 0x39;
    VPMAXSD = 1 2 0 0x3d;
    VPMINUD = 1 2 0 0x3b;
    VPMAXUD = 1 2 0 0x3f;
    VPCMPEQD = 1 1 0 0x76;
    VPCMPEQQ = 1 2 0 0x29;
    VPCMPGTD = 1 1 0 0x66;
    VPCMPGTQ = 1 2 0 0x37;
    VPMOVSXDQ = 1 2 0 0x25;
    VPMOVZXDQ = 1 2 0 0x35;
    VPMOVZXBD = 1 2 0 0x31;
    VPMOVSXBD = 1 2 0 0x21;
    VPMOVZXWD = 1 2 0 0x33;
    VPMOVSXWD = 1 2 0 0x23;
    VPERMQ = 1 3 1 0x00;
    VSHUFPS = 0 1 0 0xc6;
}

/// Code under construction.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) code: Vec<u8>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    constants: Vec<[u32; 8]>,
    /// Index of each constant among them.
    known: HashMap<[u32; 8], usize>,
    uses: Vec<(usize, usize)>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Pads to the alignment of a function.
    pub(super) fn align(&mut self) {
        self.code.resize(self.code.len().next_multiple_of(16), 0xcc);
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Eight words behind the code; equal ones are stored once.
    pub(super) fn constant(&mut self, words: [u32; 8]) -> Rm {
        let constants = &mut self.constants;
        Rm::Constant(*self.known.entry(words).or_insert_with(|| {
            constants.push(words);
            constants.len() - 1
        }))
    }

    /// Resolves jumps to their labels and appends the constants.
    pub(super) fn finish(mut self) -> Vec<u8> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let target = self.labels[label.0].unwrap_or(at);
            self.relative(at, target);
        }
        self.code.resize(self.code.len().next_multiple_of(32), 0xcc);
        let first = self.code.len();
        for words in &self.constants {
            self.code
                .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        for (at, index) in std::mem::take(&mut self.uses) {
            self.relative(at, first + 32 * index);
        }
        self.code
    }

    /// Writes the distance from the end of a four-byte field to a target. The field already counts
    /// the bytes of the instruction behind it.
    fn relative(&mut self, at: usize, target: usize) {
        let behind = i32::from_le_bytes(self.code[at..at + 4].try_into().unwrap_or_default());
        let distance = target as i64 - (at as i64 + 4) - i64::from(behind);
        self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
    }

    /// Emits ModRM and the rest of the address; `behind`: bytes of the instruction after the
    /// address.
    fn address(&mut self, reg: u8, rm: Rm, behind: i32) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Ymm(Ymm(other)) | Rm::Gpr(Gpr(other)) => self.code.push(0xc0 | reg | other & 7),
            Rm::At(base, offset) => {
                let short = i8::try_from(offset);
                let mode = if short.is_ok() { 0x40 } else { 0x80 };
                self.code.push(mode | reg | base.0 & 7);
                if base.0 & 7 == 4 {
                    self.code.push(0x24);
                }
                match short {
                    Ok(short) => self.code.push(short as u8),
                    Err(_) => self.code.extend(offset.to_le_bytes()),
                }
            }
            Rm::Constant(index) => {
                self.code.push(reg | 5);
                self.uses.push((self.code.len(), index));
                self.code.extend(behind.to_le_bytes());
            }
        }
    }

    fn high(rm: Rm) -> u8 {
        match rm {
            Rm::Ymm(Ymm(n)) | Rm::Gpr(Gpr(n)) | Rm::At(Gpr(n), _) => n >> 3,
            Rm::Constant(_) => 0,
        }
    }

    fn encode(&mut self, it: Vex, wide: u8, (reg, vvvv): (u8, u8), rm: Rm, imm: Option<u8>) {
        let Vex(prefix, map, w, opcode) = it;
        let (r, b) = ((reg >> 3) ^ 1, Self::high(rm) ^ 1);
        self.code.push(0xc4);
        self.code.push(r << 7 | 1 << 6 | b << 5 | map);
        self.code
            .push(w << 7 | (!vvvv & 15) << 3 | wide << 2 | prefix);
        self.code.push(opcode);
        self.address(reg, rm, i32::from(imm.is_some()));
        self.code.extend(imm);
    }

    /// d = op(a, b).
    pub(super) fn v3(&mut self, op: Vex, d: Ymm, a: Ymm, b: impl Into<Rm>) {
        self.encode(op, 1, (d.0, a.0), b.into(), None);
    }

    /// d = op(a, b) with an immediate byte.
    pub(super) fn v3i(&mut self, op: Vex, d: Ymm, a: Ymm, b: impl Into<Rm>, imm: u8) {
        self.encode(op, 1, (d.0, a.0), b.into(), Some(imm));
    }

    /// d = op(b).
    pub(super) fn v2(&mut self, op: Vex, d: Ymm, b: impl Into<Rm>) {
        self.encode(op, 1, (d.0, 0), b.into(), None);
    }

    /// d = op(b) with an immediate byte.
    pub(super) fn v2i(&mut self, op: Vex, d: Ymm, b: impl Into<Rm>, imm: u8) {
        self.encode(op, 1, (d.0, 0), b.into(), Some(imm));
    }

    /// As `v2i`, but the source is encoded first.
    pub(super) fn v2i_to(&mut self, op: Vex, d: Ymm, a: Ymm, imm: u8) {
        self.encode(op, 1, (a.0, 0), Rm::Ymm(d), Some(imm));
    }

    /// Moves the top bit of each lane to a general register.
    pub(super) fn movmsk(&mut self, op: Vex, d: Gpr, a: Ymm) {
        self.encode(op, 1, (d.0, 0), Rm::Ymm(a), None);
    }

    /// d = a in the lanes with a clear mask, b in those with a set one.
    pub(super) fn blend(&mut self, d: Ymm, a: Ymm, b: impl Into<Rm>, mask: Ymm) {
        self.encode(VBLENDVPS, 1, (d.0, a.0), b.into(), Some(mask.0 << 4));
    }

    /// d = words at a base plus offsets, in the lanes with a set mask; clears the mask. All three
    /// vector registers must differ.
    pub(super) fn gather(&mut self, d: Ymm, base: Gpr, offsets: Ymm, mask: Ymm) {
        let high = |n: u8| (n >> 3) ^ 1;
        let first = high(d.0) << 7 | high(offsets.0) << 6 | high(base.0) << 5 | 2;
        let second = (!mask.0 & 15) << 3 | 1 << 2 | 1;
        self.code.extend([0xc4, first, second, 0x90]);
        self.code
            .extend([0x44 | (d.0 & 7) << 3, (offsets.0 & 7) << 3 | base.0 & 7, 0]);
    }

    /// A register's low 32 bits into a vector register.
    pub(super) fn movd_to(&mut self, d: Ymm, a: Gpr) {
        self.encode(Vex(1, 1, 0, 0x6e), 0, (d.0, 0), Rm::Gpr(a), None);
    }

    /// Shifts each lane by a fixed count: opcode 0x72 for 32 bits, 0x73 for 64; `kind` 2 right, 4
    /// right by sign, 6 left.
    pub(super) fn shift(&mut self, opcode: u8, kind: u8, d: Ymm, a: Ymm, count: u8) {
        self.encode(
            Vex(1, 1, 0, opcode),
            1,
            (kind, d.0),
            Rm::Ymm(a),
            Some(count),
        );
    }

    /// The low 64 bits.
    pub(super) fn movq(&mut self, d: Gpr, a: Ymm) {
        self.encode(Vex(1, 1, 1, 0x7e), 0, (a.0, 0), Rm::Gpr(d), None);
    }

    /// The low 32 bits, extended with zeros.
    pub(super) fn movd(&mut self, d: Gpr, a: Ymm) {
        self.encode(Vex(1, 1, 0, 0x7e), 0, (a.0, 0), Rm::Gpr(d), None);
    }

    /// A general instruction of one opcode byte.
    pub(super) fn g(&mut self, wide: bool, opcode: u8, reg: u8, rm: impl Into<Rm>) {
        let rm = rm.into();
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | Self::high(rm);
        self.code.push(rex);
        self.code.push(opcode);
        self.address(reg, rm, 0);
    }

    /// As `g`, for the map 0F.
    pub(super) fn g2(&mut self, wide: bool, opcode: u8, reg: u8, rm: impl Into<Rm>) {
        let rm = rm.into();
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | Self::high(rm);
        self.code.extend([rex, 0x0f, opcode]);
        self.address(reg, rm, 0);
    }

    /// d = 64 bits from memory or a register.
    pub(super) fn load(&mut self, d: Gpr, from: impl Into<Rm>) {
        self.g(true, 0x8b, d.0, from);
    }

    /// Stores 64 bits to memory.
    pub(super) fn save(&mut self, to: impl Into<Rm>, from: Gpr) {
        self.g(true, 0x89, from.0, to);
    }

    pub(super) fn lea(&mut self, d: Gpr, base: Gpr, offset: i32) {
        self.g(true, 0x8d, d.0, Rm::At(base, offset));
    }

    /// d = a constant.
    pub(super) fn set(&mut self, d: Gpr, value: u64) {
        self.code.extend([0x48 | d.0 >> 3, 0xb8 | d.0 & 7]);
        self.code.extend(value.to_le_bytes());
    }

    /// add (0), or (1), and (4), sub (5), cmp (7) with a constant.
    pub(super) fn with(&mut self, wide: bool, kind: u8, d: Gpr, value: i32) {
        self.code.push(0x40 | u8::from(wide) << 3 | d.0 >> 3);
        self.code.extend([0x81, 0xc0 | kind << 3 | d.0 & 7]);
        self.code.extend(value.to_le_bytes());
    }

    /// Compares a byte in memory with a constant.
    pub(super) fn compare_byte(&mut self, at: Rm, value: u8) {
        self.code.push(0x40 | Self::high(at));
        self.code.push(0x80);
        self.address(7, at, 1);
        self.code.push(value);
    }

    /// Stores a byte to memory.
    pub(super) fn save_byte(&mut self, at: Rm, from: Gpr) {
        self.g(false, 0x88, from.0, at);
    }

    pub(super) fn call(&mut self, target: Gpr) {
        self.code
            .extend([0x40 | target.0 >> 3, 0xff, 0xd0 | target.0 & 7]);
    }

    pub(super) fn push(&mut self, it: Gpr) {
        self.code.extend([0x40 | it.0 >> 3, 0x50 | it.0 & 7]);
    }

    pub(super) fn pop(&mut self, it: Gpr) {
        self.code.extend([0x40 | it.0 >> 3, 0x58 | it.0 & 7]);
    }

    /// Returns from the function; vector registers are left clean.
    pub(super) fn ret(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x77, 0xc3]);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.code.push(0xe9);
        self.hole(to);
    }

    pub(super) fn jump_if(&mut self, cc: Cc, to: Label) {
        self.code.extend([0x0f, 0x80 | cc as u8]);
        self.hole(to);
    }

    fn hole(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.code.extend([0; 4]);
    }

    /// Loads (2) or stores (3) the float environment's control word.
    pub(super) fn mxcsr(&mut self, kind: u8, at: Rm) {
        self.code.push(0x40 | Self::high(at));
        self.code.extend([0x0f, 0xae]);
        self.address(kind, at, 0);
    }
}
