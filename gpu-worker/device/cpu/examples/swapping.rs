//! Speed of swapping. `swapping [MIB] [DIR]` moves a session of that many mebibytes out and back,
//! to the host's memory and to a file in DIR. It prints what a kernel of another session loses
//! meanwhile.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use bus_schemas::Op;
use device::{Completion, Device, Moved};
use device_conformance::{TestProgram, complete, flat_launch};
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapFile, SwapSpace};

const ROUNDS: usize = 5;

/// Each thread reads and writes one word of its own repeatedly.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry mill(.param .u64 data) {
    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    mov.u32 %r2, 0;
again: ld.global.u32 %r3, [%d1]; mad.lo.u32 %r3, %r3, 1664525, 1013904223; st.global.u32 [%d1], %r3;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 2000000; @%p bra again;
    ret;
}";

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A program with that many bytes allocated, all written.
fn opened(device: &mut CpuDevice, n: u64, bytes: u64) -> TestProgram {
    let (mut program, load) = TestProgram::opened(device, n, PTX);
    let address = program.window().base;
    let fill = Op::Set {
        address,
        count: bytes,
        value: 7,
        width: 1,
    };
    let slice = program.slice(&[
        (load, &[]),
        (Op::Alloc { address, bytes }, &[]),
        (fill, &[]),
    ]);
    complete(device, slice);
    program
}

/// Moves the large session while the other runs kernels, if requested. Returns the move, and the
/// milliseconds of the kernels that ended meanwhile.
fn moved(
    device: &mut CpuDevice,
    (large, out): (&TestProgram, bool),
    mut other: Option<&mut TestProgram>,
) -> (Moved, Vec<f64>) {
    match out {
        true => device.swap_out(large.session()),
        false => device.swap_in(large.session()),
    }
    let (mut ended, mut done) = (Vec::new(), Vec::<Completion>::new());
    while ended.is_empty() {
        match &mut other {
            Some(program) if !device.is_busy() => {
                let at = program.window().base.to_le_bytes();
                let slice = program.slice(&[(flat_launch(0, 1, 32), &at)]);
                device.submit(slice);
            }
            Some(_) => {}
            None => std::thread::sleep(Duration::from_micros(500)),
        }
        device.poll(Duration::from_micros(500), &mut done);
        device.moved(&mut ended);
    }
    let times = done
        .iter()
        .map(|done| done.device_ns as f64 / 1e6)
        .collect();
    while device.is_busy() {
        device.poll(Duration::from_millis(10), &mut done);
    }
    (ended.remove(0), times)
}

fn rate(moved: &Moved) -> f64 {
    moved.bytes as f64 / (1 << 20) as f64 / moved.took.as_secs_f64()
}

fn measure(what: &str, bytes: u64, space: &SwapConfig) -> Result<(), Box<dyn Error>> {
    let device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 2 * bytes,
        ..CpuConfig::default()
    });
    let mut device = device.swapping(SwapSpace::new(space)?);
    let large = opened(&mut device, 1, bytes);
    let mut other = opened(&mut device, 2, 4_096);
    let at = other.window().base.to_le_bytes();
    let alone = (0..15).map(|_| {
        let slice = other.slice(&[(flat_launch(0, 1, 32), &at)]);
        complete(&mut device, slice).device_ns as f64 / 1e6
    });
    println!(
        "{what}: a kernel alone takes {:.1} ms",
        median(alone.collect())
    );
    for busy in [false, true] {
        let mut rates = [Vec::new(), Vec::new()];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (way, out) in [true, false].into_iter().enumerate() {
                let (moved, kernels) =
                    moved(&mut device, (&large, out), busy.then_some(&mut other));
                if let Some(failure) = &moved.failure {
                    return Err(failure.clone().into());
                }
                rates[way].push(rate(&moved));
                times[way].extend(kernels);
            }
        }
        let [out, back] = rates.map(median);
        println!(
            "  {}: out {out:.0} MiB/s, in {back:.0} MiB/s",
            if busy { "beside a kernel" } else { "alone" }
        );
        if busy {
            let [out, back] = times.map(median);
            println!("  the kernel: {out:.1} ms while another goes, {back:.1} ms while it comes");
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mib: u64 = arguments.next().map_or(Ok(1_024), |text| text.parse())?;
    let dir = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let bytes = mib << 20;
    // Modules take another page or two.
    let room = bytes + (1 << 20);
    let memory = SwapConfig {
        memory: room,
        file: None,
    };
    measure("to memory", bytes, &memory)?;
    let file = SwapConfig {
        memory: 0,
        file: Some(SwapFile { dir, bytes: room }),
    };
    measure("to a file", bytes, &file)
}
