//! Instructions of the lanes of a warp together: `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`,
//! `bar.warp.sync`; with all lanes, some, several groups at once, and after divergence.

use crate::refusals::refused;
use crate::vector::Test;
use crate::warp::{EMPTY, Random, Register, Warp, isas};

/// The active lanes, and the lanes that each of them names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// All lanes, each naming all.
    Whole,
    /// Some lanes, which name themselves.
    Some,
    /// All lanes, in groups of this many that name themselves.
    Groups(u32),
    /// Some lanes of each group, which name themselves.
    Parts(u32),
    /// Some lanes, which name all; the others have ended.
    Left,
}

const MODES: [Mode; 9] = [
    Mode::Whole,
    Mode::Some,
    Mode::Groups(4),
    Mode::Groups(8),
    Mode::Groups(16),
    Mode::Groups(1),
    Mode::Parts(8),
    Mode::Parts(16),
    Mode::Left,
];

/// Operands of the lanes.
struct Lanes {
    a: [u32; 32],
    b: [u32; 32],
    c: [u32; 32],
    wide: [u64; 32],
    held: u32,
    active: u32,
    members: [u32; 32],
}

impl Lanes {
    fn new(mode: Mode, form: &str, numbers: &mut Random) -> Self {
        let active = match mode {
            Mode::Whole | Mode::Groups(_) => u32::MAX,
            _ => numbers.word() | 1 << numbers.below(32),
        };
        let width = match mode {
            Mode::Groups(width) | Mode::Parts(width) => width,
            _ => 32,
        };
        let group = |lane: u32| (u32::MAX >> (32 - width)) << (lane / width * width);
        let few = form.starts_with("match") || numbers.below(3) == 0;
        let value = numbers.word();
        let same = numbers.below(2) == 0;
        let mut fill = || -> [u32; 32] { std::array::from_fn(|_| numbers.word()) };
        let (mut a, mut b, mut c, high) = (fill(), fill(), fill(), fill());
        if few {
            a = a.map(|x| if same { value } else { value ^ (x % 3) });
        }
        if width < 32 {
            // Segments of the group's width, clamped as compilers do.
            let clamp = if form.contains(".up.") { 0 } else { 31 };
            if form.contains(".bfly.") {
                // Larger values would reach into other groups.
                b = b.map(|by| by % width);
            }
            c = [(32 - width) << 8 | clamp; 32];
        }
        let wide = std::array::from_fn(|lane| u64::from(a[lane]) << 32 | u64::from(high[lane] % 2));
        Self {
            a,
            b,
            c,
            wide,
            held: if same { active } else { numbers.word() },
            active,
            members: std::array::from_fn(|lane| {
                if mode == Mode::Left {
                    u32::MAX
                } else {
                    group(lane as u32) & active
                }
            }),
        }
    }

    /// The lanes that act together with one.
    fn group(&self, lane: usize) -> u32 {
        self.members[lane] & self.active
    }

    fn inputs(&self, numbers: &mut Random) -> Vec<Register> {
        let detours = numbers.word();
        let flags = std::array::from_fn(|lane| {
            self.active >> lane & 1 | (detours >> lane & 1) << 1 | (self.held >> lane & 1) << 2
        });
        vec![
            Register::words(self.a),
            Register::words(self.b),
            Register::words(self.c),
            Register::words(self.members),
            Register::words(flags),
            Register::doubles(self.wide),
        ]
    }
}

/// `d` and `p` of a lane that runs the instruction.
type Expected = fn(&Lanes, usize) -> (u32, bool);

fn shuffled(lanes: &Lanes, me: usize, source: impl Fn(i32, i32, i32, i32) -> (i32, bool)) -> (u32, bool) {
    let (lane, b, c) = (me as i32, (lanes.b[me] & 31) as i32, lanes.c[me] as i32);
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let most = (lane & segment) | (clamp & !segment);
    let (from, inside) = source(lane, b, most, lane & segment);
    // If the source lane is absent, it is the lane's own value.
    let there = inside && lanes.active >> (from & 31) & 1 != 0;
    (lanes.a[if there { from as usize } else { me }], inside)
}

fn up(lanes: &Lanes, me: usize) -> (u32, bool) {
    shuffled(lanes, me, |lane, b, most, _| (lane - b, lane - b >= most))
}

fn down(lanes: &Lanes, me: usize) -> (u32, bool) {
    shuffled(lanes, me, |lane, b, most, _| (lane + b, lane + b <= most))
}

fn bfly(lanes: &Lanes, me: usize) -> (u32, bool) {
    shuffled(lanes, me, |lane, b, most, _| (lane ^ b, (lane ^ b) <= most))
}

fn idx(lanes: &Lanes, me: usize) -> (u32, bool) {
    let segment = (lanes.c[me] >> 8 & 31) as i32;
    shuffled(lanes, me, |_, b, most, least| {
        let from = least | (b & !segment);
        (from, from <= most)
    })
}

fn reduced(lanes: &Lanes, me: usize, of: fn(u32, u32) -> u32) -> (u32, bool) {
    let group = lanes.group(me);
    let values = (0..32).filter(|lane| group >> lane & 1 != 0).map(|lane| lanes.a[lane]);
    (values.reduce(of).expect("a lane is in its own group"), false)
}

fn matching(lanes: &Lanes, me: usize, same: impl Fn(usize) -> bool, all: bool) -> (u32, bool) {
    let group = lanes.group(me);
    let mask = (0..32_usize)
        .filter(|lane| group >> lane & 1 != 0 && same(*lane))
        .fold(0, |mask, lane| mask | 1 << lane);
    match all {
        false => (mask, false),
        true if mask == group => (group, true),
        true => (0, false),
    }
}

/// Forms with their operands and results.
fn cases() -> Vec<(&'static str, &'static str, Expected)> {
    let one = "%o0, %i0, %i1, %i2, %i3";
    let two = "%o0|%q, %i0, %i1, %i2, %i3";
    let without = |expected: Expected| expected;
    let mut cases: Vec<(&'static str, &'static str, Expected)> = vec![
        ("shfl.sync.up.b32", two, up),
        ("shfl.sync.down.b32", two, down),
        ("shfl.sync.bfly.b32", two, bfly),
        ("shfl.sync.idx.b32", two, idx),
    ];
    cases.extend([
        ("shfl.sync.up.b32", one, without(|l, me| (up(l, me).0, false))),
        ("shfl.sync.down.b32", one, without(|l, me| (down(l, me).0, false))),
        ("shfl.sync.bfly.b32", one, without(|l, me| (bfly(l, me).0, false))),
        ("shfl.sync.idx.b32", one, without(|l, me| (idx(l, me).0, false))),
        ("vote.sync.all.pred", "%q, %h, %i3", |l, me| {
            (0, l.group(me) & !l.held == 0)
        }),
        ("vote.sync.all.pred", "%q, !%h, %i3", |l, me| (0, l.group(me) & l.held == 0)),
        ("vote.sync.any.pred", "%q, %h, %i3", |l, me| (0, l.group(me) & l.held != 0)),
        ("vote.sync.any.pred", "%q, !%h, %i3", |l, me| (0, l.group(me) & !l.held != 0)),
        ("vote.sync.uni.pred", "%q, %h, %i3", |l, me| {
            let held = l.group(me) & l.held;
            (0, held == 0 || held == l.group(me))
        }),
        ("vote.sync.ballot.b32", "%o0, %h, %i3", |l, me| (l.group(me) & l.held, false)),
        ("vote.sync.ballot.b32", "%o0, !%h, %i3", |l, me| (l.group(me) & !l.held, false)),
        ("match.sync.any.b32", "%o0, %i0, %i3", |l, me| {
            matching(l, me, |other| l.a[other] == l.a[me], false)
        }),
        ("match.any.sync.b32", "%o0, %i0, %i3", |l, me| {
            matching(l, me, |other| l.a[other] == l.a[me], false)
        }),
        ("match.all.sync.b64", "%o0|%q, %i5, %i3", |l, me| {
            matching(l, me, |other| l.wide[other] == l.wide[me], true)
        }),
        ("match.any.sync.b64", "%o0, %i5, %i3", |l, me| {
            matching(l, me, |other| l.wide[other] == l.wide[me], false)
        }),
        ("match.sync.all.b32", "%o0|%q, %i0, %i3", |l, me| {
            matching(l, me, |other| l.a[other] == l.a[me], true)
        }),
        ("match.all.sync.b32", "%o0, %i0, %i3", |l, me| {
            (matching(l, me, |other| l.a[other] == l.a[me], true).0, false)
        }),
        ("match.sync.all.b64", "%o0|%q, %i5, %i3", |l, me| {
            matching(l, me, |other| l.wide[other] == l.wide[me], true)
        }),
        ("elect.sync", "%o0|%q, %i3", |l, me| {
            let first = l.group(me).trailing_zeros();
            (first, first == me as u32)
        }),
        ("elect.sync", "_|%q, %i3", |l, me| (0, l.group(me).trailing_zeros() == me as u32)),
    ]);
    cases.extend(reductions());
    cases
}

/// `redux` of every operation and type.
fn reductions() -> [(&'static str, &'static str, Expected); 9] {
    let redux = "%o0, %i0, %i3";
    let without = |expected: Expected| expected;
    [
        ("redux.sync.add.u32", redux, without(|l, me| reduced(l, me, u32::wrapping_add))),
        ("redux.sync.add.s32", redux, without(|l, me| reduced(l, me, u32::wrapping_add))),
        ("redux.sync.min.u32", redux, without(|l, me| reduced(l, me, u32::min))),
        ("redux.sync.max.u32", redux, without(|l, me| reduced(l, me, u32::max))),
        ("redux.sync.min.s32", redux, without(|l, me| {
            reduced(l, me, |x, y| (x as i32).min(y as i32) as u32)
        })),
        ("redux.sync.max.s32", redux, without(|l, me| {
            reduced(l, me, |x, y| (x as i32).max(y as i32) as u32)
        })),
        ("redux.sync.and.b32", redux, without(|l, me| reduced(l, me, |x, y| x & y))),
        ("redux.sync.or.b32", redux, without(|l, me| reduced(l, me, |x, y| x | y))),
        ("redux.sync.xor.b32", redux, without(|l, me| reduced(l, me, |x, y| x ^ y))),
    ]
}

fn check(form: &str, operands: &str, expected: Expected) {
    for isa in isas() {
        for (round, mode) in MODES.into_iter().cycle().take(4 * MODES.len()).enumerate() {
            let mut numbers = Random::new(round as u64 * 64 + form.len() as u64);
            let lanes = Lanes::new(mode, form, &mut numbers);
            // Lanes come by two paths; inactive ones go past, or end.
            let past = if mode == Mode::Left {
                "exit;".to_owned()
            } else {
                "bra skip;".to_owned()
            };
            let text = format!(
                ".reg .pred %q, %h, %act, %odd; .reg .b32 %t;
                 and.b32 %t, %i4, 1; setp.ne.u32 %act, %t, 0;
                 and.b32 %t, %i4, 2; setp.ne.u32 %odd, %t, 0;
                 and.b32 %t, %i4, 4; setp.ne.u32 %h, %t, 0;
                 setp.ne.u32 %q, 0, 0; @!%act {past} @%odd bra detour;
                 back: {form} {operands};
                 bra skip; detour: mul.lo.u32 %t, %t, 3; bra back;
                 skip: selp.u32 %o1, 1, 0, %q;"
            );
            let left = Warp {
                text: &text, inputs: &lanes.inputs(&mut numbers), outputs: &[32, 32],
                ..EMPTY
            }.run(isa);
            for lane in 0..32 {
                let runs = lanes.active >> lane & 1 != 0;
                let (d, p) = if runs { expected(&lanes, lane) } else { (0, false) };
                let got = (left.outputs[0][lane], left.outputs[1][lane]);
                assert!(
                    got == (u64::from(d), u64::from(p)),
                    "{form} {operands} {mode:?} {isa:?} lane {lane}: {got:x?}, expected {d:x} {p}"
                );
            }
        }
    }
}

/// A mask that some lanes name in a register and some in the instruction, and the memory order of
/// `bar.warp.sync`. Each lane reads the value that its neighbour wrote on the other path.
fn synchronised() {
    let text = ".reg .b64 %p; .reg .b32 %t; .reg .pred %odd; mov.u64 %p, buffer;
        mul.wide.u32 %p, %lane, 4; .reg .b64 %start; mov.u64 %start, buffer;
        add.u64 %p, %p, %start; and.b32 %t, %lane, 1; setp.ne.u32 %odd, %t, 0;
        @%odd bra odd; st.shared.u32 [%p+4], %lane; bar.warp.sync 0xffffffff;
        bra.uni join; odd: st.shared.u32 [%p-4], %lane; mov.u32 %t, -1; bra.uni other;
        other: bar.warp.sync %t; join: bar.warp.sync -1; ld.shared.u32 %o0, [%p];
        activemask.b32 %o1;";
    // The two barriers of the first step are at different instructions: lanes wait at each for the
    // others, and continue when no more lanes can come.
    for isa in isas() {
        let left = Warp { text, outputs: &[32, 32], ..EMPTY }.run(isa);
        for lane in 0..32 {
            assert!(left.outputs[0][lane] == lane as u64 ^ 1, "lane {lane}");
            assert!(left.outputs[1][lane] == 0xffff_ffff);
        }
    }
}

/// Votes in the PTX form without named lanes: among the lanes that are together.
fn unnamed() {
    let text = ".reg .pred %some, %all, %q; setp.lt.u32 %some, %lane, 5; setp.lt.u32 %all, %lane, 32;
        vote.ballot.b32 %o0, %some; mov.u32 %o1, 0;
        vote.any.pred %q, %some; @%q add.u32 %o1, %o1, 1; vote.any.pred %q, !%all; @%q add.u32 %o1, %o1, 2;
        vote.all.pred %q, %all; @%q add.u32 %o1, %o1, 4; vote.all.pred %q, %some; @%q add.u32 %o1, %o1, 8;
        vote.uni.pred %q, !%all; @%q add.u32 %o1, %o1, 16; vote.uni.pred %q, %some; @%q add.u32 %o1, %o1, 32;";
    for isa in isas() {
        let left = Warp { text, outputs: &[32, 32], ..EMPTY }.run(isa);
        assert!(left.outputs[0] == [31; 32], "{isa:?}: {:x?}", left.outputs[0]);
        assert!(left.outputs[1] == [1 + 4 + 16; 32], "{isa:?}: {:x?}", left.outputs[1]);
    }
}

/// `activemask` is the set of lanes that came together.
fn active() {
    let text = ".reg .pred %few; setp.lt.u32 %few, %lane, 5; @%few bra few;
        activemask.b32 %o0; bra.uni done; few: activemask.b32 %o0; done: bar.warp.sync -1;
        activemask.b32 %o1; @%few activemask.b32 %o1;";
    for isa in isas() {
        let left = Warp { text, outputs: &[32, 32], ..EMPTY }.run(isa);
        for lane in 0..32 {
            let (here, after) = if lane < 5 {
                (31, 31)
            } else {
                (0xffff_ffe0, 0xffff_ffff)
            };
            assert!(left.outputs[0][lane] == here && left.outputs[1][lane] == after);
        }
    }
}

/// A type that the operation does not support would access a row of another bank.
fn refusals() {
    let lines = [
        "vote.sync.all.b32 %r, %p, -1;",
        "vote.sync.ballot.pred %p, %p, -1;",
        "match.any.sync.pred %r, %p, -1;",
        "redux.sync.add.b32 %r, %r, -1;",
        "elect.sync %r, -1;",
    ];
    refused(".reg .pred %p; .reg .b32 %r;", &lines);
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = cases()
        .into_iter()
        .map(|(form, operands, expected)| {
            Test::check(vec![form.to_owned()], move || check(form, operands, expected))
        })
        .collect();
    tests.push(Test::check(vec!["bar.warp.sync".into()], synchronised));
    tests.push(Test::check(vec!["activemask.b32".into()], active));
    let votes = ["all.pred", "any.pred", "uni.pred", "ballot.b32"];
    tests.push(Test::check(votes.map(|vote| format!("vote.{vote}")).to_vec(), unnamed));
    tests.push(Test::check(Vec::new(), refusals));
    tests
}
