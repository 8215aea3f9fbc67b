//! Memory that sessions of one tenant on one worker share.

use std::task::{Poll, Waker};

use bus_schemas::{Code, ExportKey, ExportPlace, IpcAction, IpcAnswer, limits};
use client_agent_core::Nanos;

use super::outbound::SessionChannel;
use super::state::Inner;
use crate::error::{ClientError, refused};

impl SessionChannel {
    /// Exports the allocation that begins at `address` to other sessions of the tenant, until it is
    /// freed. The caller has waited for its ops so far.
    ///
    /// # Errors
    /// [`ClientError::Refused`], retryable if its memory is being moved: wait for an op and ask
    /// again. Else the session's failure.
    pub fn export(&self, key: ExportKey, address: u64) -> Result<(), ClientError> {
        self.exchange(IpcAction::Export { key, address }).map(drop)
    }

    /// Finds the export of another session with this key.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if there is none with that key, else the session's failure.
    pub fn find(&self, key: ExportKey) -> Result<ExportPlace, ClientError> {
        let found = self.exchange(IpcAction::Find { key })?;
        found.ok_or_else(|| refused(Code::Protocol, "the worker did not say where it lies"))
    }

    /// Reserves room for an export and returns the address for its first byte.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the window has no such range.
    pub fn reserve_for(&self, place: ExportPlace) -> Result<u64, ClientError> {
        let span = place.span.checked_next_multiple_of(limits::IPC_ALIGN);
        let span = span.filter(|span| place.before < *span);
        let span = span.ok_or_else(|| refused(Code::Protocol, "what was exported lies nowhere"))?;
        let room = self.reserve(span, limits::IPC_ALIGN)?;
        Ok(room + place.before)
    }

    /// Imports the export with this key at `address`, in a reserved range.
    ///
    /// # Errors
    /// Same as [`SessionChannel::export`], and if that range is not reserved and free.
    pub fn import(
        &self,
        key: ExportKey,
        address: u64,
        place: ExportPlace,
    ) -> Result<(), ClientError> {
        let taken = self.lock().addresses.import(address, place.bytes);
        taken.map_err(ClientError::Refused)?;
        let imported = self.exchange(IpcAction::Import { key, address });
        if imported.is_err() {
            // It was just mapped there.
            let _ = self.lock().addresses.unmap(address);
        }
        imported.map(drop)
    }

    /// Removes an import made by [`SessionChannel::import`]; the range stays reserved. The caller
    /// has waited for its ops so far.
    ///
    /// # Errors
    /// Same as [`SessionChannel::export`].
    pub fn drop_import(&self, address: u64) -> Result<(), ClientError> {
        match self.exchange(IpcAction::Drop { address }) {
            // Its owner has freed it, so it is no longer there.
            Err(ClientError::Refused(failure)) if failure.code == Code::BadAddress => {}
            came => drop(came?),
        }
        let dropped = self.lock().addresses.unmap(address);
        dropped.map(drop).map_err(ClientError::Refused)
    }

    /// Asks the worker and waits for the answer; requests of other threads come first.
    fn exchange(&self, action: IpcAction) -> Result<Option<ExportPlace>, ClientError> {
        let properties = self.opened().properties.as_ref();
        if !properties.is_some_and(|it| it.answers_ipc) {
            let detail = "the worker is of a build without memory shared between sessions";
            return Err(refused(Code::NotPinned, detail));
        }
        let turn = self.asks.lock();
        let turn = turn.unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut inner = self.lock();
        let now = self.now();
        inner.exchange.ask(now, action);
        self.publish_exchange(&mut inner);
        drop(inner);
        let deadline = Nanos::try_from(self.deadline.as_nanos()).unwrap_or(Nanos::MAX);
        let answer = self.driver.wait(std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(failure) = inner.over.clone() {
                return Poll::Ready(Err(ClientError::Session(failure)));
            }
            if let Some(answer) = inner.exchange.take() {
                return Poll::Ready(answer.map_err(ClientError::Refused));
            }
            let now = self.now();
            if inner.exchange.waits(now) >= deadline {
                inner.exchange.give_up(now);
                let detail =
                    "the worker did not answer a question about memory of others (client.deadline)";
                return Poll::Ready(Err(refused(Code::Unanswered, detail)));
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        }));
        drop(turn);
        answer
    }

    /// Handles the worker's answer.
    pub(super) fn on_exchange(&self, inner: &mut Inner, answer: IpcAnswer) {
        inner.exchange.answered(self.now(), answer);
        inner.waiting.drain(..).for_each(Waker::wake);
    }
}
