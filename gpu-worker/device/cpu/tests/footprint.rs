//! Memory of a launch's blocks, which goes back to the system. The test is alone in its process.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use device::Device;
use device_conformance::{TestProgram, complete, flat_launch};
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
    let (mut program, load) = TestProgram::opened(&mut device, 1, PTX);
    let before = resident();
    let slice = program.slice(&[(load, &[]), (flat_launch(0, 2, 1_024), &[])]);
    assert_eq!(complete(&mut device, slice).fault, None);
    // 128 MiB were touched; a separate thread gives them back.
    let until = Instant::now() + Duration::from_secs(60);
    while resident() > before + (48 << 20) {
        assert!(Instant::now() < until, "{} bytes stay", resident() - before);
        std::thread::sleep(Duration::from_millis(5));
    }
    let slice = program.slice(&[(flat_launch(0, 1 << 20, 1_024), &[])]);
    device.submit(slice);
    device.poll(Duration::from_millis(1), &mut Vec::new());
    device.close(program.session());
    while resident() > before + (48 << 20) {
        assert!(Instant::now() < until, "{} bytes stay", resident() - before);
        std::thread::sleep(Duration::from_millis(5));
    }
}
