//! The answers to ops, and the worker's verdict on an image.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bus_schemas::OpNumber;
use bytes::Bytes;

use super::outbound::SessionChannel;
use super::state::ImageState;
use crate::error::ClientError;

impl SessionChannel {
    /// The answer to op `op`, which must have one.
    #[must_use]
    pub fn answer(&self, op: OpNumber) -> Answer<'_> {
        Answer { channel: self, op }
    }

    /// The answer to op `op`, a copy to the host of `to.len()` bytes.
    #[must_use]
    pub fn reading<'a>(&'a self, op: OpNumber, to: &'a mut [u8]) -> Reading<'a> {
        Reading {
            answer: self.answer(op),
            to,
        }
    }

    /// Waits for the worker's verdict on the image that was staged as this transfer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the device's log if it cannot run the image; else the
    /// session's failure.
    pub fn image(&self, transfer: u64) -> impl Future<Output = Result<(), ClientError>> {
        std::future::poll_fn(move |context| {
            let mut inner = self.lock();
            let over = inner.over.clone();
            match inner.images.get_mut(&transfer) {
                Some(ImageState::Known(None)) => Poll::Ready(Ok(())),
                Some(ImageState::Known(Some(failure))) => {
                    Poll::Ready(Err(ClientError::Refused(failure.clone())))
                }
                Some(ImageState::Waiting(wakers)) => match over {
                    Some(failure) => Poll::Ready(Err(ClientError::Session(failure))),
                    None => {
                        wakers.push(context.waker().clone());
                        self.driver.kick();
                        Poll::Pending
                    }
                },
                None => Poll::Ready(Err(ClientError::closed())),
            }
        })
    }
}

/// The answer to one op: rows of symbols, or the output of kernels until a sync. Dropping it
/// discards the answer.
#[derive(Debug)]
pub struct Answer<'a> {
    channel: &'a SessionChannel,
    op: OpNumber,
}

/// The received part of an answer.
enum Progress {
    Parts(Vec<(u64, Bytes)>),
    Done(Vec<u8>),
}

impl<'a> Answer<'a> {
    fn poll_progress(&self, context: &mut Context<'_>) -> Poll<Result<Progress, ClientError>> {
        let mut inner = self.channel.lock();
        let over = inner.over.clone();
        let Some(slot) = inner.slots.get_mut(&self.op) else {
            return Poll::Ready(Err(ClientError::closed()));
        };
        if !slot.parts.is_empty() {
            return Poll::Ready(Ok(Progress::Parts(std::mem::take(&mut slot.parts))));
        }
        match (slot.done.take(), over) {
            (Some(bytes), _) => Poll::Ready(Ok(Progress::Done(bytes))),
            (None, Some(failure)) => Poll::Ready(Err(ClientError::Session(failure))),
            (None, None) => {
                slot.waker = Some(context.waker().clone());
                // On a foreign executor, there may be no thread that drives.
                self.channel.driver.kick();
                Poll::Pending
            }
        }
    }
}

impl Future for Answer<'_> {
    type Output = Result<Vec<u8>, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match ready!(self.poll_progress(context)) {
                Ok(Progress::Done(bytes)) => return Poll::Ready(Ok(bytes)),
                Ok(Progress::Parts(_)) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.channel.lock().slots.remove(&self.op);
    }
}

/// The answer to a copy to the host, written to its destination as it arrives.
#[derive(Debug)]
pub struct Reading<'a> {
    answer: Answer<'a>,
    to: &'a mut [u8],
}

impl Future for Reading<'_> {
    type Output = Result<(), ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { answer, to } = self.get_mut();
        loop {
            let parts = match ready!(answer.poll_progress(context)) {
                Ok(Progress::Parts(parts)) => parts,
                Ok(Progress::Done(_)) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            };
            for (offset, bytes) in parts {
                // The outbox has checked that they lie within the copy.
                let start = offset as usize;
                if let Some(to) = to.get_mut(start..start + bytes.len()) {
                    to.copy_from_slice(&bytes);
                }
            }
        }
    }
}
