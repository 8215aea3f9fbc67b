//! Events of positions for watchers.

use std::sync::OnceLock;

use bus_schemas::Tenant;
use bytes::Bytes;
use scheduler_leader_core::replay::ReplayedPosition;

use crate::access::Identity;
use crate::explained::{Explained, TimesModel};
use crate::position::{At, Position};
use crate::waits;

/// The event of a position, rendered once for all watchers.
#[derive(Debug, Clone)]
pub(crate) struct PositionEvent {
    /// The global position.
    pub(crate) at: At,
    /// The position.
    pub(crate) position: Position,
    /// Its times, if recorded.
    times: Option<TimesModel>,
    /// True if the position lists all of its waits.
    whole: bool,
    /// The rendered event.
    event: Bytes,
    /// The event for watchers of its tenant that may not see other tenants.
    own: OnceLock<Bytes>,
}

impl PositionEvent {
    /// The event of a replayed position.
    pub(crate) fn of(replayed: &ReplayedPosition, at_ms: Option<u64>) -> Self {
        let (at, position) = (At::from(replayed), Position::explained(replayed, at_ms));
        let timing = replayed.timing.as_deref();
        Self {
            times: timing.map(TimesModel::from),
            whole: timing.is_none_or(|timing| waits::few(&timing.waits).1),
            event: rendered(at, &position),
            own: OnceLock::new(),
            at,
            position,
        }
    }

    /// The event for this caller, without hidden names.
    pub(crate) fn event(&self, who: &Identity) -> Bytes {
        if who.sees_all() {
            return self.event.clone();
        }
        let own = || {
            let mut position = self.position.clone();
            let waits = position.waits.take();
            let sees = |of: &Tenant| of.as_str() == position.tenant;
            position.waits = waits.map(|waits| waits::seen(waits, sees));
            rendered(self.at, &position)
        };
        self.own.get_or_init(own).clone()
    }

    /// The position with all of its waits, if they are all kept.
    pub(crate) fn explained(&self) -> Option<Explained> {
        self.whole.then(|| Explained {
            position: self.position.clone(),
            times: self.times,
        })
    }
}

fn rendered(at: At, position: &Position) -> Bytes {
    // Serializing numbers and short texts to JSON cannot fail.
    let data = serde_json::to_string(position).unwrap_or_default();
    format!("id: {at}\nevent: position\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use scheduler_leader_core::why::{Cause, Timing, Wait};

    use super::*;
    use crate::access::{Role, identity};
    use crate::position::tests::replayed;

    /// A position of the tenant chat, which waited.
    fn waited() -> ReplayedPosition {
        let wait = |cause, of: &str, ns| Wait {
            cause,
            of: of.parse().ok(),
            ns,
        };
        ReplayedPosition {
            timing: Some(Box::new(Timing {
                waited_ns: 7,
                waits: vec![wait(Cause::Priority, "train", 5), wait(Cause::Bus, "", 2)],
                ..Timing::default()
            })),
            ..replayed(3, 17, "chat")
        }
    }

    fn data(event: &Bytes) -> serde_json::Value {
        let text = std::str::from_utf8(event).unwrap();
        let (head, data) = text.split_once("data: ").unwrap();
        assert_eq!(head, "id: 3.17\nevent: position\n");
        assert!(data.ends_with("}\n\n") && data.trim_end().lines().count() == 1);
        serde_json::from_str(data).unwrap()
    }

    #[test]
    fn an_event_is_one_line_of_data_with_its_place() {
        let told = PositionEvent::of(&waited(), Some(5));
        let all = data(&told.event(&identity(Role::Viewer, None)));
        assert_eq!(
            (&all["tenant"], &all["at_ms"], &all["waited_ns"]),
            (&"chat".into(), &5.into(), &7.into())
        );
        assert_eq!(all["waits"][0]["of"], "train");
        assert!(all.get("announced_ns").is_none(), "events stay small");
        let untimed = PositionEvent::of(&replayed(3, 17, "chat"), None);
        let untimed = data(&untimed.event(&identity(Role::Viewer, None)));
        assert!(untimed["waits"].is_null() && untimed["waited_ns"].is_null());
    }

    #[test]
    fn a_tenant_admin_is_told_of_the_wait_and_not_of_whom() {
        let told = PositionEvent::of(&waited(), None);
        let admin = identity(Role::TenantAdmin, Some("chat"));
        for event in [told.event(&admin), told.event(&admin)] {
            assert!(!std::str::from_utf8(&event).unwrap().contains("train"));
            assert_eq!(data(&event)["waits"][0]["ns"], 5);
        }
        let viewer = told.event(&identity(Role::Viewer, None));
        assert_eq!(data(&viewer)["waits"][0]["of"], "train");
    }
}
