//! Messages of faults: source line, access and missed allocation, equal in the interpreter and in native code.

use bus_schemas::KernelFault;
use device_cpu::{
    Engine, EngineConfig, Fault, FaultKind, Grid, Instance, Isa, LaunchError, Memory, Program,
};

const BASE: u64 = 1 << 32;
const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"src/saxpy.cu\"\n";

/// The fault of one kernel, launched on a buffer of `bytes` at `BASE`.
fn fault(body: &str, bytes: u64, isa: Isa, prepare: impl Fn(&mut Memory)) -> Fault {
    let text = format!(
        "{HEAD}.visible .entry saxpy(.param .u64 p)\n{{\n.reg .b64 %a, %o; .reg .b32 %t, %v;\n\
         ld.param.u64 %a, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %o, %o, %a;\n\
         .loc 1 11 1\nmov.u32 %v, 0;\n.loc 1 12 5\n{body}\nret;\n}}\n"
    );
    let program = Program::build_image(text.as_bytes(), isa).expect("a program");
    let mut memory = Memory::new(BASE, 1 << 24, 1 << 24).expect("a window");
    memory.alloc(BASE, bytes).expect("free");
    prepare(&mut memory);
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let engine = Engine::new(EngineConfig::default());
    let params = BASE.to_le_bytes();
    let ran = engine.launch(&instance, 0, Grid::flat(2, 64), &params, &mut memory);
    match ran {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

fn both(body: &str, bytes: u64, prepare: impl Fn(&mut Memory) + Copy) -> String {
    let portable = fault(body, bytes, Isa::Portable, prepare);
    let native = fault(body, bytes, Isa::detect(), prepare);
    assert_eq!(portable, native, "{body}");
    let text = native.to_string();
    let read: KernelFault = text.parse().expect("a fault's text");
    assert_eq!(read, KernelFault::from(&native));
    text
}

#[test]
fn a_read_past_the_end_names_line_thread_and_allocation() {
    assert_eq!(
        both("ld.global.u32 %v, [%o+16];", 160, |_| {}),
        "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 12, block [0, 0, 0], thread [36, 0, 0], \
         read of 4 bytes at 0x1000000a0: right at the end of an allocation of 160 bytes at 0x100000000"
    );
}

#[test]
fn other_accesses_are_told_by_their_kind_and_size() {
    for (body, wanted) in [
        (
            "st.u8 [%o+-8], %t;",
            "write of 1 byte at 0xfffffff8: 8 bytes before the start of an allocation of 256 bytes at 0x100000000",
        ),
        (
            "atom.global.add.u32 %v, [%o+4096], 1;",
            "write of 4 bytes at 0x100001000: 3840 bytes past the end of an allocation of 256 bytes at 0x100000000",
        ),
        (
            "ld.global.v2.u32 {%v, %t}, [%a+252];",
            "read of 8 bytes at 0x1000000fc: not a multiple of the access size",
        ),
        (
            "sub.u64 %o, %o, %a; ld.u16 %v, [%o+8];",
            "read of 2 bytes at 0x8: 8 bytes past a null pointer",
        ),
    ] {
        let text = both(body, 256, |_| {});
        assert!(text.ends_with(wanted), "{text}");
    }
}

#[test]
fn a_freed_allocation_is_named() {
    let freed = |memory: &mut Memory| {
        memory.alloc(BASE + 4096, 64).expect("free");
        memory.free(BASE + 4096).expect("an allocation");
    };
    let text = both("st.global.u32 [%o+4096], %t;", 256, freed);
    let wanted = "write of 4 bytes at 0x100001000: within an allocation of 64 bytes at 0x100001000 that was freed";
    assert!(text.ends_with(wanted), "{text}");
}

#[test]
fn a_fault_without_an_address_has_its_line() {
    let it = fault("trap;", 4, Isa::detect(), |_| {});
    assert_eq!(
        (it.kind, it.address, it.access),
        (FaultKind::Trap, None, None)
    );
    let source = it.source.map(|it| it.to_string());
    assert_eq!(source.as_deref(), Some("src/saxpy.cu:12"));
}
