//! Blocks appended to a JetStream stream: once each, acknowledged, the stream made where it is
//! missing.

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::{Context, stream};
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;

/// What names a block: the stream takes one of a name once.
pub(crate) fn headers(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, id);
    headers
}

/// Appends a block and waits until it is acknowledged.
///
/// # Errors
/// Why it is not, as a text; a missing stream is made by then.
pub(crate) async fn append(
    jetstream: &Context,
    subject: Subject,
    id: &str,
    bytes: Bytes,
    config: impl FnOnce() -> stream::Config,
) -> Result<(), String> {
    let sent = jetstream.publish_with_headers(subject, headers(id), bytes);
    let acknowledged = match sent.await {
        Ok(sent) => sent.await,
        Err(error) => Err(error),
    };
    match acknowledged {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
            create(jetstream, config()).await?;
            Err("the stream was not there: made anew".into())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Makes a stream, if it is not there.
///
/// # Errors
/// Why it cannot be made.
pub(crate) async fn create(jetstream: &Context, config: stream::Config) -> Result<(), String> {
    let created = jetstream.get_or_create_stream(config).await;
    created.map(drop).map_err(|error| error.to_string())
}
