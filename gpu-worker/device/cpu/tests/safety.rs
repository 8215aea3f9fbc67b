//! Faults of kernels: each ends its launch with CUDA's error, which names the kernel, line, block,
//! thread and address.

use bus_schemas::{Code, Failure, Op};
use device::Device;
use device_conformance::complete;
use device_cpu::{
    CpuConfig, CpuDevice, Engine, EngineConfig, Fault, FaultKind, Grid, Instance, LaunchError,
    Memory, Program,
};
use std::time::Duration;

const BASE: u64 = 0x1000_0000_0000;
/// Bytes of the one live allocation, at `BASE`; behind it are a freed one, and nothing.
const LIVE: u64 = 4096;
const FREED: u64 = BASE + 0x1_0000;
const SHARED: u64 = 0x0100_0000_0000;
const LOCAL: u64 = 0x0200_0000_0000;
const PARAM: u64 = 0x0400_0000_0000;

/// A kernel around a body on line 6. `%base` is the allocation, `%a` its own word of it. There are
/// 256 bytes each of shared and local memory, and 16 of constants.
fn text(body: &str, outside: &str) -> String {
    format!(
        ".version 8.3\n.target sm_80\n.address_size 64\n.const .b32 fixed[4] = {{1, 2, 3, 4}}; {outside}
.visible .entry mistaken(.param .u64 base, .param .u64 freed) {{ .reg .b64 %base, %freed, %a, %c<9>; .reg .b32 %tid, %cta, %x<9>; .reg .pred %p<9>; .shared .align 16 .b8 many[256]; .local .align 16 .b8 own[256]; ld.param.u64 %base, [base]; ld.param.u64 %freed, [freed]; mov.u32 %tid, %tid.x; mov.u32 %cta, %ctaid.x; mad.wide.u32 %a, %tid, 4, %base;
{body}
ret; }}"
    )
}

fn launch(body: &str, outside: &str) -> Result<(), LaunchError> {
    let text = text(body, outside);
    let program = Program::build(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new(BASE, 64 << 20, 32 << 20).expect("reserved");
    memory.alloc(BASE, LIVE).expect("room");
    memory.alloc(FREED, LIVE).expect("room");
    memory.free(FREED).expect("allocated");
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let engine = Engine::new(EngineConfig {
        fuel: 1 << 20,
        ..EngineConfig::default()
    });
    let grid = Grid::flat(2, 64);
    let params = [BASE.to_le_bytes(), FREED.to_le_bytes()].concat();
    engine.launch(&instance, 0, grid, &params, &mut memory)?;
    Ok(())
}

fn fault(body: &str) -> Fault {
    match launch(body, "") {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("{body}: expected a fault, got {other:?}"),
    }
}

/// Accesses by thread 37 of block 1 alone, all of which must cause a fault of this kind, at this
/// address.
fn faulty(kind: FaultKind, cases: &[(u64, &[&str])]) {
    for (address, body) in cases
        .iter()
        .flat_map(|(address, bodies)| bodies.iter().map(move |body| (address, body)))
    {
        let only = "setp.ne.u32 %p1, %tid, 37; setp.eq.or.u32 %p1, %cta, 0, %p1; @%p1 ret;";
        let it = fault(&format!("{only} {body}"));
        assert_eq!(
            (it.kind, it.address),
            (kind, Some(*address)),
            "{body}: {it}"
        );
        let place = (it.block, it.thread);
        assert_eq!(place, ([1, 0, 0], [37, 0, 0]), "{body}: {it}");
        let text = (it.kernel.as_str(), it.line);
        assert_eq!(text, ("mistaken", 6), "{body}: {it}");
    }
}

#[test]
fn every_kind_of_access_out_of_bounds_is_a_fault() {
    let bodies = [
        "ld.global.u32 %x1, [%base+4096];",
        "st.global.u32 [%base+4096], %x1;",
        "ld.global.v4.u32 {%x1, %x2, %x3, %x4}, [%base+4096];",
        "st.global.v2.u64 [%base+4096], {%c1, %c2};",
        "ld.global.nc.L1::no_allocate.L2::128B.u32 %x1, [%base+4096];",
        "ld.volatile.global.u64 %c1, [%base+4096];",
        "ld.acquire.gpu.global.u32 %x1, [%base+4096];",
        "st.release.sys.global.u32 [%base+4096], %x1;",
        "ldu.global.u32 %x1, [%base+4096];",
        "atom.global.add.u32 %x1, [%base+4096], 1;",
        "atom.global.cas.b64 %c1, [%base+4096], %c2, %c2;",
        "red.global.add.f32 [%base+4096], %x1;",
        "cp.async.ca.shared.global [many], [%base+4096], 16;",
        "ld.u32 %x1, [%base+4096];",
    ];
    let before = ["ld.global.u8 %x1, [%base+-1];"];
    faulty(
        FaultKind::IllegalAddress,
        &[(BASE + LIVE, &bodies), (BASE - 1, &before)],
    );
}

/// Memory that was freed, is another tenant's, or is not allocated.
#[test]
fn memory_that_the_session_does_not_own_is_a_fault() {
    let cases: &[(u64, &[&str])] = &[
        (FREED, &["ld.global.u32 %x1, [%freed];"]),
        (FREED + 8, &["st.u32 [%freed+8], %x1;"]),
        (
            0x1400_0000_0000,
            &["mov.u64 %c1, 0x140000000000; ld.global.u32 %x1, [%c1];"],
        ),
        (0, &["mov.u64 %c1, 0; ld.global.u32 %x1, [%c1];"]),
        (
            u64::MAX - 3,
            &["mov.u64 %c1, -4; st.global.u32 [%c1], %x1;"],
        ),
    ];
    faulty(FaultKind::IllegalAddress, cases);
}

#[test]
fn misaligned_accesses_are_faults() {
    let cases: &[(u64, &[&str])] = &[
        (BASE + 2, &["ld.global.u32 %x1, [%base+2];"]),
        (BASE + 4, &["ld.global.v2.u32 {%x1, %x2}, [%base+4];"]),
        (
            BASE + 8,
            &["st.global.v4.u32 [%base+8], {%x1, %x2, %x3, %x4};"],
        ),
        (4, &["st.shared.u64 [many+4], %c1;"]),
        (1, &["ld.local.u16 %x1, [own+1];"]),
        (BASE + 4, &["atom.global.add.u64 %c1, [%base+4], 1;"]),
        (4, &["cp.async.ca.shared.global [many+4], [%base], 16;"]),
    ];
    faulty(FaultKind::Misaligned, cases);
}

#[test]
fn shared_and_local_memory_and_parameters_have_bounds() {
    let generic = "mov.u64 %c1, many; cvta.shared.u64 %c1, %c1; ld.u32 %x1, [%c1+256];";
    let local = "mov.u64 %c1, own; cvta.local.u64 %c1, %c1; st.u32 [%c1+256], %x1;";
    let read = "mov.u64 %c1, base; ld.param.u64 %c2, [%c1+16];";
    let written = "mov.u64 %c1, base; st.u64 [%c1], %c2;";
    let cases: &[(u64, &[&str])] = &[
        (
            256,
            &[
                "ld.shared.u32 %x1, [many+256];",
                "st.local.u32 [own+256], %x1;",
            ],
        ),
        (256, &["atom.shared.add.u32 %x1, [many+256], 1;"]),
        (u64::MAX - 3, &["st.shared.u32 [many+-4], %x1;"]),
        (SHARED + 256, &[generic]),
        (LOCAL + 256, &[local]),
        (PARAM + 16, &[read]),
        (PARAM, &[written]),
    ];
    faulty(FaultKind::IllegalAddress, cases);
}

/// Among eight lanes that access neighbours at once, the wrong one is reported.
#[test]
fn the_right_thread_of_a_group_is_blamed() {
    let it = fault("ld.global.u32 %x1, [%a+3964];");
    assert_eq!(
        (it.thread, it.address),
        ([33, 0, 0], Some(BASE + LIVE)),
        "{it}"
    );
    let it = fault("st.global.u32 [%a+3860], %x1;");
    assert_eq!(
        (it.thread, it.address),
        ([59, 0, 0], Some(BASE + LIVE)),
        "{it}"
    );
}

#[test]
fn constants_are_not_written() {
    for body in [
        "mov.u64 %c1, fixed; st.global.u32 [%c1], 7;",
        "mov.u64 %c1, fixed; cvta.const.u64 %c1, %c1; st.u32 [%c1+12], 7;",
        "mov.u64 %c1, fixed; atom.global.add.u32 %x1, [%c1], 7;",
        "mov.u64 %c1, fixed; red.add.u32 [%c1], 7;",
    ] {
        let it = fault(body);
        assert_eq!(it.kind, FaultKind::IllegalAddress, "{body}: {it}");
        assert!(it.detail.contains("constant"), "{body}: {it}");
    }
    let wrong = text("st.const.u32 [fixed], 7;", "");
    assert!(Program::build(&wrong).is_err_and(|error| error.to_string().contains("line 6")));
}

#[test]
fn nothing_runs_for_ever() {
    let calls = ".func deep(.reg .b32 n) { .local .b8 room[64]; call deep, (n); ret; }
        .func flat() { call flat; ret; }";
    let cases = [
        ("again: bra again;", FaultKind::Timeout),
        ("again: nanosleep.u32 1000; bra again;", FaultKind::Timeout),
        (
            "again: ld.volatile.global.u32 %x1, [%base]; setp.eq.u32 %p1, %x1, 0; @%p1 bra again;",
            FaultKind::Timeout,
        ),
        // One warp waits for threads that have ended, and for a count that cannot be reached.
        (
            "setp.gt.u32 %p1, %tid, 31; @%p1 ret; bar.sync 1, 64;",
            FaultKind::Timeout,
        ),
        ("bar.sync 2, 96;", FaultKind::Timeout),
        ("call deep, (%x1);", FaultKind::StackOverflow),
        ("call flat;", FaultKind::StackOverflow),
    ];
    for (body, kind) in cases {
        match launch(body, calls) {
            Err(LaunchError::Fault(it)) => {
                assert_eq!(it.kind, kind, "{body}: {it}");
                assert!(it.line > 0 && it.kernel == "mistaken", "{body}: {it}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

fn alloc(address: u64) -> Op {
    Op::Alloc {
        address,
        bytes: LIVE,
    }
}

/// Fault of a launch with a mistake, of its own tenant. The memory at `other` belongs to another
/// one.
fn mistaken(device: &mut CpuDevice, tenant: u64, body: &str, other: u64) -> Failure {
    let outside = ".func flat_one() { call flat_one; ret; }";
    let text = text(&format!("{body}\nflat: .callprototype _ ();"), outside);
    let (mut program, load) = device_conformance::TestProgram::opened(device, tenant, &text);
    // The second parameter is the neighbour's memory.
    let own = program.window().base;
    let params = [own.to_le_bytes(), other.to_le_bytes()].concat();
    let launch = device_conformance::flat_launch(0, 2, 64);
    let slice = program.slice(&[(load, &[]), (alloc(own), &[]), (launch, &params)]);
    let (op, failure) = complete(device, slice).fault.expect("a fault");
    assert_eq!(op, 3, "{failure}");
    device.close(program.session());
    failure
}

/// The codes that a CUDA program sees; a neighbour is not affected.
#[test]
fn a_mistake_is_its_session_s_alone() {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 2,
        capacity: 1 << 30,
        watchdog: Duration::from_millis(300),
        ..CpuConfig::default()
    });
    let mut neighbour = device_conformance::TestProgram::new(1);
    let window = neighbour.window();
    device
        .open(neighbour.session(), window, None)
        .expect("free");
    let kept = Op::Set {
        address: window.base,
        count: LIVE / 4,
        value: 0x5a5a_5a5a,
        width: 4,
    };
    let slice = neighbour.slice(&[(alloc(window.base), &[]), (kept, &[])]);
    assert_eq!(complete(&mut device, slice).fault, None);
    let cases = [
        ("st.global.u32 [%freed], 1;", Code::IllegalAddress, 700),
        ("st.global.u32 [%base+2], 1;", Code::Misaligned, 716),
        (
            "mov.u64 %c1, 7; call %c1, (), flat;",
            Code::IllegalInstruction,
            715,
        ),
        ("trap;", Code::Trap, 719),
        ("again: bra again;", Code::Watchdog, 702),
        ("call flat_one;", Code::StackOverflow, 719),
    ];
    for (n, (body, code, cuda)) in (2..).zip(cases) {
        let failure = mistaken(&mut device, n, body, window.base);
        assert_eq!(
            (failure.code, failure.code.cuda()),
            (code, cuda),
            "{failure}"
        );
        for words in ["`mistaken`", "line 6", "block [", "thread ["] {
            let line = code != Code::StackOverflow || words != "line 6";
            assert!(!line || failure.detail.contains(words), "{body}: {failure}");
        }
    }
    let address = window.base;
    let slice = neighbour.slice(&[(
        Op::CopyOut {
            address,
            bytes: LIVE,
        },
        &[],
    )]);
    let done = complete(&mut device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(
        done.results[0].copied().as_deref(),
        Some(&[0x5a; LIVE as usize][..])
    );
}
