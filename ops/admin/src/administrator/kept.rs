//! Streams and buckets of the broker. Each is either found, or the broker says that it does not
//! exist. Any other answer is an error, never taken for an empty stream or bucket.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, anyhow};
use async_nats::jetstream;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind, Stream};
use storage::{Storage, Stored};
use tokio::time::timeout;

use super::Administrator;
use super::retries::{Failed, again};
use crate::errors::{ErrorCode, Unreachable};

/// Name of stored data for error messages, with the error code for a refusal by the broker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) what: &'static str,
    pub(crate) code: ErrorCode,
}

impl Kept {
    /// Converts an error of the broker: [`Unreachable`] unless the broker answered.
    pub(crate) fn failed<E: Error + 'static>(self, error: E) -> anyhow::Error {
        let Self { what, code } = self;
        match refused(&error) {
            true => anyhow!(code.failed(format!("the broker does not hand out {what}: {error}"))),
            false => self.silent(error),
        }
    }

    /// Makes a request, and waits for its answer no longer than this.
    async fn attempt<T, E: Error + 'static>(
        self,
        wait: Duration,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failed> {
        match timeout(wait, request).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) if refused(&error) => Err(Failed::Refused(self.failed(error))),
            Ok(Err(error)) => Err(Failed::Unanswered(self.silence(&error))),
            Err(late) => Err(Failed::Unanswered(self.silence(&late))),
        }
    }

    /// The error of a broker that does not answer, or that stopped answering.
    pub(crate) fn silent(self, why: impl Display) -> anyhow::Error {
        anyhow!(Unreachable(self.silence(&why)))
    }

    fn silence(self, why: &dyn Display) -> String {
        let what = self.what;
        format!("the broker does not answer a request for {what} ({why})")
    }
}

/// True if the broker answered, and not only that it cannot tell at the moment.
fn refused(error: &(dyn Error + 'static)) -> bool {
    let refusal = |answer: &jetstream::Error| answer.code() != 503;
    let mut cause = Some(error);
    while let Some(this) = cause {
        if let Some(answer) = this.downcast_ref() {
            return refusal(answer);
        }
        let stream = this.downcast_ref().map(GetStreamError::kind);
        if let Some(GetStreamErrorKind::JetStream(answer)) = &stream {
            return refusal(answer);
        }
        let consumer = this.downcast_ref().map(ConsumerError::kind);
        if let Some(ConsumerErrorKind::JetStream(answer)) = &consumer {
            return refusal(answer);
        }
        cause = this.source();
    }
    false
}

/// Timeout of the first request for a stream or a bucket; doubled with each retry.
const ANSWER: Duration = Duration::from_secs(5);

impl Administrator {
    /// A stream; `None` if the broker says that it does not exist. Retries until the patience ends.
    pub(crate) async fn stream(&self, stored: Stored, kept: Kept) -> Result<Option<Stream>> {
        let storage = &Storage::new(self.jetstream(), self.subjects());
        let ask = |wait| kept.attempt(wait, storage.find_stream(stored));
        again(self.patience(), ANSWER, ask).await
    }

    /// A bucket; `None` if the broker says that it does not exist. Retries until the patience ends.
    pub(crate) async fn bucket_of(&self, stored: Stored, kept: Kept) -> Result<Option<Store>> {
        let storage = &Storage::new(self.jetstream(), self.subjects());
        let ask = |wait| kept.attempt(wait, storage.find_bucket(stored));
        again(self.patience(), ANSWER, ask).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::{Class, class};

    const KEPT: Kept = Kept {
        what: "the usage blocks",
        code: ErrorCode::Accounts,
    };

    fn answer(code: u16) -> jetstream::Error {
        let said = format!(r#"{{"code":{code},"err_code":10000,"description":"no"}}"#);
        serde_json::from_str(&said).unwrap()
    }

    #[test]
    fn silence_is_told_from_a_refusal() {
        let stream = GetStreamErrorKind::JetStream;
        for (error, expected) in [
            (GetStreamErrorKind::Request, Class::Unreachable),
            (stream(answer(503)), Class::Unreachable),
            (stream(answer(400)), Class::Failed),
        ] {
            let error = KEPT.failed(GetStreamError::new(error));
            assert_eq!(class(&error), expected, "{error:#}");
        }
        let refused = ConsumerErrorKind::JetStream(answer(403));
        let refused = jetstream::kv::WatchError::with_source(
            jetstream::kv::WatchErrorKind::Other,
            ConsumerError::new(refused),
        );
        let error = KEPT.failed(refused);
        assert_eq!(class(&error), Class::Failed);
        assert!(error.to_string().starts_with("E-ACCOUNTS"), "{error:#}");
    }
}
