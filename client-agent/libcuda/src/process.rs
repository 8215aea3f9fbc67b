//! The state of this process, from `cuInit` to its end: threads, connection, devices.

#![expect(unsafe_code, reason = "an exit handler of the C library")]

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client_session::{ProgramSettings, settle_driver_version, without_signals};

use crate::connection::{Connection, FAREWELL};
use crate::context::PrimaryContexts;
use crate::device::Device;
use crate::fork::{self, is_forked};
use crate::lock::lock;
use crate::stats;
use crate::status::{Result, Status, note};
use crate::visible;

/// The whole state of this process.
pub(crate) struct Process {
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: PrimaryContexts,
    connection: Connection,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static BEGINNING: Mutex<()> = Mutex::new(());
/// True once the process exits.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Initialises the process, once.
///
/// # Errors
/// The initialisation error, with its reason noted; a later call tries again.
pub(crate) fn init() -> Result {
    fork::watched(init_once)
}

fn init_once() -> Result {
    let _beginning = lock(&BEGINNING);
    if !PROCESS.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let process = begin()?;
    PROCESS.store(Box::into_raw(Box::new(process)), Ordering::Release);
    fork::initialized();
    // SAFETY: the handler is a function of this library, which is never unmapped.
    unsafe { libc::atexit(leave) };
    Ok(())
}

/// The process, if it is initialised.
#[inline]
pub(crate) fn process() -> Result<&'static Process> {
    if is_leaving() {
        return Err(Status::DEINITIALIZED);
    }
    let process = PROCESS.load(Ordering::Acquire);
    // SAFETY: the pointer stored there is to a box that is never freed.
    unsafe { process.as_ref() }.ok_or(Status::NOT_INITIALIZED)
}

/// True if the process exits, and its sessions with it.
#[inline]
pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}

/// True if a device no longer answers: its session is over, while the process goes on.
pub(crate) fn is_any_lost() -> bool {
    let lost = |device: &Device| device.with(|session| session.failure().is_some());
    !is_forked() && process().is_ok_and(|process| process.devices.iter().any(lost))
}

/// The device that contains an address.
pub(crate) fn holder(address: u64) -> Result<Option<&'static Device>> {
    let devices = &process()?.devices;
    Ok(devices.iter().find(|device| device.holds(address)))
}

/// Ends the sessions at the exit of the process, so that their memory is free at once. It waits for
/// no other thread of the program. The exiting thread has lost its thread-local values by now, so
/// another thread does it.
extern "C" fn leave() {
    let Ok(process) = process() else {
        return;
    };
    if is_forked() {
        return;
    }
    LEAVING.store(true, Ordering::Relaxed);
    stats::report(&process.devices);
    let farewell =
        || without_signals(|| thread::Builder::new().spawn(|| process.connection.leave()));
    let Ok(Ok(thread)) = std::panic::catch_unwind(AssertUnwindSafe(farewell)) else {
        return;
    };
    // Not joined: a thread that the program killed may have left a lock taken.
    let begun = Instant::now();
    while !thread.is_finished() && begun.elapsed() < 2 * FAREWELL {
        thread::sleep(Duration::from_micros(200));
    }
}

fn begin() -> Result<Process> {
    let settings = ProgramSettings::read(|name| std::env::var_os(name)).map_err(|why| {
        note(Status::SYSTEM_NOT_READY, why);
        Status::SYSTEM_NOT_READY
    })?;
    let connection = without_signals(|| Connection::start(&settings))?;
    let sessions = connection.open(&settings)?.into_iter();
    let devices = sessions.map(Device::new);
    let mut devices = visible::of(devices.collect::<Result<Vec<_>>>()?);
    if devices.is_empty() {
        note(
            Status::NO_DEVICE,
            "CUDA_VISIBLE_DEVICES hides every device".into(),
        );
        connection.leave();
        return Err(Status::NO_DEVICE);
    }
    for (ordinal, device) in devices.iter_mut().enumerate() {
        device.ordinal = ordinal;
    }
    let drivers = devices.iter().filter_map(|it| it.properties.gpu_driver());
    settle_driver_version(drivers);
    Ok(Process {
        contexts: PrimaryContexts::new(devices.len()),
        devices,
        connection,
    })
}
