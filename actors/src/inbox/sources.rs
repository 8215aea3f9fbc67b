//! Several subscriptions that are read as one.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_nats::{Message, Subscriber};
use bus_schemas::Tenant;
use futures_util::stream::{SelectAll, Stream, StreamExt};

/// A subscription to one tenant's messages or to those of all.
pub(super) struct Source {
    pub(super) tenant: Option<Tenant>,
    pub(super) subscriber: Subscriber,
}

impl Stream for Source {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.subscriber.poll_next_unpin(cx)
    }
}

/// The subscription to all tenants' messages, or one per tenant.
#[derive(Default)]
pub(super) struct Sources {
    all: Option<Source>,
    each: SelectAll<Source>,
}

impl Sources {
    pub(super) fn push(&mut self, source: Source) {
        match source.tenant {
            None => self.all = Some(source),
            Some(_) => self.each.push(source),
        }
    }

    /// Ends the subscription to a tenant's messages, and drops those already received.
    pub(super) fn drop_tenant(&mut self, tenant: &Tenant) {
        let each = std::mem::take(&mut self.each);
        let others = each.into_iter();
        self.each = others
            .filter(|it| it.tenant.as_ref() != Some(tenant))
            .collect();
    }

    /// Returns the tenants that have a subscription of their own.
    pub(super) fn tenants(&self) -> BTreeSet<Tenant> {
        let each = self.each.iter();
        each.filter_map(|it| it.tenant.clone()).collect()
    }

    /// Ends all subscriptions; messages already received are kept.
    pub(super) async fn end(self) -> Self {
        let mut ended = Self::default();
        for mut source in self.each.into_iter().chain(self.all) {
            // This fails if the connection is closed for good.
            let _ = source.subscriber.unsubscribe().await;
            ended.push(source);
        }
        ended
    }

    /// Polls for the next message; `None` if every subscription has ended, or none exists.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let all = self
            .all
            .as_mut()
            .map(|it| it.subscriber.poll_next_unpin(cx));
        if let Some(Poll::Ready(Some(message))) = all {
            return Poll::Ready(Some(message));
        }
        if let Some(Poll::Ready(None)) = all {
            self.all = None;
        }
        match self.each.poll_next_unpin(cx) {
            Poll::Ready(None) if self.all.is_some() => Poll::Pending,
            polled => polled,
        }
    }
}
