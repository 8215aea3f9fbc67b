//! The state of the cluster's streams and buckets in its broker, their fill and their faults: for
//! the status, the meters and the log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::Recipient;
use bus_schemas::StoreStatus;

use super::gateway::Router;
use super::messages::LeaderMessage;
use crate::repeated::Repeated;
use storage::{FAULT, Storage, Stored, is_missing};

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(2);
/// Timeout for all of a check.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Percent of a limit that raises an alarm.
const ALARM: u64 = 80;

/// Time since which the record is not written, and the error, if it is not.
pub(super) type Unwritten = Rc<RefCell<Option<(Instant, String)>>>;

/// Checks periodically while the candidate leads, and sends it the results; returns only when the
/// leader's actor is gone.
pub(super) async fn watch(
    storage: Storage,
    unwritten: Unwritten,
    router: Rc<Router>,
    leader: Recipient<LeaderMessage>,
) {
    let mut alarms = BTreeMap::<String, Repeated>::new();
    loop {
        tokio::time::sleep(LOOK).await;
        if !router.leading.get() {
            router.telemetry.meters().stores(&[]);
            continue;
        }
        let stores = look(&storage, &unwritten).await;
        router.telemetry.meters().stores(&stores);
        warn(&mut alarms, &stores);
        if leader.send(LeaderMessage::Stores(stores)).await.is_err() {
            return;
        }
    }
}

/// Logs each alarm, and its end.
fn warn(alarms: &mut BTreeMap<String, Repeated>, stores: &[StoreStatus]) {
    for store in stores.iter().filter(|store| !store.alarm.is_empty()) {
        let repeated = alarms.entry(store.name.clone()).or_default();
        if let Some(unsaid) = repeated.happened(Instant::now()) {
            let (name, alarm) = (&store.name, &store.alarm);
            tracing::warn!(name, alarm, unsaid, "what the broker keeps is in danger");
        }
    }
    alarms.retain(|name, _| {
        let stays = stores
            .iter()
            .any(|store| store.name == *name && !store.alarm.is_empty());
        if !stays {
            tracing::info!(name, "what the broker keeps is in danger no more");
        }
        stays
    });
}

async fn look(storage: &Storage, unwritten: &Unwritten) -> Vec<StoreStatus> {
    let mut stores = Vec::new();
    for stored in Stored::ALL {
        let name = storage.stream_name(stored);
        let stream = storage.jetstream().get_stream(&name);
        let mut store = StoreStatus {
            name: storage.name(stored),
            bytes: 0,
            limit: 0,
            alarm: String::new(),
        };
        match tokio::time::timeout(TIMEOUT, stream).await {
            Ok(Ok(stream)) => {
                let info = stream.cached_info();
                store.bytes = info.state.bytes;
                store.limit = u64::try_from(info.config.max_bytes).unwrap_or(0);
                store.alarm = fullness(store.bytes, store.limit);
            }
            Ok(Err(error)) => {
                store.alarm = format!("the broker does not show it: {error}");
                // The holder of the lease creates the lease's bucket. Of the others, some are
                // written rarely.
                if stored != Stored::Lease && is_missing(&error) {
                    let made = tokio::time::timeout(TIMEOUT, storage.ensure_one(stored)).await;
                    tracing::warn!(name = store.name, ?made, "it was not there: made anew");
                }
            }
            Err(_) => store.alarm = "the broker does not answer".into(),
        }
        if let (Stored::Record, Some((since, why))) = (stored, &*unwritten.borrow()) {
            let since = since.elapsed().as_secs();
            store.alarm = format!("not written since {since} s, the leader keeps it: {why}");
        }
        stores.push(store);
    }
    stores.extend(account(storage).await);
    stores
}

/// Returns the limits of the broker's account, and the fault that the broker's operator reports.
async fn account(storage: &Storage) -> Vec<StoreStatus> {
    let mut stores = Vec::new();
    let asked = storage.jetstream().query_account();
    if let Ok(Ok(account)) = tokio::time::timeout(TIMEOUT, asked).await {
        let limits = [
            (
                "account's files",
                account.storage,
                account.limits.max_storage,
            ),
            (
                "account's memory",
                account.memory,
                account.limits.max_memory,
            ),
        ];
        for (name, bytes, limit) in limits {
            if let Ok(limit) = u64::try_from(limit.unwrap_or(-1)) {
                stores.push(StoreStatus {
                    name: name.into(),
                    bytes,
                    limit,
                    alarm: fullness(bytes, limit),
                });
            }
        }
    }
    let fault = async {
        storage
            .bucket(Stored::Lease)
            .await
            .ok()?
            .get(FAULT)
            .await
            .ok()?
    };
    if let Ok(Some(fault)) = tokio::time::timeout(TIMEOUT, fault).await {
        stores.push(StoreStatus {
            name: "broker's disk".into(),
            bytes: 0,
            limit: 0,
            alarm: String::from_utf8_lossy(&fault).into_owned(),
        });
    }
    stores
}

fn fullness(bytes: u64, limit: u64) -> String {
    let percent = |limit| u128::from(bytes) * 100 / u128::from(limit);
    match limit {
        0 => String::new(),
        _ if percent(limit) < u128::from(ALARM) => String::new(),
        _ => format!("{} % full", percent(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fifths_of_a_limit_are_an_alarm() {
        assert_eq!(fullness(799, 1_000), "");
        assert_eq!(fullness(800, 1_000), "80 % full");
        assert_eq!(fullness(u64::MAX, u64::MAX), "100 % full");
        assert_eq!(fullness(800, 0), "");
    }
}
