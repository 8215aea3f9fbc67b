//! Mutations that keep most of a module intact: whole lines and whole words change places, so that
//! the result is decoded and run more often than refused.
//!
//! Shared by the libFuzzer target and by the tests of the CPU device.

/// A small generator of pseudo-random numbers: the same seed gives the same mutations.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Numbers from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Words that reach corner cases which the seeds lack.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "31",
    "32",
    "0x7fffffff",
    "0x80000000",
    "0xffffffffffffffff",
    "4294967296",
    "0f7fc00000",
    "0fff800000",
    "0d7ff0000000000000",
    "0f00000001",
    ".global",
    ".shared",
    ".local",
    ".const",
    ".param",
    ".v2",
    ".v4",
    ".b8",
    ".b16",
    ".b32",
    ".b64",
    ".b128",
    ".u8",
    ".s8",
    ".u16",
    ".s16",
    ".u32",
    ".s32",
    ".u64",
    ".s64",
    ".f16",
    ".f16x2",
    ".bf16",
    ".bf16x2",
    ".f32",
    ".f64",
    ".pred",
    ".rn",
    ".rz",
    ".rm",
    ".rp",
    ".ftz",
    ".sat",
    ".wide",
    ".hi",
    ".lo",
    ".cc",
    ".sync",
    ".volatile",
    ".acquire",
    ".uni",
    ".approx",
    "%tid.x",
    "%laneid",
    "%ctaid.x",
    "%ntid.x",
    "%clock64",
    "%lanemask_lt",
    "%p1",
    "%r1",
    "%rd1",
    "%f1",
    "%fd1",
    "%rs1",
    "ret",
    "exit",
    "trap",
    "bra",
    "call",
    "brx.idx",
    "bar.sync",
    "bar.red.popc.u32",
    "shfl.sync.idx.b32",
    "vote.sync.ballot.b32",
    "match.all.sync.b32",
    "redux.sync.add.s32",
    "atom.global.add.u32",
    "atom.shared.cas.b64",
    "red.global.add.f32",
    "cvta.to.shared.u64",
    "isspacep.local",
    "ld.global.u32",
    "st.shared.u8",
    "ld.param.u64",
    "cvt.rn.f32.f64",
    "cvt.rzi.s32.f32",
    "div.s32",
    "rem.u64",
    "prmt.b32",
    "bfe.u64",
    "bfi.b32",
    "nanosleep.u32",
    "activemask.b32",
    "madc.hi.cc.u32",
    "lop3.b32",
    "dp4a.u32.u32",
    "lop3.or.b32",
    "vabsdiff4.u32.u32.u32.add",
    "-3+4*(2-1)",
    "WARP_SZ",
    "brkpt",
    "fma.rn.f32",
    "mul.wide.u32",
    "setp.lt.and.f32",
    "selp.b32",
    "ld.shared.v4.f32",
    "st.global.v2.b64",
    "cp.async.ca.shared.global",
    "mbarrier.arrive.shared.b64",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "barrier.sync",
    "@%p1",
    "@!%p1",
];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// Positions of the words of a text; a leading dot belongs to its word.
fn words(text: &[u8]) -> Vec<(usize, usize)> {
    let (mut list, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let start = at;
        if text[at] == b'.' {
            at += 1;
        }
        while at < text.len() && is_word(text[at]) {
            at += 1;
        }
        if at > start {
            list.push((start, at));
        } else {
            at += 1;
        }
    }
    list
}

fn splice(text: &mut Vec<u8>, (start, end): (usize, usize), with: &[u8]) {
    text.splice(start..end, with.iter().copied());
}

fn edit_word(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let words = words(text);
    if words.is_empty() {
        return;
    }
    let place = words[numbers.below(words.len())];
    match numbers.below(3) {
        0 => splice(text, place, WORDS[numbers.below(WORDS.len())].as_bytes()),
        1 => {
            let (start, end) = words[numbers.below(words.len())];
            let other = text[start..end].to_vec();
            splice(text, place, &other);
        }
        _ => splice(text, place, b""),
    }
}

fn edit_line(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut lines: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let (at, other) = (numbers.below(lines.len()), numbers.below(lines.len()));
    match numbers.below(4) {
        0 => lines.swap(at, other),
        1 => {
            let copy = lines[other].clone();
            lines.insert(at, copy);
        }
        2 => {
            lines.remove(at);
        }
        _ => lines[at] = lines[other].clone(),
    }
    *text = lines.join(&b'\n');
}

/// Changes a text in a few places.
pub(crate) fn mutate(text: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(3) {
        match numbers.below(8) {
            0..4 => edit_word(text, numbers),
            4..7 => edit_line(text, numbers),
            _ if text.is_empty() => {}
            _ => {
                let at = numbers.below(text.len());
                text[at] = b"{}[]()<>.,;:@!+-|\"0f\n%"[numbers.below(22)];
            }
        }
    }
}
