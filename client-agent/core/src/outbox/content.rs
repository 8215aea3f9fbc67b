//! Copies that are offered by the hashes of their chunks.

use bus_schemas::{ContentHash, Parcel, limits};

use super::{Outbox, State};
use crate::event::PushError;

impl Outbox {
    /// Asks the worker which chunks of a copy it holds, and returns the number of the copy's first
    /// transfer. Each transfer has [`limits::PIECE_BYTES`], the last maybe less. If
    /// [`Outbox::wants_bytes`] is true for a transfer, [`Outbox::supply`] passes its bytes.
    ///
    /// # Errors
    /// [`PushError`]; [`PushError::Full`] while too many bytes are on their way.
    pub fn offer(&mut self, total: u64, hashes: &[ContentHash]) -> Result<u64, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        let chunks = total.div_ceil(limits::CONTENT_BYTES as u64);
        if total == 0 || total > limits::OFFER_MOST || hashes.len() as u64 != chunks {
            return Err(PushError::Invalid(
                "an offer has the hashes of 1 byte to 512 MiB",
            ));
        }
        if !self.staging.admit() {
            return Err(PushError::Full);
        }
        Ok(self.staging.offer(total, hashes))
    }

    /// True if the bytes of an offered transfer are wanted; `None` until the worker has said which
    /// chunks it holds.
    #[must_use]
    pub fn wants_bytes(&self, transfer: u64) -> Option<bool> {
        self.staging.wants_bytes(transfer)
    }

    /// Makes room for the bytes of an offered transfer, which the caller fills later.
    ///
    /// # Errors
    /// [`PushError`]; [`PushError::Full`] while too many bytes are on their way.
    pub fn parcel_of(&mut self, bytes: usize) -> Result<Parcel, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        // The transfer has its number already: a wait for other transfers to end might wait for
        // itself.
        if !self.has_room_for_bytes() {
            return Err(PushError::Full);
        }
        Ok(self.staging.parcel(bytes))
    }

    /// True if [`Outbox::parcel_of`] finds room.
    #[must_use]
    pub fn has_room_for_bytes(&self) -> bool {
        self.staging.has_room_for_bytes()
    }

    /// Takes all bytes of an offered transfer that wants them.
    ///
    /// # Errors
    /// [`PushError`], except [`PushError::Full`].
    pub fn supply(&mut self, transfer: u64, parcel: Parcel) -> Result<(), PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        if !self.staging.fits(transfer, parcel.len() as u64) {
            return Err(PushError::Invalid(
                "a transfer has as many bytes as were offered",
            ));
        }
        self.staging.supply(transfer, parcel);
        Ok(())
    }
}
