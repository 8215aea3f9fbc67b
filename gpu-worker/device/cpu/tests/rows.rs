//! Whole warps that repeatedly access neighbours or one address. The allocation that an instruction
//! accessed last is remembered, but accesses outside of it are still found.

mod launch;

use device_cpu::{EngineConfig, Fault, FaultKind, Grid, Isa, LaunchError, Program};
use launch::{BASE, launch};

/// Two rows and a half of a warp's words.
const BYTES: u64 = 320;

/// A loop of four rounds over one instruction, on line 8. `%a` is the address of the thread's word
/// of the round's row, `%s` the same in 32 bits from 0, and `%n` the round.
fn text(inst: &str) -> String {
    format!(
        ".version 8.3\n.target sm_80\n.address_size 64\n.const .b32 fixed[32];
.visible .entry rows(.param .u64 base) {{ .reg .b64 %base, %a, %c<9>; .reg .b32 %tid, %s, %n, %x<9>; .reg .pred %p; .shared .align 16 .b8 many[320];
ld.param.u64 %base, [base]; mov.u32 %tid, %tid.x; mul.lo.u32 %s, %tid, 4; mad.wide.u32 %a, %tid, 4, %base; mov.u32 %n, 0;
again:
{inst}
add.u64 %a, %a, 128; add.u32 %s, %s, 128; add.u32 %n, %n, 1; setp.ne.u32 %p, %n, 4;
@%p bra again;
ret; }}"
    )
}

fn run(inst: &str, isa: Isa) -> Result<(), LaunchError> {
    let text = text(inst);
    let program =
        Program::build_image(text.as_bytes(), isa).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let (config, bytes) = (EngineConfig::default(), vec![0; BYTES as usize]);
    launch::<u8>(&program, config, Grid::flat(1, 32), bytes, &[]).map(|_| ())
}

fn fault(inst: &str, isa: Isa) -> Fault {
    match run(inst, isa) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("{inst}: expected a fault, got {other:?}"),
    }
}

#[test]
fn the_first_lane_outside_is_blamed() {
    use FaultKind::{IllegalAddress as Illegal, Misaligned};
    // Instruction, fault, lane, address.
    let cases: &[(&str, FaultKind, u32, u64)] = &[
        ("ld.global.u32 %x1, [%a];", Illegal, 16, BASE + BYTES),
        ("st.global.u32 [%a], %x1;", Illegal, 16, BASE + BYTES),
        ("ld.u32 %x1, [%a];", Illegal, 16, BASE + BYTES),
        ("ld.global.u32 %x1, [%a+4];", Illegal, 15, BASE + BYTES),
        ("ld.global.u16 %x1, [%a+2];", Illegal, 16, BASE + BYTES + 2),
        ("ld.global.u32 %x1, [%a+2];", Misaligned, 0, BASE + 2),
        ("st.global.u32 [%a+-2], %x1;", Misaligned, 0, BASE - 2),
        ("ld.shared.u32 %x1, [%s];", Illegal, 16, BYTES),
        ("st.shared.u32 [%s], %x1;", Illegal, 16, BYTES),
        // Neighbours in 32 bits across zero are not neighbours in memory.
        ("ld.shared.u32 %x1, [%s+-8];", Illegal, 0, 0xffff_fff8),
        // One address for all lanes.
        (
            "mad.wide.u32 %c1, %n, 128, %base; ld.global.u32 %x1, [%c1+64];",
            Illegal,
            0,
            BASE + BYTES,
        ),
        (
            "mad.wide.u32 %c1, %n, 128, %base; st.global.u32 [%c1+64], %x1;",
            Illegal,
            0,
            BASE + BYTES,
        ),
    ];
    for isa in [Isa::Portable, Isa::Avx2, Isa::Native] {
        for (inst, kind, lane, address) in cases {
            let fault = fault(inst, isa);
            let found = (fault.kind, fault.thread, fault.line, fault.address);
            let expected = (*kind, [*lane, 0, 0], 8, Some(*address));
            assert_eq!(found, expected, "{inst} {isa:?}: {fault}");
        }
    }
}

#[test]
fn what_is_inside_is_no_fault() {
    let cases = [
        "ld.global.u32 %x1, [%base+316];",
        "ld.const.u32 %x1, [fixed+124];",
        "ld.shared.u32 %x1, [316];",
        "setp.ge.u32 %p, %n, 2; @!%p ld.global.u32 %x1, [%a+64];",
    ];
    for isa in [Isa::Portable, Isa::Avx2, Isa::Native] {
        for inst in cases {
            assert!(run(inst, isa).is_ok(), "{inst} {isa:?}");
        }
    }
}

/// Constants have no writer, whatever the pattern of the lanes.
#[test]
fn constants_stay() {
    for isa in [Isa::Portable, Isa::Avx2, Isa::Native] {
        let inst = "mov.u64 %c1, fixed; mad.wide.u32 %c1, %tid, 4, %c1; ld.global.u32 %x1, [%c1]; st.global.u32 [%c1], %x1;";
        assert_eq!(fault(inst, isa).kind, FaultKind::IllegalAddress);
    }
}
