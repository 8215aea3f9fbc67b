//! The progress of a session, and the wait for its end.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use bus_schemas::{Failure, OpNumber};
use client_agent_core::Nanos;

use super::outbound::SessionChannel;
use crate::caller::caller;
use crate::error::ClientError;
use crate::wait::block_until;

impl SessionChannel {
    /// The op pushed last.
    #[must_use]
    pub fn last(&self) -> OpNumber {
        self.lock().outbox.last()
    }

    /// Bytes that the connection has sent so far.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.client.statistics().out_bytes.load(Ordering::Relaxed)
    }

    /// The last op up to which all have reached the worker, as far as it has reported.
    #[must_use]
    pub fn received(&self) -> OpNumber {
        self.lock().outbox.received()
    }

    /// The last op up to which all have been announced to the leader, as far as it has reported.
    #[must_use]
    pub fn queued(&self) -> OpNumber {
        self.lock().outbox.queued()
    }

    /// The last op up to which all are done, as far as the worker has reported.
    #[must_use]
    pub fn done(&self) -> OpNumber {
        self.lock().outbox.done()
    }

    /// Sets the program's span, as a W3C `traceparent`, that is the parent of later requests of threads without
    /// their own ([`crate::set_traceparent`]). It counts if the cluster traces.
    pub fn set_trace(&self, traceparent: Option<&str>) {
        let parent = traceparent.and_then(|text| text.parse().ok());
        if let Some(requests) = &mut self.lock().requests {
            requests.set_parent(parent);
        }
    }

    /// Notes that the calling thread waited for its ops through `op`, which were known to be done.
    pub(crate) fn settled(&self, op: OpNumber) {
        if !self.opened.traced {
            return;
        }
        let mut inner = self.lock();
        let now = self.now();
        if let Some(requests) = &mut inner.requests {
            requests.settled(caller().thread, op, now);
            let next = requests.next_wakeup();
            self.wake_at(&mut inner, next);
        }
    }

    /// Notes that op `op` of the calling thread loads a module, which it gave to the worker since `at`.
    pub(crate) fn loaded(&self, op: OpNumber, at: Nanos) {
        if !self.opened.traced {
            return;
        }
        if let Some(requests) = &mut self.lock().requests {
            requests.loaded(caller().thread, op, at);
        }
    }

    /// Notes that a call of the calling thread failed with an error that the program may handle. Its request tells the
    /// error; one that ended the session is told anyway.
    #[cold]
    pub fn note_error(&self, error: &ClientError) {
        let ClientError::Refused(failure) = error else {
            return;
        };
        if !self.opened.traced {
            return;
        }
        let mut inner = self.lock();
        let now = self.now();
        if let Some(requests) = &mut inner.requests {
            requests.call_failed(caller().thread, failure, now);
        }
    }

    /// Reports the requests that have no answer yet: the program ends, and does not wait for the session's end any
    /// longer.
    pub fn report_rest(&self) {
        let mut inner = self.lock();
        if !inner.ended {
            self.end_requests(&mut inner, None);
        }
    }

    /// Runs a future of this channel on the calling thread, which drives the connection meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.driver.wait(future)
    }

    /// Waits for the session's end.
    pub fn ended(&self) -> impl Future<Output = ()> {
        std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if inner.ended {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Blocks until the session's end, for at most `timeout`; returns true if it has ended.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        self.driver.kick();
        block_until(self.ended(), Instant::now() + timeout).is_some()
    }

    /// The reason why the session can run no more, if it cannot.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.lock().over.clone()
    }

    /// Takes the output of kernels since the last sync that returned, once the session has failed.
    #[must_use]
    pub fn take_printed(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().printed)
    }

    /// True if the session has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.lock().ended
    }
}
