//! Waiting for an op's answer.

use std::pin::Pin;
use std::task::Context;

use super::*;

/// The answer to one op: the bytes of a copy to the host, nothing for a sync. Dropping it forgets
/// the answer.
#[derive(Debug)]
pub struct Answer<'a> {
    pub(crate) line: &'a Line,
    pub(crate) op: OpNumber,
}

impl Future for Answer<'_> {
    type Output = Result<Vec<u8>, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.line.lock();
        let over = inner.over.clone();
        match inner.slots.get_mut(&self.op) {
            Some(Slot::Done(bytes)) => Poll::Ready(Ok(std::mem::take(bytes))),
            Some(Slot::Waiting(waker)) => match over {
                Some(failure) => Poll::Ready(Err(ClientError::Session(failure))),
                None => {
                    *waker = Some(context.waker().clone());
                    // On a foreign executor nobody else may be driving.
                    self.line.driver.kick();
                    Poll::Pending
                }
            },
            None => Poll::Ready(Err(ClientError::closed())),
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.line.lock().slots.remove(&self.op);
    }
}
