//! Classification of the broker's refusals to open or create a stream or bucket.

use std::error::Error;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};

/// True if the broker cannot reserve that many bytes.
pub(super) fn lacks_room(error: &(dyn Error + 'static)) -> bool {
    let codes = [
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::MEMORY_RESOURCES_EXCEEDED,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
    ];
    refusal(error).is_some_and(|code| codes.contains(&code)) || lacks_roomy_servers(error)
}

/// True if the broker lacks enough servers, permanently or at the moment. With `least`, fewer bytes
/// are no option, so servers without room count as missing.
pub(super) fn lacks_servers(error: &(dyn Error + 'static), least: bool) -> bool {
    let codes = [
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
    ];
    let missing = refusal(error).is_some_and(|code| codes.contains(&code));
    missing && (least || !lacks_roomy_servers(error))
}

/// True if the broker has enough servers, but not with enough room; only its text says so.
fn lacks_roomy_servers(error: &(dyn Error + 'static)) -> bool {
    refusal(error) == Some(ErrorCode::CLUSTER_NO_PEERS)
        && text(error).contains("insufficient storage")
}

/// True if the broker reports that the stream does not exist.
#[must_use]
pub fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(asked) = this.downcast_ref::<GetStreamError>()
            && let GetStreamErrorKind::JetStream(refused) = asked.kind()
        {
            return refused.error_code() == ErrorCode::STREAM_NOT_FOUND;
        }
        error = this.source();
    }
    false
}

/// Returns the error code of the broker's answer, if it answered.
fn refusal(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(made) = this.downcast_ref::<CreateStreamError>()
            && let CreateStreamErrorKind::JetStream(refused) = made.kind()
        {
            return Some(refused.error_code());
        }
        error = this.source();
    }
    None
}

/// Returns an error and its causes as one text.
pub(super) fn text(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(this) = cause {
        let more = this.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = this.source();
    }
    text
}
