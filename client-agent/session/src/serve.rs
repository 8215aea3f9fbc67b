//! The task of one session beside the connection: it receives messages, and runs the session's
//! timer.

use std::sync::Arc;

use async_nats::Subscriber;
use bus_schemas::subject::Subjects;
use client_agent_core::Nanos;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

use crate::channel::SessionChannel;

/// Time limit for the connection to accept a message.
const STUCK: Duration = Duration::from_millis(200);

/// Ends a channel when its session is no longer served, for any reason.
struct Served(Arc<SessionChannel>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Serves a channel until its session has ended or the connection is closed for good.
pub async fn serve(channel: Arc<SessionChannel>, subjects: Subjects, mut messages: Subscriber) {
    let served = Served(channel);
    let channel = &served.0;
    let timer = sleep_until(Instant::now());
    tokio::pin!(timer);
    let mut due = None;
    while !channel.is_ended() {
        tokio::select! {
            biased;
            message = messages.next() => {
                let Some(message) = message else { return };
                // A message with a status is the broker's report that there is no receiver, not a
                // message to us.
                if let Some((session, what)) = subjects.parse_client(&message.subject)
                    && session == channel.opened().session
                    && message.status.is_none()
                {
                    channel.receive(what, &message.payload);
                }
                continue;
            }
            () = channel.woken() => {}
            () = &mut timer, if due.is_some() => {}
        }
        publish_kept(channel).await;
        due = channel.tick();
        if let Some(due) = due {
            timer.as_mut().reset(Instant::now() + until(channel, due));
        }
    }
    // The report of its last requests may be behind others.
    publish_kept(channel).await;
}

/// Publishes the messages of the backlog. Without a connection none is accepted, and the timer must go on. The message
/// is lost then: the outbox resends those that are not acknowledged.
async fn publish_kept(channel: &SessionChannel) {
    while let Some(message) = channel.next_kept() {
        let published = message.publish(channel.client());
        if tokio::time::timeout(STUCK, published).await.is_err() {
            return;
        }
    }
}

fn until(channel: &SessionChannel, due: Nanos) -> Duration {
    Duration::from_nanos(due.saturating_sub(channel.now()))
}
