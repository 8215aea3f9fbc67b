//! Names that belong to their block of braces: labels, lists of targets, registers.

use crate::vector::Test;

pub(crate) fn tests() -> Vec<Test> {
    let twice = "
        .reg .pred %p; mov.u32 %d, 0; setp.gt.u32 %p, %a, 9;
        { .reg .u32 %n; mov.u32 %n, 1; @%p bra over; add.u32 %d, %d, %n; over: add.u32 %d, %d, 2; }
        { .reg .u64 %n; @!%p bra over; add.u32 %d, %d, 4; over: add.u32 %d, %d, 8;
          cvt.u64.u32 %n, %d; cvt.u32.u64 %d, %n; }";
    let branches = Test::new("bra", "u32 = u32", |[a, ..]| if a > 9 { 14 } else { 11 });
    let tables = "
        .reg .u32 %n; and.b32 %n, %a, 1; mov.u32 %d, 0;
        { list: .branchtargets one, two; brx.idx %n, list; one: add.u32 %d, %d, 1;
          two: add.u32 %d, %d, 10; }
        { list: .branchtargets two, one; brx.idx %n, list; one: add.u32 %d, %d, 100;
          two: add.u32 %d, %d, 1000; { bra end; } }
        end:";
    let indexed = Test::new("brx.idx", "u32 = u32", |[a, ..]| {
        if a & 1 == 0 { 1011 } else { 1110 }
    });
    let hints = ["pmevent 1;", "pmevent.mask 3;"].map(|text| {
        let form = text.split(' ').next().unwrap_or_default();
        Test::new(form, "u32 = u32", |[a, ..]| a).body(format!("{text} mov.u32 %d, %a;"))
    });
    let mut tests = vec![branches.body(twice), indexed.body(tables)];
    tests.extend(hints);
    tests
}
