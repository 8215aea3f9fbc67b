//! Work of a device, with the actions that CUDA adds. Host memory that kernels see is copied to the
//! device before the work, and back after a wait. The output of kernels appears at a wait.

use std::io::Write;

use bus_schemas::OpNumber;
use client_session::Session;

use crate::device::Device;
use crate::status::{Result, Status};

/// Appends work that may read or write the device's memory.
pub(crate) fn submit<R>(
    device: &Device,
    body: impl FnOnce(&Session) -> client_session::Result<R>,
) -> Result<R> {
    device.with(|session| {
        device.mirrors.upload(session)?;
        body(session).map_err(Status::from)
    })
}

/// Appends a copy or a set of memory that begins at `address`. Host memory that kernels see is
/// copied over only if the work touches it. Otherwise the next kernel would miss later writes of
/// the program.
pub(crate) fn submit_at<R>(
    device: &Device,
    address: u64,
    body: impl FnOnce(&Session) -> client_session::Result<R>,
) -> Result<R> {
    match device.mirrors.covers(address) {
        true => submit(device, body),
        false => device.with(|session| body(session).map_err(Status::from)),
    }
}

/// Waits for all work so far.
pub(crate) fn sync(device: &Device) -> Result {
    let session = device.session();
    let last = session.channel().last();
    sync_session(device, &session, last)
}

/// Waits for the ops through `op`.
pub(crate) fn sync_through(device: &Device, op: OpNumber) -> Result {
    sync_session(device, &device.session(), op)
}

fn sync_session(device: &Device, session: &Session, op: OpNumber) -> Result {
    let waited = session.sync_through(op);
    device.round_trip(matches!(waited, Ok(true) | Err(_)));
    print(session);
    waited?;
    device.mirrors.download(session)
}

/// Waits for a copy to the host, which comes after all work so far.
pub(crate) fn read(device: &Device, from: u64, to: &mut [u8]) -> Result {
    let session = device.session();
    device.mirrors.upload(&session)?;
    device.round_trip(true);
    session.copy_out(from, to)?;
    // This was a wait for all earlier work as well.
    device.mirrors.download(&session)
}

/// Waits at the end of a synchronous call, if the program sees the memory directly.
pub(crate) fn settle(device: &Device, address: u64) -> Result {
    match device.mirrors.covers(address) {
        true => sync(device),
        false => Ok(()),
    }
}

/// True if the ops through `op` are done; does not wait.
pub(crate) fn is_done(device: &Device, op: OpNumber) -> Result<bool> {
    device.with(|session| match session.failure() {
        Some(failure) => Err(Status::from(&failure)),
        None => {
            session.flush();
            Ok(session.is_done(op))
        }
    })
}

/// Writes the output of kernels to the program's standard output, as the driver does.
fn print(session: &Session) {
    let text = session.take_printed();
    if !text.is_empty() {
        let mut out = std::io::stdout().lock();
        // stdout may be closed.
        let _ = out.write_all(&text).and_then(|()| out.flush());
    }
}
