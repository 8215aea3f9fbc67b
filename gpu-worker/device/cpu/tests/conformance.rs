//! The CPU device passes the suite that every device must pass.

use device::Device;
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapFile, SwapSpace};
use std::time::Duration;

#[test]
fn the_cpu_device_conforms() {
    for threads in [1, 2] {
        let config = CpuConfig {
            threads,
            ..CpuConfig::default()
        };
        device_conformance::run(&mut CpuDevice::new(config));
    }
}

#[test]
fn sessions_of_different_urgency_read_what_they_would_alone() {
    device_conformance::mixed(&mut CpuDevice::new(CpuConfig::default()), 40);
}

#[test]
fn the_cpu_device_conforms_with_a_swap_space() {
    let space = SwapSpace::new(&SwapConfig {
        memory: 5 << 20,
        file: Some(SwapFile {
            dir: std::env::temp_dir(),
            bytes: 11 << 20,
        }),
    });
    let device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 64 << 20,
        ..CpuConfig::default()
    });
    let mut device = device.swapping(space.expect("the host has it"));
    device_conformance::run(&mut device);
}

const ENDLESS: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry endless() { again: bra again; }
.visible .entry brief() { ret; }";

fn launch(function: u32) -> bus_schemas::Op {
    bus_schemas::Op::Launch(bus_schemas::Launch {
        module: 0,
        function,
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    })
}

#[test]
fn a_runaway_kernel_delays_nobody_and_is_ended() {
    let watchdog = Duration::from_millis(200);
    let mut device = CpuDevice::new(CpuConfig {
        watchdog,
        ..CpuConfig::default()
    });
    let hash = bus_schemas::ModuleHash::of(ENDLESS.as_bytes());
    device.prepare(hash, ENDLESS.as_bytes()).expect("builds");
    let mut one = device_conformance::TestProgram::new(1);
    let mut two = device_conformance::TestProgram::new(2);
    let load = bus_schemas::Op::LoadModule { slot: 0, hash };
    for program in [&one, &two] {
        device
            .open(program.session(), program.window(), None)
            .expect("free");
    }
    device.submit(one.slice(&[(load, &[]), (launch(0), &[])]));
    device.submit(two.slice(&[(load, &[]), (launch(1), &[])]));
    let mut completions = Vec::new();
    while device.is_busy() {
        device.poll(Duration::from_millis(5), &mut completions);
    }
    let sessions: Vec<_> = completions.iter().map(|done| done.session).collect();
    assert_eq!(
        sessions,
        [two.session(), one.session()],
        "the brief one ends first"
    );
    assert_eq!(completions[0].fault, None);
    let fault = completions[1]
        .fault
        .as_ref()
        .expect("ended by the watchdog");
    assert_eq!(fault.1.code, bus_schemas::Code::Watchdog);
    assert_eq!(fault.0, 2);
}
