//! A stream of events: bounded in number, never silent for long, and at an end when the controller stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;
use warploom_cli::calendar::now_ms;

use crate::access::{Identity, Share};
use crate::cluster::{Shared, full_of};
use crate::problem::Problem;

/// How long a stream is silent at most: what lies between may forget a silent connection.
const SILENCE: Duration = Duration::from_secs(15);
/// The header by which whoever was cut off goes on.
const LAST: &str = "last-event-id";

/// How often is looked whether whoever listens may still do so.
const LOOK: Duration = Duration::from_secs(5);

/// A stream's place among those that there may be, and who has it.
pub(super) struct StreamSlot {
    cluster: Shared,
    identity: Identity,
    looked: Instant,
    _share: Share,
    stopping: watch::Receiver<bool>,
    begun: bool,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is news.
    News,
    /// It was silent for long.
    Silence,
    /// It is over.
    End,
}

impl StreamSlot {
    /// Takes a place.
    ///
    /// # Errors
    /// Where all are taken, or the login has its share.
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

    /// Who listens.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether they may still listen: a token that was revoked, or a login that ended, hears no more.
    async fn may_listen(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return true;
        }
        self.looked = Instant::now();
        let stands = self.cluster.access.stands(&self.identity).await;
        // Where the broker does not say, they are asked again soon.
        stands.unwrap_or(true) && now_ms() < self.identity.expires_ms
    }

    /// Waits for news, which is false where none will come any more.
    pub(super) async fn wait(&mut self, news: impl Future<Output = bool> + Send) -> Woken {
        let stopping = async {
            // Whoever tells lives as long as the process.
            let _ = self.stopping.wait_for(|stopping| *stopping).await;
        };
        tokio::select! {
            () = stopping => Woken::End,
            comes = news => if comes { Woken::News } else { Woken::End },
            () = tokio::time::sleep(SILENCE) => Woken::Silence,
        }
    }

    /// A first word, once: whoever listens knows then that the stream is there.
    pub(super) fn greeting(&mut self) -> Option<Bytes> {
        let first = !std::mem::replace(&mut self.begun, true);
        first.then(|| Bytes::from_static(b"retry: 1000\n: ok\n\n"))
    }
}

/// Where events come from.
pub(super) trait Source: Send + 'static {
    /// Its place.
    fn slot(&mut self) -> &mut StreamSlot;

    /// The next of them, rendered; none where it is over.
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

/// Where whoever was cut off goes on; none where they begin.
///
/// # Errors
/// Where the header is none that was told by us.
pub(super) fn last<T: std::str::FromStr>(headers: &HeaderMap) -> Result<Option<T>, Problem> {
    let text = headers.get(LAST).map(|text| text.to_str().unwrap_or("?"));
    let text = text.filter(|text| !text.is_empty());
    let last = text.map(str::parse).transpose();
    last.map_err(|_| Problem::malformed("Last-Event-ID is none that these events have"))
}
