//! Blocks appended to a JetStream stream: once each, acknowledged, the stream made where it is
//! missing.

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;

use crate::storage::{Storage, Stored};

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
    storage: &Storage,
    stored: Stored,
    subject: Subject,
    id: &str,
    bytes: Bytes,
) -> Result<(), String> {
    let jetstream = storage.jetstream();
    let sent = jetstream.publish_with_headers(subject, headers(id), bytes);
    let acknowledged = match sent.await {
        Ok(sent) => sent.await,
        Err(error) => Err(error),
    };
    match acknowledged {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
            storage.stream(stored).await?;
            match storage.is_clustered() {
                true => Err("its servers choose who takes it".into()),
                false => Err("the stream was not there: made anew".into()),
            }
        }
        // A server whose disk failed does not answer.
        Err(error) if error.kind() == PublishErrorKind::TimedOut => {
            Err("the broker does not store it: its disk may be full, read-only or gone".into())
        }
        Err(error) => Err(error.to_string()),
    }
}
