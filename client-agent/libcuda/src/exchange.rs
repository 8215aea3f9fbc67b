//! Memory of other processes that this process uses, and its own memory that they use.

use std::time::{Duration, Instant};

use bus_schemas::{Code, ExportPlace};
use client_session::{ClientError, Session};

use crate::device::Device;
use crate::ipc::{Name, Opened};
use crate::lock::lock;
use crate::process::process;
use crate::status::{Result, Status, note};
use crate::work;

/// Maximum time of attempts while a session's memory is being moved, or others give back memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before another attempt, after the first ones.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts without a pause.
const AT_ONCE: usize = 20;

/// The device of this process on the worker that a name refers to.
pub(crate) fn device_of(name: Name) -> Result<&'static Device> {
    let devices = &process()?.devices;
    let there = devices
        .iter()
        .find(|device| device.with(|session| name.is_beside(session)));
    there.ok_or_else(|| {
        let why = "the memory is on another worker than this process: processes that share memory run \
                   on one worker";
        note(Status::PEER_ACCESS_UNSUPPORTED, why.into());
        Status::PEER_ACCESS_UNSUPPORTED
    })
}

/// Retries while the session's memory is being moved, which an op of its own brings back, and while others give
/// back memory that they do not use.
pub(crate) fn patiently<T>(
    device: &Device,
    mut ask: impl FnMut(&Session) -> std::result::Result<T, ClientError>,
) -> Result<T> {
    let session = device.session();
    let began = Instant::now();
    let mut tries = 0;
    loop {
        work::sync(device)?;
        device.round_trip(true);
        tries += 1;
        match ask(&session) {
            Err(ClientError::Refused(failure))
                if failure.retryable && began.elapsed() < PATIENCE =>
            {
                if tries > AT_ONCE {
                    std::thread::sleep(PAUSE);
                }
                // If there is nothing to wait for, waits for a new op: the session's memory returns
                // for it.
                session.sync()?;
            }
            Err(ClientError::Refused(failure)) if failure.code == Code::NotExported => {
                note(Status::INVALID_HANDLE, failure.detail);
                return Err(Status::INVALID_HANDLE);
            }
            came => return Ok(came?),
        }
    }
}

/// The name of the device allocation that begins at an address; the same each time.
pub(crate) fn export(device: &Device, address: u64) -> Result<Name> {
    let mut exported = device.ipc.exported.lock();
    if let Some(name) = exported.get(&address) {
        return Ok(*name);
    }
    let name = Name::new(&device.session());
    patiently(device, |session| {
        session.channel().export(name.key, address)
    })?;
    exported.insert(address, name);
    Ok(name)
}

/// Opens the memory of a name on a device of this process, and returns its address.
pub(crate) fn open(device: &Device, name: Name) -> Result<u64> {
    let mut opened = lock(&device.ipc.opened);
    if let Some(known) = opened.get_mut(&name.key) {
        known.times += 1;
        return Ok(known.address);
    }
    let place = find(device, name)?;
    let address = device.with(|session| session.channel().reserve_for(place))?;
    let room = address - place.before;
    let imported = patiently(device, |session| {
        session.channel().import(name.key, address, place)
    });
    if let Err(status) = imported {
        device.with(|session| session.channel().unreserve(room))?;
        return Err(status);
    }
    let times = 1;
    opened.insert(
        name.key,
        Opened {
            address,
            room,
            times,
        },
    );
    Ok(address)
}

/// Closes the memory that was opened at an address; the last close unmaps it.
pub(crate) fn close(device: &Device, address: u64) -> Result {
    let mut opened = lock(&device.ipc.opened);
    let mut found = opened.iter_mut().filter(|(_, it)| it.address == address);
    let (key, known) = found.next().ok_or(Status::INVALID_VALUE)?;
    if known.times > 1 {
        known.times -= 1;
        return Ok(());
    }
    let (key, room) = (*key, known.room);
    patiently(device, |session| session.channel().drop_import(address))?;
    opened.remove(&key);
    device.with(|session| Ok(session.channel().unreserve(room)?))
}

/// Finds the place of the memory of a name.
pub(crate) fn find(device: &Device, name: Name) -> Result<ExportPlace> {
    patiently(device, |session| session.channel().find(name.key))
}
