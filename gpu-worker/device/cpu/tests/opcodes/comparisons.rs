//! `setp`, `set`, `selp`, `slct`: every comparison of every type, joined with a predicate or not.

use crate::exact::Format;
use crate::integers::value;
use crate::vector::{Expect, Inputs, Test};
use std::cmp::Ordering;

const INTEGERS: [&str; 6] = ["u16", "u32", "u64", "s16", "s32", "s64"];
const BITS: [&str; 3] = ["b16", "b32", "b64"];
const FLOATS: [&str; 6] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"];

const ORDERED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [&str; 4] = ["lo", "ls", "hi", "hs"];
const UNORDERED: [&str; 8] = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

/// True if a comparison holds; no order means that one operand is NaN.
fn holds(compare: &str, order: Option<Ordering>) -> bool {
    match (compare, order) {
        ("num", order) => order.is_some(),
        ("nan", order) => order.is_none(),
        (unordered, None) => unordered.len() == 3,
        (name, Some(order)) => match &name[..2] {
            "eq" => order.is_eq(),
            "ne" => order.is_ne(),
            "lt" | "lo" => order.is_lt(),
            "le" | "ls" => order.is_le(),
            "gt" | "hi" => order.is_gt(),
            _ => order.is_ge(),
        },
    }
}

fn order(ty: &str, ftz: bool, a: u64, b: u64) -> Option<Ordering> {
    if !ty.contains('f') {
        let plain = ty.replace('b', "u");
        return Some(value(&plain, a).cmp(&value(&plain, b)));
    }
    let format = Format::of(ty);
    let enter = |bits| format.wide(if ftz { format.flush(bits) } else { bits });
    enter(a).partial_cmp(&enter(b))
}

fn joined(held: bool, join: &str, other: bool) -> bool {
    match join {
        ".and" => held && other,
        ".or" => held || other,
        ".xor" => held != other,
        _ => held,
    }
}

/// Every comparison that a type has.
fn compares(ty: &str) -> Vec<&'static str> {
    match &ty[..1] {
        "b" if !ty.contains('f') => ORDERED[..2].to_vec(),
        "u" => ORDERED.iter().chain(&UNSIGNED).copied().collect(),
        "s" => ORDERED.to_vec(),
        _ => ORDERED.iter().chain(&UNORDERED).copied().collect(),
    }
}

/// A comparison of a type, joined or not, with or without flushing.
#[derive(Clone, Copy)]
struct Compared {
    compare: &'static str,
    join: &'static str,
    ftz: bool,
    ty: &'static str,
}

impl Compared {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for ty in INTEGERS.into_iter().chain(BITS).chain(FLOATS) {
            for compare in compares(ty) {
                for join in ["", ".and", ".or", ".xor"] {
                    for ftz in [false, true] {
                        if !ftz || matches!(ty, "f32" | "f16" | "f16x2") {
                            all.push(Self { compare, join, ftz, ty });
                        }
                    }
                }
            }
        }
        all
    }

    fn modifiers(self) -> String {
        let ftz = if self.ftz { ".ftz" } else { "" };
        format!(".{}{}{ftz}", self.compare, self.join)
    }

    /// Result for part of the sources; every other test negates the joined predicate.
    fn holds(self, a: u64, b: u64, other: u64, complement: bool) -> bool {
        let held = holds(self.compare, order(self.ty, self.ftz, a, b)) != complement;
        joined(held, self.join, (other != 0) != self.negates())
    }

    fn negates(self) -> bool {
        !self.join.is_empty() && self.compare.contains('e')
    }

    fn operands(self) -> &'static str {
        match (self.join.is_empty(), self.negates()) {
            (true, _) => "%a, %b",
            (_, false) => "%a, %b, %c",
            (_, true) => "%a, %b, !%c",
        }
    }
}

fn predicates(tests: &mut Vec<Test>) {
    for it in Compared::all() {
        let form = format!("setp{}.{}", it.modifiers(), it.ty);
        let pair = it.ty.ends_with("x2");
        let signature = format!("pred pred = {} {} pred", it.ty, it.ty);
        let each = move |[a, b, c, _]: Inputs| {
            let both = if pair {
                let part = |at: u32, bits: u64| bits >> at & 0xffff;
                [0, 16].map(|at| it.holds(part(at, a), part(at, b), c, false))
            } else {
                [it.holds(a, b, c, false), it.holds(a, b, c, true)]
            };
            [u64::from(both[0]), u64::from(both[1]), 0, 0]
        };
        let body = format!("{form} %d|%e, {};", it.operands());
        let test = Test::with(&form, &signature, Expect::Each(Box::new(each)));
        tests.push(test.body(body).lanes(256));
        if !pair {
            let signature = format!("pred = {} {} pred", it.ty, it.ty);
            let want = move |[a, b, c, _]: Inputs| u64::from(it.holds(a, b, c, false));
            let body = format!("{form} %d, {};", it.operands());
            tests.push(Test::new(&form, &signature, want).body(body).lanes(256));
        }
    }
}

/// The value of `set` for true: a type's one, or all ones.
fn truth(to: &str) -> u64 {
    match to {
        "f32" | "f16" | "bf16" => Format::of(to).one(),
        "f16x2" | "bf16x2" => Format::of(to).one(),
        _ => u64::MAX,
    }
}

fn sets(tests: &mut Vec<Test>) {
    for it in Compared::all() {
        let targets: &[&str] = match it.ty {
            "f16x2" => &["f16x2", "u32", "s32"],
            "bf16x2" => &["bf16x2", "u32", "s32"],
            "f16" => &["f16", "u16", "s16", "u32", "s32", "f32"],
            "bf16" => &["bf16", "u16", "s16", "u32", "s32", "f32"],
            _ => &["u32", "s32", "f32", "f16", "bf16"],
        };
        for to in targets {
            let form = format!("set{}.{to}.{}", it.modifiers(), it.ty);
            let signature = format!("{to} = {} {} pred", it.ty, it.ty);
            let want = move |[a, b, c, _]: Inputs| {
                if !it.ty.ends_with("x2") {
                    return if it.holds(a, b, c, false) { truth(to) } else { 0 };
                }
                [0, 16].into_iter().fold(0, |word, at| {
                    let held = it.holds(a >> at & 0xffff, b >> at & 0xffff, c, false);
                    word | if held { (truth(to) & 0xffff) << at } else { 0 }
                })
            };
            let body = format!("{form} %d, {};", it.operands());
            tests.push(Test::new(&form, &signature, want).body(body).lanes(128));
        }
    }
}

fn selections(tests: &mut Vec<Test>) {
    let all = INTEGERS.into_iter().chain(BITS).chain(["f32", "f64"]);
    for ty in all {
        let signature = format!("{ty} = {ty} {ty} pred");
        tests.push(Test::new(format!("selp.{ty}"), &signature, |[a, b, c, _]| {
            if c != 0 { a } else { b }
        }));
        for (by, flags) in [("s32", ""), ("f32", ""), ("f32", ".ftz")] {
            let signature = format!("{ty} = {ty} {ty} {by}");
            let form = format!("slct{flags}.{ty}.{by}");
            tests.push(Test::new(form, &signature, move |[a, b, c, _]| {
                let zero = !flags.is_empty() && Format::F32.is_subnormal(c);
                let first = match by {
                    "s32" => c as i32 >= 0,
                    _ => f32::from_bits(c as u32) >= 0.0 || zero,
                };
                if first { a } else { b }
            }));
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    predicates(&mut tests);
    sets(&mut tests);
    selections(&mut tests);
    tests
}
