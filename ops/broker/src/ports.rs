//! Free ports for servers. They lie below the ephemeral ports of the system: a connection of another
//! process never takes the port of a server that is being restarted.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Range of the ports for routes.
pub(crate) const ROUTES: Range<u16> = 20_000..26_000;
/// Range of the ports for clients.
pub(crate) const CLIENTS: Range<u16> = 26_000..32_000;

/// Returns this many free ports of 127.0.0.1, in random order.
///
/// # Errors
/// If fewer are free.
pub(crate) fn free(range: Range<u16>, count: usize) -> io::Result<Vec<u16>> {
    let mut held = Vec::with_capacity(count);
    let mut random = File::open("/dev/urandom")?;
    for _ in 0..10_000 {
        if held.len() == count {
            break;
        }
        let mut bytes = [0; 2];
        random.read_exact(&mut bytes)?;
        let port = range.start + u16::from_le_bytes(bytes) % (range.end - range.start);
        // Held until all ports are found, so that no port is found twice.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            held.push((port, listener));
        }
    }
    if held.len() < count {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}
