//! Events for changes of tenants, settings and profiles.

use std::collections::VecDeque;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bus_schemas::TenantSettings;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::stream::{Source, StreamSlot, Woken, last, respond};
use crate::access::{Identity, Operation, Scope};
use crate::api::tenants::TenantSettingsModel;
use crate::cluster::Shared;
use crate::http::extract::Who;
use crate::problem::Problem;
use crate::view::{Row, View};

struct Changes {
    slot: StreamSlot,
    view: View,
    news: watch::Receiver<u64>,
    /// Everything up to this revision was sent.
    told: u64,
    ready: VecDeque<Bytes>,
}

impl Source for Changes {
    fn slot(&mut self) -> &mut StreamSlot {
        &mut self.slot
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.slot.greeting() {
            return Some(greeting);
        }
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.news.mark_unchanged();
            // The view does not forget what this stream was sent without announcing a change.
            let rows = self.view.since(self.told)?;
            for (key, row) in rows {
                self.told = row.revision;
                self.ready.extend(event(self.slot.identity(), &key, &row));
            }
            if self.ready.is_empty() {
                let news = async { self.news.changed().await.is_ok() };
                match self.slot.wait(news).await {
                    Woken::News => {}
                    Woken::Silence => return Some(format!("id: {}\n\n", self.told).into()),
                    Woken::End => return None,
                }
            }
        }
    }
}

/// The event of a key, if the caller may see it.
fn event(identity: &Identity, key: &str, row: &Row) -> Option<Bytes> {
    let value = row.value.as_ref();
    let value = value.and_then(|value| serde_json::from_slice::<Value>(value).ok());
    let all = identity.scope(Operation::SettingsRead) == Scope::All;
    let (name, data) = match key.split_once('.') {
        Some(("tenant", name)) => {
            let tenant = name.parse().ok()?;
            if !identity.sees(&tenant) {
                return None;
            }
            let settings = row.value.as_ref();
            let settings =
                settings.and_then(|it| serde_json::from_slice::<TenantSettings>(it).ok());
            let settings = settings.as_ref().map(TenantSettingsModel::from);
            ("tenant", json!({"name": name, "settings": settings}))
        }
        _ if !all => return None,
        None if key == "settings" => ("settings", json!({"set": value})),
        None if key == "pin" => {
            let hash = value.as_ref().and_then(|value| value.get("hash")).cloned();
            ("pin", json!({ "hash": hash }))
        }
        None if key == "profile" => {
            let of = |field: &str| value.as_ref().and_then(|value| value.get(field)).cloned();
            let data = json!({"hash": of("hash"), "version": of("version"), "epoch": of("epoch")});
            ("profile", data)
        }
        // State that a leader keeps for its successor.
        _ => return None,
    };
    let revision = row.revision;
    Some(format!("id: {revision}\nevent: {name}\ndata: {data}\n\n").into())
}

/// Streams changes of tenants, settings and profiles: `event: tenant`, `settings`, `profile` or
/// `pin`, with the bucket's revision as id. Without `Last-Event-ID` the stream begins with
/// everything that exists. With it, the stream begins with everything that changed after that
/// revision, in its current state.
#[utoipa::path(get, path = "/api/v1/events/state", tag = "events", params(
    ("Last-Event-ID" = Option<u64>, Header, description = "the id of the last event that was had")),
    extensions(("x-operation" = json!("events.read"))),
    responses((status = 200, description = "events", body = String, content_type = "text/event-stream"),
        (status = 410, description = "what changed behind is not known any more",
            body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn state_events(
    State(cluster): State<Shared>,
    who: Who,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (told, slot) = (
        last::<u64>(&headers)?.unwrap_or(0),
        StreamSlot::take(&cluster, who.0)?,
    );
    if cluster.view.since(told).is_none() {
        return Err(Problem::gone(None));
    }
    Ok(respond(Changes {
        slot,
        news: cluster.view.changes(),
        view: cluster.view.clone(),
        told,
        ready: VecDeque::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Role, identity};

    #[test]
    fn whoever_is_of_one_tenant_hears_of_no_other_and_of_no_settings() {
        let row = Row {
            revision: 7,
            value: Some(Bytes::from_static(b"{\"priority\":1}")),
        };
        let keys = [
            "tenant.chat",
            "tenant.train",
            "settings",
            "pin",
            "placement",
        ];
        let heard = |who: &Identity| {
            let heard = keys.iter().filter(|key| event(who, key, &row).is_some());
            heard.copied().collect::<Vec<_>>()
        };
        assert_eq!(
            heard(&identity(Role::TenantAdmin, Some("chat"))),
            ["tenant.chat"]
        );
        assert_eq!(heard(&identity(Role::Viewer, None)), keys[..4]);
        let gone = Row {
            revision: 8,
            value: None,
        };
        let text = event(&identity(Role::Viewer, None), "tenant.chat", &gone).unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert_eq!(
            text,
            "id: 8\nevent: tenant\ndata: {\"name\":\"chat\",\"settings\":null}\n\n"
        );
    }
}
