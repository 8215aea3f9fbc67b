//! A stream of events: bounded in number, never silent for long, closed when the controller stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::calendar::now_ms;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;

use crate::access::{Identity, Share};
use crate::cluster::{Shared, full_of};
use crate::problem::Problem;

/// Maximum silence of a stream: a proxy between may drop a silent connection.
const SILENCE: Duration = Duration::from_secs(15);
/// The header by which a client resumes.
const LAST: &str = "last-event-id";

/// Interval at which the stream checks that its listener still has access.
const LOOK: Duration = Duration::from_secs(5);

/// One of the bounded number of streams, and its listener.
pub(super) struct StreamSlot {
    cluster: Shared,
    identity: Identity,
    looked: Instant,
    _share: Share,
    stopping: watch::Receiver<bool>,
    begun: bool,
}

/// Reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// News arrived.
    News,
    /// The stream was silent for the maximum time.
    Silence,
    /// The stream is over.
    End,
}

impl StreamSlot {
    /// Takes a slot.
    ///
    /// # Errors
    /// If all slots are taken, or the login has its maximum.
    pub(super) fn take(cluster: &Shared, identity: Identity) -> Result<Self, Problem> {
        let share = cluster.streams.take(&identity.share());
        let share =
            share.map_err(|full| full_of(&cluster.streams, full, "streams of events at a time"))?;
        Ok(Self {
            cluster: Arc::clone(cluster),
            identity,
            looked: Instant::now(),
            _share: share,
            stopping: cluster.stopping.clone(),
            begun: false,
        })
    }

    /// The identity of the listener.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// True if the listener still has access; false after its token was revoked or its login ended.
    async fn may_listen(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return true;
        }
        self.looked = Instant::now();
        let stands = self.cluster.access.stands(&self.identity).await;
        // If the broker does not answer, the stream keeps running and checks again soon.
        stands.unwrap_or(true) && now_ms() < self.identity.expires_ms
    }

    /// Waits for news; `news` yields false if no more will come.
    pub(super) async fn wait(&mut self, news: impl Future<Output = bool> + Send) -> Woken {
        let stopping = async {
            // The sender lives as long as the process.
            let _ = self.stopping.wait_for(|stopping| *stopping).await;
        };
        tokio::select! {
            () = stopping => Woken::End,
            comes = news => if comes { Woken::News } else { Woken::End },
            () = tokio::time::sleep(SILENCE) => Woken::Silence,
        }
    }

    /// The first bytes of the stream, sent once: a retry interval, and a comment that shows the
    /// client that the stream is open.
    pub(super) fn greeting(&mut self) -> Option<Bytes> {
        let first = !std::mem::replace(&mut self.begun, true);
        first.then(|| Bytes::from_static(b"retry: 1000\n: ok\n\n"))
    }
}

/// A source of events.
pub(super) trait Source: Send + 'static {
    /// The slot of the stream.
    fn slot(&mut self) -> &mut StreamSlot;

    /// Returns the next event, rendered; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Answers with a stream of events.
pub(super) fn respond(source: impl Source) -> Response {
    let events = stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        if !source.slot().may_listen().await {
            return None;
        }
        Some((Ok::<_, Infallible>(event), source))
    });
    let kind = HeaderValue::from_static("text/event-stream");
    let mut response = Body::from_stream(events).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Event id after which the client resumes; `None` to start from the beginning.
///
/// # Errors
/// If the header is not an id of this stream.
pub(super) fn last<T: std::str::FromStr>(headers: &HeaderMap) -> Result<Option<T>, Problem> {
    let text = headers.get(LAST).map(|text| text.to_str().unwrap_or("?"));
    let text = text.filter(|text| !text.is_empty());
    let last = text.map(str::parse).transpose();
    last.map_err(|_| Problem::malformed("Last-Event-ID is none that these events have"))
}
