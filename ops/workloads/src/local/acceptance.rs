//! Acceptance test: runs everything in this crate on one device. The tests of a device call it.

use bus_schemas::Code;
use device::Device;

use super::{Local, LocalError};
use crate::{Gpu, NAMES, Params, by_name, checks, kernels};

/// Number of requests of each workload.
const REQUESTS: u32 = 10;

/// Choice of launching a kernel that never ends: it takes as long as the device's watchdog allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endless {
    /// Launches it and expects the watchdog.
    Watched,
    /// Skips it.
    Skipped,
}

/// A failure of a device in the suite.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct SuiteFailure {
    /// The check, workload or fault.
    pub what: String,
    /// The observed behaviour, in contrast to the expected one.
    pub why: String,
}

/// Runs all checks, some requests of each workload, and every fault, each fault in a session of its
/// own. Then runs the checks and workloads again. Returns the device.
///
/// # Errors
/// The first failure.
pub fn suite<D: Device>(device: D, endless: Endless) -> Result<D, SuiteFailure> {
    let mut device = works(device, 1)?;
    let mut session = 2;
    for fault in FAULTS {
        if fault.code != Code::Watchdog || endless == Endless::Watched {
            device = fails(device, session, fault)?;
            session += 1;
        }
    }
    works(device, session)
}

fn failed(what: &str) -> impl FnOnce(LocalError) -> SuiteFailure {
    move |error| wrong(what, error.to_string())
}

fn wrong(what: &str, why: String) -> SuiteFailure {
    SuiteFailure {
        what: what.to_owned(),
        why,
    }
}

/// Runs a session without faults.
fn works<D: Device>(device: D, session: u64) -> Result<D, SuiteFailure> {
    let mut gpu = Local::open(device, session).map_err(failed("open"))?;
    for check in checks::all() {
        let what = check.entries.join(", ");
        (check.run)(&mut gpu).map_err(|failure| wrong(&what, failure.to_string()))?;
    }
    for name in NAMES {
        let mut workload = by_name(name, session).map_err(|e| wrong(name, e.to_string()))?;
        workload
            .prepare(&mut gpu)
            .map_err(|e| wrong(name, e.to_string()))?;
        for _ in 0..REQUESTS {
            let before = gpu.launches();
            let outcome = workload
                .request(&mut gpu)
                .map_err(|e| wrong(name, e.to_string()))?;
            if let Some(difference) = outcome.detail {
                return Err(wrong(name, difference));
            }
            let counted = gpu.launches() - before;
            if counted != outcome.launches {
                let why = format!("{} launches, the device ran {counted}", outcome.launches);
                return Err(wrong(name, why));
            }
        }
    }
    Ok(gpu.close())
}

/// A launch that must fail.
#[derive(Clone, Copy)]
struct Fault {
    entry: &'static str,
    /// Its parameters, for the address of 4,096 zero bytes.
    params: fn(u64) -> Params,
    code: Code,
}

/// Four GiB past the only allocation, in words: unmapped on any device.
const FAR: u64 = 1 << 30;

const FAULTS: [Fault; 6] = [
    Fault {
        entry: "faulty_write",
        params: |p| Params::new().address(p).u64(FAR),
        code: Code::IllegalAddress,
    },
    Fault {
        entry: "faulty_write",
        params: |_| Params::new().address(0).u64(0),
        code: Code::IllegalAddress,
    },
    Fault {
        entry: "faulty_misaligned",
        params: |p| Params::new().address(p).u64(6).address(p),
        code: Code::Misaligned,
    },
    Fault {
        entry: "faulty_trap",
        params: |_| Params::new().u32(5),
        code: Code::Trap,
    },
    Fault {
        entry: "faulty_shared",
        params: |p| Params::new().address(p).u32(1 << 20),
        code: Code::IllegalAddress,
    },
    Fault {
        entry: "faulty_endless",
        params: |p| Params::new().address(p).address(p + 256),
        code: Code::Watchdog,
    },
];

/// Runs a session that must fail and stay failed.
fn fails<D: Device>(device: D, session: u64, fault: Fault) -> Result<D, SuiteFailure> {
    let what = fault.entry;
    let mut gpu = Local::open(device, session).map_err(failed(what))?;
    let p = gpu.alloc(4_096).map_err(failed(what))?;
    gpu.copy_in(p, &[0; 4_096]).map_err(failed(what))?;
    let module = gpu.load(kernels::FAULTY.bytes()).map_err(failed(what))?;
    let function = gpu.function(module, what).map_err(failed(what))?;
    // First a correct launch of the same kernel, so that only the faulty launch can fail.
    if what != "faulty_endless" {
        gpu.launch(function, [1; 3], [1; 3], 0, harmless(what, p).bytes())
            .map_err(failed(what))?;
        gpu.sync().map_err(failed(what))?;
    }
    let params = (fault.params)(p);
    gpu.launch(function, [2, 1, 1], [32, 1, 1], 0, params.bytes())
        .map_err(failed(what))?;
    match gpu.sync() {
        Ok(()) => return Err(wrong(what, "nothing was reported".to_owned())),
        Err(LocalError::Device(failure)) if failure.code == fault.code => {}
        Err(other) => return Err(wrong(what, format!("not {}: {other}", fault.code))),
    }
    if gpu.copy_out(p, &mut [0; 4]).is_ok() {
        return Err(wrong(
            what,
            "the session goes on after its fault".to_owned(),
        ));
    }
    Ok(gpu.close())
}

/// Parameters with which one thread of the entry causes no fault.
fn harmless(entry: &str, p: u64) -> Params {
    match entry {
        "faulty_write" => Params::new().address(p).u64(7),
        "faulty_misaligned" => Params::new().address(p).u64(28).address(p),
        "faulty_trap" => Params::new().u32(5),
        _ => Params::new().address(p).u32(7),
    }
}
