//! Large copies to the device: chunks that the worker already holds are not sent.
//!
//! Weights are copied once to an address and stay there. Batches of data are copied to the same
//! address again and again, and are new each time. So only the first copy to an address is offered:
//! an offer costs a round trip to the worker, and hashes of all bytes.

use std::sync::MutexGuard;
use std::task::Poll;

use bus_schemas::{ContentHash, KernelKey, Op, limits};
use client_agent_core::{Event, Outbox, PushError};

use super::outbound::{SessionChannel, refusal};
use super::state::Inner;
use crate::error::ClientError;

impl SessionChannel {
    /// Copies bytes to an address of the session, in pieces. The bytes are read during the call.
    ///
    /// # Errors
    /// Same as [`SessionChannel::push`].
    pub fn copy_large(&self, to: u64, bytes: &[u8]) -> Result<(), ClientError> {
        let large = bytes.len() as u64 >= limits::OFFER_BYTES && self.offers;
        if !large || !self.lock().places.is_first(to) {
            return self.send_pieces(to, bytes);
        }
        for (index, part) in bytes.chunks(limits::OFFER_MOST as usize).enumerate() {
            self.offer(to + index as u64 * limits::OFFER_MOST, part)?;
        }
        Ok(())
    }

    fn send_pieces(&self, to: u64, bytes: &[u8]) -> Result<(), ClientError> {
        for (index, piece) in bytes.chunks(limits::PIECE_BYTES).enumerate() {
            let transfer = self.stage(piece, None)?;
            self.push_copy(to, (index, piece), transfer)?;
        }
        Ok(())
    }

    fn push_copy(
        &self,
        to: u64,
        (index, piece): (usize, &[u8]),
        transfer: u64,
    ) -> Result<(), ClientError> {
        let op = Op::CopyIn {
            address: to + (index * limits::PIECE_BYTES) as u64,
            bytes: piece.len() as u64,
            transfer,
        };
        self.push(&op, 0, &[], KernelKey(0)).map(drop)
    }

    /// Asks which of the bytes the worker holds, and sends the others.
    fn offer(&self, to: u64, bytes: &[u8]) -> Result<(), ClientError> {
        let chunks = bytes.chunks(limits::CONTENT_BYTES);
        let hashes: Vec<_> = chunks.map(|chunk| ContentHash::of([chunk])).collect();
        let mut inner = self.when_room(
            |outbox| outbox.offer(bytes.len() as u64, &hashes),
            Outbox::has_staging_room,
        )?;
        let first = inner.1;
        self.handle(&mut inner.0, Event::Flush);
        drop(inner);
        self.driver.kick();
        for (index, piece) in bytes.chunks(limits::PIECE_BYTES).enumerate() {
            let transfer = first + index as u64;
            if self.wants_bytes(transfer)? {
                self.supply(transfer, piece)?;
            }
            self.push_copy(to, (index, piece), transfer)?;
        }
        Ok(())
    }

    /// Waits until the worker has said if it needs the bytes of a transfer.
    fn wants_bytes(&self, transfer: u64) -> Result<bool, ClientError> {
        self.driver.wait(std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(failure) = inner.over.clone() {
                return Poll::Ready(Err(ClientError::Session(failure)));
            }
            if let Some(wants) = inner.outbox.wants_bytes(transfer) {
                return Poll::Ready(Ok(wants));
            }
            if inner.ended {
                return Poll::Ready(Err(ClientError::closed()));
            }
            inner.asking.push(context.waker().clone());
            Poll::Pending
        }))
    }

    /// Supplies the bytes of an offered transfer.
    fn supply(&self, transfer: u64, piece: &[u8]) -> Result<(), ClientError> {
        let (inner, mut parcel) = self.when_room(
            |outbox| outbox.parcel_of(piece.len()),
            Outbox::has_room_for_bytes,
        )?;
        drop(inner);
        // Other threads use the channel meanwhile.
        parcel.write(0, piece);
        let mut inner = self.lock();
        let supplied = inner.outbox.supply(transfer, parcel);
        supplied.map_err(refusal)?;
        self.handle(&mut inner, Event::Flush);
        drop(inner);
        self.driver.kick();
        Ok(())
    }

    /// Runs a function on the outbox once it has room.
    fn when_room<T>(
        &self,
        mut what: impl FnMut(&mut Outbox) -> Result<T, PushError>,
        has_room: fn(&Outbox) -> bool,
    ) -> Result<(MutexGuard<'_, Inner>, T), ClientError> {
        loop {
            let mut inner = self.lock();
            match what(&mut inner.outbox) {
                Ok(done) => return Ok((inner, done)),
                Err(PushError::Full) => self.make_room(inner, has_room),
                Err(other) => return Err(refusal(other)),
            }
        }
    }
}
