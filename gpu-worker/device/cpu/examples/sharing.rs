//! Costs and savings of sharing. `sharing [MIB]` has sessions copy equal weights of that many
//! mebibytes, with and without a common sharing domain. It prints the time of copies and kernels,
//! and the memory that the process uses for them.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{Launch, ModuleHash, Op};
use device::{CopyBytes, Device, SharingDomain};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};

const SESSIONS: u64 = 8;
const LAUNCHES: usize = 7;

/// Each thread adds up 256 words, neighbours side by side, and stores nothing but a sum of 0.
const PTX: &str = ".version 7.0
.target sm_75
.address_size 64
.visible .entry sum(.param .u64 data)
{
    .reg .pred %p;
    .reg .b32 %i, %x, %sum, %n;
    .reg .b64 %a, %o;
    ld.param.u64 %a, [data];
    mov.u32 %i, %ctaid.x;
    mul.wide.u32 %o, %i, 262144;
    add.s64 %a, %a, %o;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %o, %i, 4;
    add.s64 %a, %a, %o;
    mov.u32 %sum, 0;
    mov.u32 %n, 0;
again:
    ld.global.u32 %x, [%a];
    add.u32 %sum, %sum, %x;
    add.s64 %a, %a, 1024;
    add.u32 %n, %n, 1;
    setp.lt.u32 %p, %n, 256;
    @%p bra again;
    setp.ne.u32 %p, %sum, 0;
    @%p bra done;
    st.global.u32 [%a+-1024], %sum;
done:
    ret;
}
";

/// Memory of this process in MiB; a page that is mapped several times counts once.
fn memory() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no line Pss")?.parse::<u64>()? >> 10)
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Prints the time that `run` took.
fn timed(what: &str, run: impl FnOnce()) {
    let began = Instant::now();
    run();
    println!("  {what}: {}", millis(began.elapsed()));
}

/// Opens the sessions and copies the weights into each.
fn opened(
    device: &mut CpuDevice,
    mib: u64,
    domain: Option<SharingDomain>,
) -> Result<Vec<TestProgram>, Box<dyn Error>> {
    let bytes = mib << 20;
    let words = 0..(bytes / 4) as u32;
    let weights: Vec<u8> = words
        .flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    let parcel = Arc::new(CopyBytes::from(&weights[..]));
    let hash = ModuleHash::of(PTX.as_bytes());
    device.prepare(hash, PTX.as_bytes())?;
    let mut programs = Vec::new();
    for n in 1..=SESSIONS {
        let mut program = TestProgram::new(n);
        let address = program.window().base;
        device.open(program.session(), program.window(), domain)?;
        let load = Op::LoadModule { slot: 0, hash };
        let slice = program.slice(&[(load, &[]), (Op::Alloc { address, bytes }, &[])]);
        complete(device, slice);
        let copy = Op::CopyIn {
            address,
            bytes,
            transfer: 1,
        };
        let mut slice = program.slice(&[(copy, &[])]);
        slice.transfers.push((1, Arc::clone(&parcel)));
        let began = Instant::now();
        complete(device, slice);
        let each = began.elapsed() / mib as u32;
        if n <= 3 {
            println!("  copy {n}: {:.0} µs a MiB", each.as_secs_f64() * 1e6);
        }
        programs.push(program);
    }
    Ok(programs)
}

/// One round of all sessions.
fn round(mib: u64, domain: Option<SharingDomain>) -> Result<(), Box<dyn Error>> {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 64 << 30,
        ..CpuConfig::default()
    });
    let before = memory()?;
    let mut programs = opened(&mut device, mib, domain)?;
    println!("  memory of {SESSIONS} copies: {} MiB", memory()? - before);
    let program = &mut programs[1];
    let address = program.window().base;
    let launch = Op::Launch(Launch {
        module: 0,
        function: 0,
        grid: [(mib << 2) as u32, 1, 1],
        block: [256, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    });
    let times = (0..LAUNCHES).map(|_| {
        let slice = program.slice(&[(launch, &address.to_le_bytes())]);
        complete(&mut device, slice).device_ns
    });
    let shortest = Duration::from_nanos(times.min().unwrap_or(0));
    println!("  a kernel that reads them: {}", millis(shortest));
    timed("looks at what was written", || while device.tend() {});
    let set = Op::Set {
        address,
        count: mib << 18,
        value: 1,
        width: 4,
    };
    let slice = program.slice(&[(set, &[])]);
    let each = complete(&mut device, slice).device_ns / mib;
    println!("  writing all of one: {:.0} µs a MiB", each as f64 / 1e3);
    timed("copies of its own", || while device.tend() {});
    let first = programs.remove(0);
    timed("closing one", || device.close(first.session()));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mib = std::env::args()
        .nth(1)
        .map_or(Ok(64), |text| text.parse())?;
    for (what, domain) in [("apart", None), ("shared", Some(SharingDomain(0)))] {
        println!("{what}:");
        round(mib, domain)?;
    }
    Ok(())
}
