//! Waiting for what the worker says of an image.

use super::*;

/// What a worker says of an image.
pub(super) enum Verdict {
    Waiting(Vec<Waker>),
    Said(Option<Failure>),
}

impl SessionChannel {
    /// What the worker says of the image that was staged as this transfer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the device's log where it cannot run it; else the session's.
    pub fn image(&self, transfer: u64) -> impl Future<Output = Result<(), ClientError>> {
        std::future::poll_fn(move |context| {
            let mut inner = self.lock();
            let over = inner.over.clone();
            match inner.images.get_mut(&transfer) {
                Some(Verdict::Said(None)) => Poll::Ready(Ok(())),
                Some(Verdict::Said(Some(failure))) => {
                    Poll::Ready(Err(ClientError::Refused(failure.clone())))
                }
                Some(Verdict::Waiting(wakers)) => match over {
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
