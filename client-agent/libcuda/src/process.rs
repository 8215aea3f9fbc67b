//! What begins with `cuInit` and lasts as long as the process: threads, connection, devices.

#![expect(unsafe_code, reason = "an exit handler of the C library")]

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::{Connection, FAREWELL};
use crate::context::Contexts;
use crate::device::Device;
use crate::fork::{self, is_forked};
use crate::settings::Settings;
use crate::signal::without_signals;
use crate::status::{Result, Status, note};

/// Everything of this process.
pub(crate) struct Process {
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Contexts,
    connection: Connection,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static BEGINNING: Mutex<()> = Mutex::new(());
/// The process exits.
static LEAVING: AtomicBool = AtomicBool::new(false);
/// What was called and is not supported.
static MISSED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Initialises the process, once.
///
/// # Errors
/// What is wrong, with its reason noted; a later call tries again.
pub(crate) fn init() -> Result {
    fork::watched(init_once)
}

fn init_once() -> Result {
    let _beginning = BEGINNING.lock().unwrap_or_else(PoisonError::into_inner);
    if !PROCESS.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let process = begin()?;
    PROCESS.store(Box::into_raw(Box::new(process)), Ordering::Release);
    fork::initialized();
    // SAFETY: the handler is a function without arguments that stays where it is.
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
    // SAFETY: what is stored there is a box that is never freed.
    unsafe { process.as_ref() }.ok_or(Status::NOT_INITIALIZED)
}

/// Whether the process exits, and its sessions with it.
#[inline]
pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Ordering::Relaxed)
}

/// The device that an address lies on.
pub(crate) fn holder(address: u64) -> Result<Option<&'static Device>> {
    let devices = &process()?.devices;
    Ok(devices.iter().find(|device| device.holds(address)))
}

/// At the end of the process: the sessions end, so that their memory is free at once. Whatever
/// other threads are about, nothing here waits for them. The exiting thread has lost its
/// thread-local values by now, and so another one does it.
extern "C" fn leave() {
    let Ok(process) = process() else {
        return;
    };
    if is_forked() {
        return;
    }
    LEAVING.store(true, Ordering::Relaxed);
    if std::env::var_os("WARPLOOM_STATS").is_some() {
        tell(process);
    }
    let farewell =
        || without_signals(|| thread::Builder::new().spawn(|| process.connection.leave()));
    let Ok(Ok(thread)) = std::panic::catch_unwind(AssertUnwindSafe(farewell)) else {
        return;
    };
    // Not joined: a thread that the program ended by force may have left a lock behind.
    let begun = Instant::now();
    while !thread.is_finished() && begun.elapsed() < 2 * FAREWELL {
        thread::sleep(Duration::from_micros(200));
    }
}

/// What the program cost and what it missed, for who asked.
fn tell(process: &Process) {
    let waits: u64 = process.devices.iter().map(Device::round_trips).sum();
    let missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    let names = match missed[..] {
        [] => "none".to_owned(),
        _ => missed.join(", "),
    };
    // Nobody listens any more.
    let _ = writeln!(
        std::io::stderr(),
        "warploom: waited {waits} times for an answer; called in vain: {names}"
    );
}

/// An export that does nothing yet was called.
pub(crate) fn missed(name: &'static str) {
    let mut names = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    names.push(name);
}

fn begin() -> Result<Process> {
    let settings = Settings::read(|name| std::env::var_os(name)).map_err(|why| {
        note(Status::SYSTEM_NOT_READY, why);
        Status::SYSTEM_NOT_READY
    })?;
    let connection = without_signals(|| Connection::start(&settings))?;
    let sessions = connection.open(&settings)?.into_iter().enumerate();
    let devices = sessions.map(|(ordinal, session)| Device::new(ordinal, session));
    let devices = devices.collect::<Result<Vec<_>>>()?;
    Ok(Process {
        contexts: Contexts::new(&devices),
        devices,
        connection,
    })
}
