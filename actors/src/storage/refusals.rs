//! Refusals of the broker to open or make a stream or bucket, told apart.

use std::error::Error;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};

/// Whether the broker says that it cannot reserve as many bytes.
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

/// Whether the broker says that it has not as many servers, or not at the moment. Those that lack
/// room count as missing where fewer bytes cannot be asked for (`least`).
pub(super) fn lacks_servers(error: &(dyn Error + 'static), least: bool) -> bool {
    let codes = [
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
    ];
    let missing = refusal(error).is_some_and(|code| codes.contains(&code));
    missing && (least || !lacks_roomy_servers(error))
}

/// Whether the broker has servers enough, but not with so much room: its text alone says so.
fn lacks_roomy_servers(error: &(dyn Error + 'static)) -> bool {
    refusal(error) == Some(ErrorCode::CLUSTER_NO_PEERS)
        && text(error).contains("insufficient storage")
}

/// Whether the broker says that there is no such stream.
pub(crate) fn is_missing(error: &(dyn Error + 'static)) -> bool {
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

/// What the broker answered, if it did.
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

/// An error with what caused it.
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
