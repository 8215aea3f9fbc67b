//! Mapped memory that is moved to other addresses, or mapped at several.

use std::sync::MutexGuard;

use bus_schemas::{KernelKey, Op};
use client_agent_core::Outbox;

use super::outbound::{SessionChannel, refusal};
use super::state::Inner;
use crate::error::ClientError;

impl SessionChannel {
    /// True if the worker moves memory and maps it at several addresses.
    #[must_use]
    pub fn maps_memory(&self) -> bool {
        let properties = self.opened().properties.as_ref();
        properties.is_some_and(|it| it.maps_memory)
    }

    /// Moves an allocation that [`SessionChannel::map`] made at `from`, with its bytes, to `to`.
    /// With `keep`, it stays mapped at `from` too, until [`SessionChannel::unmap`] of that.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if nothing is mapped there, or `to` is not reserved and free; else
    /// as [`SessionChannel::push`].
    pub fn relocate(&self, to: u64, from: u64, keep: bool) -> Result<(), ClientError> {
        let mut inner = self.having_room_for_ops();
        let bytes = inner.addresses.relocate(to, from, keep);
        let bytes = bytes.map_err(ClientError::Refused)?;
        if !keep {
            inner.places.forget(from..from + bytes);
        }
        let op = Op::Move {
            to,
            from,
            bytes,
            keep,
        };
        self.append_to(&mut inner, &op)
    }

    /// Maps an allocation that [`SessionChannel::map`] made at `from` at `to` as well, until
    /// [`SessionChannel::unmap`] of `to`.
    ///
    /// # Errors
    /// Same as [`SessionChannel::relocate`].
    pub fn map_again(&self, to: u64, from: u64) -> Result<(), ClientError> {
        let mut inner = self.having_room_for_ops();
        let bytes = inner.addresses.map_again(to, from);
        let bytes = bytes.map_err(ClientError::Refused)?;
        self.append_to(&mut inner, &Op::Map { to, from, bytes })
    }

    /// Waits while the outbox is full.
    fn having_room_for_ops(&self) -> MutexGuard<'_, Inner> {
        loop {
            let inner = self.lock();
            if inner.outbox.has_room() || inner.over.is_some() || inner.ended {
                return inner;
            }
            self.make_room(inner, Outbox::has_room);
        }
    }

    /// Appends an op under the lock under which its addresses were taken, so that ops of other
    /// threads there come after it.
    fn append_to(&self, inner: &mut Inner, op: &Op) -> Result<(), ClientError> {
        let pushed = self.push_within(inner, op, 0, &[], KernelKey(0));
        pushed.map(drop).map_err(refusal)
    }
}
