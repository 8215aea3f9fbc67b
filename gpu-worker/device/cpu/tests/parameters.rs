//! A kernel's parameters by their addresses, as compilers choose among them.

mod launch;

use device_cpu::{EngineConfig, Grid, Program};
use launch::launch;

/// The value that each of 64 threads stores, for a kernel with these parameters behind the address.
fn found(body: &str) -> Vec<u64> {
    let source = format!(
        ".version 8.0\n.target sm_80\n.address_size 64
        .entry k(.param .u64 base, .param .u64 one, .param .u64 two, .param .align 16 .b8 many[32]) {{
        .reg .b64 %at, %long, %value, %other; .reg .b32 %tid, %odd, %first, %second, %chosen;
        .reg .pred %is_odd;
        mov.u32 %tid, %tid.x; and.b32 %odd, %tid, 1; setp.ne.u32 %is_odd, %odd, 0;
        {body}
        ld.param.u64 %at, [base]; mad.wide.u32 %at, %tid, 8, %at; st.global.u64 [%at], %value; ret; }}"
    );
    let program = Program::build(&source).unwrap_or_else(|error| panic!("{error}"));
    let words = [111_u64, 222, 0, 3, 33, 333, 3333];
    let more: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let grid = Grid::flat(1, 64);
    launch(&program, EngineConfig::default(), grid, vec![0; 512], &more)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn by_turns(even: u64, odd: u64) -> Vec<u64> {
    (0..64)
        .map(|at| if at % 2 == 0 { even } else { odd })
        .collect()
}

#[test]
fn a_register_of_32_bits_holds_where_a_parameter_is() {
    // As LLVM writes `odd ? two : one`.
    let body =
        "mov.b32 %first, one; mov.b32 %second, two; selp.b32 %chosen, %second, %first, %is_odd;
        ld.param.b64 %value, [%chosen];";
    assert_eq!(found(body), by_turns(111, 222));
}

#[test]
fn numbers_are_added_to_it() {
    let body = "mov.u32 %first, many; mad.lo.u32 %chosen, %odd, 8, %first; ld.param.u64 %value, [%chosen+16];";
    assert_eq!(found(body), by_turns(333, 3333));
    let body = "mov.u32 %first, many; mad.lo.u32 %chosen, %odd, 16, %first;
        ld.param.v2.u64 {%value, %other}, [%chosen]; sub.u64 %value, %other, %value;";
    assert_eq!(found(body), by_turns(30, 3000));
}

#[test]
fn a_register_of_64_bits_does_as_well() {
    let body = "mov.u64 %long, one; mul.wide.u32 %other, %odd, 8; add.u64 %long, %long, %other;
        ld.param.u64 %value, [%long];";
    assert_eq!(found(body), by_turns(111, 222));
}
