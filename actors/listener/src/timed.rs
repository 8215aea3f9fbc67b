//! A stream that gives up writes without progress.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::activity::Activity;

/// The stream of a connection that has a place.
#[derive(Debug)]
pub struct Timed<S> {
    stream: S,
    activity: Arc<Activity>,
    began: Instant,
    patience: Duration,
    /// Time by which the pending write must make progress.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(
        stream: S,
        activity: Arc<Activity>,
        began: Instant,
        patience: Duration,
    ) -> Self {
        Self {
            stream,
            activity,
            began,
            patience,
            deadline: None,
        }
    }

    /// Handles the result of a write: a ready one has made progress, a pending one has time until
    /// its deadline.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            self.activity.set_blocked(false);
            self.activity.moved(self.began.elapsed());
            return written;
        }
        self.activity.set_blocked(true);
        let patience = self.patience;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match deadline.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the other end has taken nothing for {patience:?}"),
            ))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_ready() {
            this.activity.moved(this.began.elapsed());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has no buffer of its own to flush.
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(context);
        this.written(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::places::{Bounds, ConnectionPlace, Places};

    fn place(write: Duration) -> ConnectionPlace {
        let bounds = Bounds {
            connections: 1,
            share: 1,
            write,
        };
        let places = Places::new(bounds);
        places.admit([127, 0, 0, 1].into()).expect("a place")
    }

    #[tokio::test]
    async fn a_write_that_makes_no_progress_ends() {
        let (own, _other) = duplex(16);
        let place = place(Duration::from_millis(5));
        let ended = place.timed(own).write_all(&[0; 17]).await;
        let ended = ended.expect_err("it is given up");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_reader_that_goes_on_has_the_whole_time_again() {
        let (own, mut other) = duplex(16);
        let place = place(Duration::from_secs(3_600));
        let mut own = place.timed(own);
        own.write_all(&[0; 16]).await.expect("there is room");
        for _ in 0..3 {
            let mut context = Context::from_waker(Waker::noop());
            let written = Pin::new(&mut own).poll_write(&mut context, &[0; 16]);
            assert!(written.is_pending() && own.deadline.is_some());
            other.read_exact(&mut [0; 16]).await.expect("bytes");
            own.write_all(&[0; 16]).await.expect("there is room again");
            assert!(own.deadline.is_none());
        }
    }
}
