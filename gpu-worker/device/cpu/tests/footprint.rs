//! Memory of a launch's blocks, which goes back to the system. Alone in its process.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use bus_schemas::{Launch, ModuleHash, Op};
use device::Device;
use device_conformance::{Program, complete};
use device_cpu::{CpuConfig, CpuDevice};

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry touch() {
    .local .align 8 .b8 depot[131072]; .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .pred %p;
    mov.u64 %d1, depot; mov.u32 %r1, 0;
again: st.local.u32 [%d1], %r1; add.u64 %d1, %d1, 4096; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 32; @%p bra again;
    ret;
}";

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse::<u64>().ok());
    pages.expect("pages") * 4_096
}

#[test]
fn the_memory_of_large_blocks_is_given_back_when_the_launch_has_ended() {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 2,
        capacity: 1 << 30,
        ..CpuConfig::default()
    });
    let hash = ModuleHash::of(PTX.as_bytes());
    device.prepare(hash, PTX.as_bytes()).expect("builds");
    let mut program = Program::new(1);
    let (session, window) = (program.session(), program.window());
    device.open(session, window, None).expect("a window");
    let launch = |blocks| {
        Op::Launch(Launch {
            module: 0,
            function: 0,
            grid: [blocks, 1, 1],
            block: [1_024, 1, 1],
            shared: 0,
        })
    };
    let load = Op::LoadModule { slot: 0, hash };
    let before = resident();
    let slice = program.slice(&[(load, &[]), (launch(2), &[])]);
    assert_eq!(complete(&mut device, slice).fault, None);
    // 128 MiB were touched; a thread of its own gives them back.
    let until = Instant::now() + Duration::from_secs(60);
    while resident() > before + (48 << 20) {
        assert!(Instant::now() < until, "{} bytes stay", resident() - before);
        std::thread::sleep(Duration::from_millis(5));
    }
    let slice = program.slice(&[(launch(1 << 20), &[])]);
    device.submit(slice);
    device.poll(Duration::from_millis(1), &mut Vec::new());
    device.close(session);
    while resident() > before + (48 << 20) {
        assert!(Instant::now() < until, "{} bytes stay", resident() - before);
        std::thread::sleep(Duration::from_millis(5));
    }
}
