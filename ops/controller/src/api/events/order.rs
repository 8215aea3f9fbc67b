//! Events for positions of the order, sent as they end.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::watch;
use utoipa::IntoParams;

use super::stream::{Source, StreamSlot, Woken, last, respond};
use crate::access::Identity;
use crate::api::order::{Only, only};
use crate::cluster::Shared;
use crate::feed::Follower;
use crate::http::extract::{QueryParams, Who};
use crate::position::{At, Position};
use crate::problem::Problem;

/// Maximum number of positions per write.
const BATCH: usize = 512;
/// Last event to a client that reads too slowly.
const GONE: &[u8] = b"event: gone\ndata: {\"code\":\"E-API-GONE\"}\n\n";

/// Filter of the positions to send.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Watch {
    /// Only this tenant.
    tenant: Option<String>,
    /// Only this device.
    gpu: Option<u32>,
    /// Also send the progress of standing grants that have not ended.
    #[serde(default)]
    standing: bool,
}

/// Progress of standing grants, and the state of its notification.
struct Standing {
    grants: watch::Receiver<Arc<Vec<Position>>>,
    /// True if the last event listed any standing grant.
    any: bool,
}

impl Standing {
    /// Returns the event of new progress; `None` if there is nothing new.
    fn event(&mut self, only: &Only, who: &Identity) -> Option<Bytes> {
        if !self.grants.has_changed().unwrap_or(false) {
            return None;
        }
        let grants = self.grants.borrow_and_update().clone();
        let seen = grants.iter().filter(|it| only.has(it));
        let seen: Vec<Position> = seen.map(|it| it.clone().seen_by(who)).collect();
        let any = !seen.is_empty();
        if !std::mem::replace(&mut self.any, any) && !any {
            return None;
        }
        // Serializing numbers and short texts to JSON cannot fail.
        let data = serde_json::to_string(&seen).unwrap_or_default();
        Some(format!("event: standing\ndata: {data}\n\n").into())
    }

    /// Waits for new progress and leaves it marked as unseen.
    async fn changed(standing: Option<&mut Self>) -> bool {
        let Some(Self { grants, .. }) = standing else {
            return std::future::pending().await;
        };
        let told = grants.changed().await.is_ok();
        grants.mark_changed();
        told
    }
}

struct Positions {
    slot: StreamSlot,
    follower: Follower,
    news: watch::Receiver<u64>,
    standing: Option<Standing>,
    only: Only,
    /// The number of the next position to send.
    next: u64,
    /// The last position that was skipped because the filter excludes it.
    passed: Option<At>,
    over: bool,
}

impl Source for Positions {
    fn slot(&mut self) -> &mut StreamSlot {
        &mut self.slot
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.slot.greeting() {
            return Some(greeting);
        }
        while !self.over {
            // Marked before the rows are read: anything that arrives meanwhile counts as news.
            self.news.mark_unchanged();
            let Some(rows) = self.follower.from(self.next, BATCH) else {
                self.over = true;
                return Some(Bytes::from_static(GONE));
            };
            self.next += rows.len() as u64;
            let (wanted, others): (Vec<_>, Vec<_>) = rows
                .into_iter()
                .partition(|told| self.only.has(&told.position));
            if let Some(last) = others.last() {
                self.passed = Some(last.at);
            }
            match &wanted[..] {
                [] if others.is_empty() => {
                    let standing = self.standing.as_mut();
                    let who = self.slot.identity();
                    if let Some(event) = standing.and_then(|it| it.event(&self.only, who)) {
                        return Some(event);
                    }
                    let news = async {
                        tokio::select! {
                            told = self.news.changed() => told.is_ok(),
                            told = Standing::changed(self.standing.as_mut()) => told,
                        }
                    };
                    match self.slot.wait(news).await {
                        Woken::News => {}
                        Woken::Silence => return Some(self.silence()),
                        Woken::End => return None,
                    }
                }
                [] => {}
                [told] => return Some(told.event(self.slot.identity())),
                several => {
                    let who = self.slot.identity();
                    let events: Vec<Bytes> = several.iter().map(|told| told.event(who)).collect();
                    return Some(events.concat().into());
                }
            }
        }
        None
    }
}

impl Positions {
    /// A keep-alive. A client that resumes from its id misses no position of its filter.
    fn silence(&mut self) -> Bytes {
        match self.passed.take() {
            Some(at) => format!("id: {at}\n\n").into(),
            None => Bytes::from_static(b": still here\n\n"),
        }
    }
}

/// Streams positions of the order as they end: `event: position`, with `EPOCH.POSITION` as id and
/// an item of `GET /api/v1/order` as data. `Last-Event-ID` resumes after a position; no position is
/// missed or sent twice. Without it, the stream starts with the next position that ends. With
/// `standing=true` the stream also has `event: standing`, at most four times a second. It lists all
/// standing grants that have not ended, each as a position with its progress so far. Its final
/// place is known at its end; until then `id` is the newest of its worker. The event has no id and
/// is sent again to a client that resumes.
#[utoipa::path(get, path = "/api/v1/events/order", tag = "events", params(Watch,
    ("Last-Event-ID" = Option<String>, Header, description = "the id of the last event that was had")),
    extensions(("x-operation" = json!("events.read"))),
    responses((status = 200, description = "events", body = String, content_type = "text/event-stream"),
        (status = 410, description = "what came behind is not kept any more",
            body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn order_events(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(watch): QueryParams<Watch>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let only = only(&who, watch.tenant.as_deref(), watch.gpu)?;
    let (last, slot) = (last::<At>(&headers)?, StreamSlot::take(&cluster, who.0)?);
    let follower = cluster.order.begin(&cluster.administrator).await;
    let next = match last {
        Some(at) => follower.behind(at).ok_or_else(|| {
            let oldest = follower.all().rows.first().map(|told| told.at.to_string());
            Problem::gone(oldest)
        })?,
        None => follower.end(),
    };
    let standing = watch.standing.then(|| {
        let mut grants = follower.standing();
        grants.mark_changed();
        Standing { grants, any: false }
    });
    Ok(respond(Positions {
        slot,
        news: follower.news(),
        standing,
        follower,
        only,
        next,
        passed: None,
        over: false,
    }))
}
