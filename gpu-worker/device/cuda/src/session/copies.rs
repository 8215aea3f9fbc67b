//! Copies between the host and the device through pinned memory, so that the driver neither stages them
//! itself nor waits.

use std::sync::Arc;

use bus_schemas::{Code, Failure};
use device::CopyBytes;

use super::Session;
use super::flight::Flight;
use crate::pools::{Lease, Piece, Room as _, gather};

/// Maximum bytes that the driver stages for one copy.
const PIECE: usize = 4 << 20;

impl Session {
    /// Copies from the op's payload, or from a transfer of its slice.
    pub(super) fn copy_in(
        &self,
        flight: &mut Flight,
        (address, bytes): (u64, u64),
        transfer: u64,
        payload: &[u8],
    ) -> Result<(), Failure> {
        let mut transfers = flight.slice.transfers.iter();
        let staged = transfers.position(|(id, _)| *id == transfer && transfer != 0);
        let source = staged.and_then(|index| flight.slice.transfers.get(index));
        let source = source.map(|(_, source)| Arc::clone(source));
        let held = match (transfer, &source) {
            (0, _) => payload.len(),
            (_, Some(source)) => source.len(),
            (_, None) => 0,
        };
        if held as u64 != bytes {
            let detail = format!("transfer {transfer} does not hold {bytes} bytes");
            return Err(Failure::new(Code::Protocol, detail));
        }
        let Some(source) = source else {
            return self.stage(flight, (address, held), std::iter::once(payload));
        };
        self.stage(flight, (address, held), source.slices(0, held))?;
        drop(source);
        self.read(flight, staged);
        Ok(())
    }

    /// Copies `bytes` bytes that come in slices to the device. The driver stages bytes for which the pool has
    /// no room.
    fn stage<'s>(
        &self,
        flight: &mut Flight,
        (address, bytes): (u64, usize),
        slices: impl Iterator<Item = &'s [u8]>,
    ) -> Result<(), Failure> {
        let lend = |left: usize| self.pools.pinned.staging(left.min(PIECE));
        gather(bytes, slices, lend, |offset, piece| {
            let to = address + offset as u64;
            match piece {
                Piece::Gathered(lease) => {
                    // The buffer lives in the flight before the driver reads it.
                    flight.staged.push(lease);
                    let lease = flight.staged.last();
                    lease.map_or(Ok(()), |it| self.stream.copy_in(to, it.bytes()))
                }
                Piece::Direct(slice) => {
                    flight.reads = true;
                    self.stream.copy_in(to, slice)
                }
            }
        })
    }

    /// Frees the memory of a transfer that has been read, unless the driver still reads it. A transfer is
    /// named once, so its memory serves others.
    fn read(&self, flight: &mut Flight, staged: Option<usize>) {
        if flight.reads {
            return;
        }
        let transfers = &mut flight.slice.transfers;
        let Some(index) = staged.filter(|index| *index < transfers.len()) else {
            return;
        };
        let (_, source) = transfers.swap_remove(index);
        if let Ok(CopyBytes::Sent(parcel)) = Arc::try_unwrap(source) {
            self.pools.spares().take_apart(parcel);
        }
    }

    /// Copies to the host, in pieces that the pool has.
    pub(super) fn copy_out(&self, address: u64, bytes: u64) -> Result<Vec<Lease>, Failure> {
        let mut pieces = Vec::new();
        let copied = self.bring_out(&mut pieces, address, bytes as usize);
        if copied.is_err() {
            // The buffers go to other copies, and some are being written to.
            let _ = self.stream.wait();
        }
        copied.map(|()| pieces)
    }

    fn bring_out(
        &self,
        pieces: &mut Vec<Lease>,
        address: u64,
        bytes: usize,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while at < bytes || pieces.is_empty() {
            let mut lease = self.pools.pinned.answer(bytes - at)?;
            let (from, piece) = (address + at as u64, lease.len());
            let copied = self.stream.copy_out(lease.pinned(), (from, piece));
            pieces.push(lease);
            copied?;
            at += piece;
        }
        Ok(())
    }
}
