//! The messages of a stream, read to the last one, even if some are removed in the meantime.

use std::time::{Duration, Instant};

use anyhow::Result;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;

use super::{Administrator, Kept};
use crate::errors::Unreachable;

/// Timeout of a message, after which the broker is asked for the number of messages left. Doubled
/// each time.
const QUIET: Duration = Duration::from_millis(500);

/// Messages of a stream in order, from a given start.
pub(crate) struct StoredMessages {
    stream: Stream,
    config: pull::OrderedConfig,
    kept: Kept,
    stall: Duration,
    messages: pull::Ordered,
    /// Messages that the broker had after the last one read.
    left: u64,
}

impl StoredMessages {
    /// Opens a stream with this configuration.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub(crate) async fn open(
        administrator: &Administrator,
        stream: Stream,
        config: pull::OrderedConfig,
        kept: Kept,
    ) -> Result<Self> {
        let (left, messages) = consume(&stream, &config, kept).await?;
        Ok(Self {
            stream,
            config,
            kept,
            stall: administrator.stall(),
            messages,
            left,
        })
    }

    /// The messages, including those still to come.
    pub(crate) fn live(self) -> pull::Ordered {
        self.messages
    }

    /// The next message; `None` after the last. A message that was removed before it was read never
    /// comes, and the broker does not say so. After a silence the broker is therefore asked for the
    /// number of messages left.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker stops answering, or has messages and sends none.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>> {
        let (asked, mut quiet) = (Instant::now(), QUIET);
        while self.left > 0 {
            let wait = quiet.min(self.stall);
            let Ok(next) = tokio::time::timeout(wait, self.messages.next()).await else {
                if asked.elapsed() >= self.stall {
                    return Err(self.kept.silent("the stream stalls"));
                }
                quiet *= 2;
                match consume(&self.stream, &self.config, self.kept).await {
                    Ok(opened) => (self.left, self.messages) = opened,
                    // Servers that elect a leader cannot tell yet.
                    Err(error) if error.is::<Unreachable>() => {}
                    Err(error) => return Err(error),
                }
                continue;
            };
            let message = next.ok_or_else(|| self.kept.silent("the stream ends early"))?;
            let message = message.map_err(|error| self.kept.failed(error))?;
            let code = self.kept.code;
            let info = message.info();
            let info = info.map_err(|error| code.failed(error))?;
            self.left = info.pending;
            self.config.deliver_policy = DeliverPolicy::ByStartSequence {
                start_sequence: info.stream_sequence + 1,
            };
            return Ok(Some(message));
        }
        Ok(None)
    }
}

/// A consumer, with the number of messages that the broker has for it.
async fn consume(
    stream: &Stream,
    config: &pull::OrderedConfig,
    kept: Kept,
) -> Result<(u64, pull::Ordered)> {
    let consumer = stream.create_consumer(config.clone()).await;
    let consumer = consumer.map_err(|error| kept.failed(error))?;
    let left = consumer.cached_info().num_pending;
    let messages = consumer.messages().await;
    let messages = messages.map_err(|error| kept.failed(error))?;
    Ok((left, messages))
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::stream;
    use test_cluster::TestBroker;

    use super::*;
    use crate::errors::ErrorCode;

    const KEPT: Kept = Kept {
        what: "the messages",
        code: ErrorCode::Accounts,
    };

    /// A stream with ten messages on one subject.
    async fn ten(administrator: &Administrator, subject: &str) -> (Stream, StoredMessages) {
        let jetstream = administrator.jetstream();
        let made = jetstream.create_stream(stream::Config {
            name: "ten".into(),
            subjects: vec![subject.into()],
            max_bytes: 1 << 20,
            ..Default::default()
        });
        let stream = made.await.expect("made");
        for number in 0..10_u8 {
            let sent = jetstream.publish(subject.to_owned(), vec![number].into());
            sent.await.expect("sent").await.expect("stored");
        }
        let config = pull::OrderedConfig {
            filter_subject: subject.into(),
            ..Default::default()
        };
        let opened = StoredMessages::open(administrator, stream.clone(), config, KEPT).await;
        (stream, opened.expect("there"))
    }

    async fn rest(messages: &mut StoredMessages) -> Vec<u8> {
        let mut read = Vec::new();
        while let Some(message) = messages.next().await.expect("read") {
            read.push(message.payload[0]);
        }
        read
    }

    #[tokio::test]
    async fn messages_that_are_removed_while_they_are_read_are_not_waited_for() {
        let broker = TestBroker::start();
        let login = broker.credentials();
        let administrator = Administrator::patient(login, Duration::from_secs(60)).await;
        let administrator = administrator.expect("it answers");
        let subject = administrator.subjects().usage_days();

        let (stream, mut messages) = ten(&administrator, &subject).await;
        assert_eq!(rest(&mut messages).await.len(), 10);
        stream.purge().await.expect("purged");
        // Simulates more messages, none of which is on its way yet.
        messages.left = 5;
        let before = Instant::now();
        assert!(rest(&mut messages).await.is_empty());
        assert!(before.elapsed() < administrator.stall(), "it asked");
    }

    #[tokio::test]
    async fn a_broker_that_is_away_is_waited_for() {
        let mut broker = TestBroker::start();
        let login = broker.credentials();
        let administrator = Administrator::patient(login, Duration::from_secs(1)).await;
        let administrator = administrator.expect("it answers");
        let subject = administrator.subjects().usage_days();

        let (_, mut messages) = ten(&administrator, &subject).await;
        assert_eq!(rest(&mut messages).await.len(), 10);
        messages.left = 5;
        broker.kill().expect("it dies");
        let before = Instant::now();
        let error = messages.next().await.expect_err("nothing answers");
        assert!(error.is::<Unreachable>(), "{error:#}");
        let waited = before.elapsed();
        assert!(waited >= administrator.stall(), "{waited:?}: {error:#}");
    }

    #[tokio::test]
    async fn all_that_stay_are_read_once() {
        let broker = TestBroker::start();
        let login = broker.credentials();
        let administrator = Administrator::patient(login, Duration::from_secs(60)).await;
        let administrator = administrator.expect("it answers");
        let subject = administrator.subjects().usage_days();

        let (_, mut messages) = ten(&administrator, &subject).await;
        let mut read = Vec::new();
        // Opens a new consumer after each message, as after a silence.
        while let Some(message) = messages.next().await.expect("read") {
            read.push(message.payload[0]);
            let opened = consume(&messages.stream, &messages.config, KEPT).await;
            (messages.left, messages.messages) = opened.expect("asked anew");
        }
        assert_eq!(read, (0..10).collect::<Vec<u8>>());
    }
}
