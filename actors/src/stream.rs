//! Appends blocks to a JetStream stream: each once, with an acknowledgement; creates a missing
//! stream.

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;

use storage::{Storage, Stored};

/// Returns the headers that identify a block: the stream accepts one message per id.
pub(crate) fn headers(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, id);
    headers
}

/// Appends a block and waits for the acknowledgement.
///
/// # Errors
/// The reason that it is not stored, as a text; a missing stream has been created by then.
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
        // A server with a failed disk does not answer.
        Err(error) if error.kind() == PublishErrorKind::TimedOut => {
            Err("the broker does not store it: its disk may be full, read-only or gone".into())
        }
        Err(error) => Err(error.to_string()),
    }
}
