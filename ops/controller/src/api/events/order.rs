//! Positions of the order, as they end.

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

/// Positions that are written at once at most.
const BATCH: usize = 512;
/// What whoever reads too slowly is told last.
const GONE: &[u8] = b"event: gone\ndata: {\"code\":\"E-API-GONE\"}\n\n";

/// Which positions are told.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Watch {
    /// Of this tenant only.
    tenant: Option<String>,
    /// Of this device only.
    gpu: Option<u32>,
    /// Whether to tell, too, how far standing grants have run that have not ended.
    #[serde(default)]
    standing: bool,
}

/// How far standing grants have run, and how somebody is told.
struct Standing {
    grants: watch::Receiver<Arc<Vec<Position>>>,
    /// Whether any was told last.
    any: bool,
}

impl Standing {
    /// The event of what is news; none where there is none.
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
        // Numbers and short texts always have a form in JSON.
        let data = serde_json::to_string(&seen).unwrap_or_default();
        Some(format!("event: standing\ndata: {data}\n\n").into())
    }

    /// Waits for news, which goes on being news.
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
    /// The number that is told next.
    next: u64,
    /// The place of the last that was not told, for it is none of those wanted.
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
            // Seen before the rows are read: what comes meanwhile is news.
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
    /// A word where nothing is told: whoever goes on from here misses none of theirs.
    fn silence(&mut self) -> Bytes {
        match self.passed.take() {
            Some(at) => format!("id: {at}\n\n").into(),
            None => Bytes::from_static(b": still here\n\n"),
        }
    }
}

/// Positions of the order as they end: `event: position`, with `EPOCH.POSITION` as id and what
/// `GET /api/v1/order` lists as data. `Last-Event-ID` goes on behind a position, and nothing is missed or
/// told twice; without it, what ends from now on is told. With `standing=true` there is `event: standing`
/// too, at most four times a second: all standing grants that have not ended, each as a position is listed,
/// as far as it has run; its own place comes with its end, `id` is the newest of its worker until then. The event
/// has no id, and is told anew to whoever goes on.
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
