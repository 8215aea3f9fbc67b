//! Names in a cluster's status, each with a short description.

use std::collections::BTreeMap;

use bus_schemas::{SessionId, SessionStatus, Status, WorkerStatus};

use super::candidate::Candidate;
use crate::calendar;
use crate::profiles::ProfileVersion;

/// Digits of a session's id.
const DIGITS: usize = 16;
/// Digits of a hash that are shown.
const HASH: usize = 12;

/// A number with its unit.
fn count(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

/// The tenants, with their settings and sessions.
pub(super) fn tenants(status: &Status) -> Vec<Candidate> {
    let tenants = status.tenants.iter().map(|tenant| {
        let (priority, sessions) = (tenant.settings.priority, count(tenant.sessions, "session"));
        let suspended = match tenant.settings.suspended {
            true => ", suspended",
            false => "",
        };
        let help = format!("priority {priority}, {sessions}{suspended}");
        Candidate::new(tenant.tenant.as_str(), help)
    });
    tenants.collect()
}

/// The id before the first one that begins with the typed text; the inner `None` means the start.
/// `None` if no id begins so.
pub(super) fn before(typed: &str) -> Option<Option<SessionId>> {
    let is_id = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if typed.len() > DIGITS || !typed.bytes().all(is_id) {
        return None;
    }
    let first = u64::from_str_radix(&format!("{typed:0<DIGITS$}"), 16).ok()?;
    Some(first.checked_sub(1).map(SessionId))
}

/// The sessions, with their tenants and the causes of their waits.
pub(super) fn sessions(sessions: &[SessionStatus]) -> Vec<Candidate> {
    let sessions = sessions.iter().map(|session| {
        let (tenant, gpu, waits) = (&session.tenant, session.gpu, session.waits.name());
        let help = format!("{tenant}, gpu {gpu}, waits for: {waits}");
        Candidate::new(session.session.to_string(), help)
    });
    sessions.collect()
}

/// The live workers.
fn live(status: &Status) -> impl Iterator<Item = &WorkerStatus> {
    status.workers.iter().filter(|worker| !worker.lost)
}

/// The devices, with their names.
pub(super) fn gpus(status: &Status) -> Vec<Candidate> {
    let gpus: BTreeMap<_, _> = live(status).map(|it| (it.gpu, &it.device)).collect();
    let gpus = gpus.into_iter();
    gpus.map(|(gpu, device)| Candidate::new(gpu.to_string(), device))
        .collect()
}

/// The workers: by the numbers of devices that have only one worker, then by their ids.
pub(super) fn workers(status: &Status) -> Vec<Candidate> {
    let help = |worker: &WorkerStatus| {
        let (gpu, device) = (worker.gpu, &worker.device);
        let sessions = count(worker.sessions, "session");
        let draining = match worker.draining {
            true => ", draining",
            false => "",
        };
        format!("gpu {gpu}, {device}, {sessions}{draining}")
    };
    let alone = |gpu| live(status).filter(|other| other.gpu == gpu).count() == 1;
    let by_gpu = live(status)
        .filter(|worker| alone(worker.gpu))
        .map(|worker| Candidate::new(worker.gpu.to_string(), help(worker)));
    let by_id =
        live(status).map(|worker| Candidate::new(worker.incarnation.to_string(), help(worker)));
    by_gpu.chain(by_id).collect()
}

/// The groups, with their numbers of workers.
pub(super) fn groups(status: &Status) -> Vec<Candidate> {
    let mut groups = BTreeMap::<String, u64>::new();
    for (place, worker) in status.places.iter().zip(&status.workers) {
        if !worker.lost {
            *groups.entry(place.group.to_string()).or_default() += 1;
        }
    }
    for name in status
        .tenants
        .iter()
        .flat_map(|it| it.settings.groups.names())
    {
        groups.entry(name.to_string()).or_default();
    }
    let groups = groups.into_iter();
    groups
        .map(|(group, workers)| Candidate::new(group, count(workers, "worker")))
        .collect()
}

/// The versions of the profile, the newest first.
pub(super) fn profiles(versions: &[ProfileVersion]) -> Vec<Candidate> {
    let versions = versions.iter().rev().map(|version| {
        let (hash, kernels) = (version.hash.to_string(), version.entries.len() as u64);
        let (kernels, at) = (count(kernels, "kernel"), calendar::moment(version.at_ms));
        let help = format!("{}, {kernels}, {at} UTC", &hash[..HASH]);
        Candidate::new(version.version.to_string(), help)
    });
    versions.collect()
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Chain, Incarnation, LeaderId, TenantSettings, TenantStatus, WIRE_VERSION};

    use super::*;

    fn worker(id: u64, gpu: u32, lost: bool) -> WorkerStatus {
        WorkerStatus {
            incarnation: Incarnation(id),
            gpu,
            device: "a device".into(),
            sessions: id,
            granted: 0,
            accepted: 0,
            chain: Chain::default(),
            outstanding_ns: 0,
            lost,
            draining: id == 2,
        }
    }

    fn status() -> Status {
        let settings = TenantSettings {
            suspended: true,
            groups: bus_schemas::Groups::new(["spare".parse().expect("a name")]).expect("groups"),
            ..TenantSettings::default()
        };
        Status {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LeaderId(1),
            input: 0,
            recorded: 0,
            global: 0,
            held: false,
            partial: false,
            // Two workers of one device, and a lost one.
            workers: vec![
                worker(1, 0, false),
                worker(2, 0, false),
                worker(3, 1, false),
                worker(4, 2, true),
            ],
            places: Vec::new(),
            tenants: vec![TenantStatus {
                tenant: "chat".parse().expect("a name"),
                settings,
                sessions: 1,
                queued: 0,
                granted: 0,
                attainment: None,
            }],
            settings: None,
            profile: None,
            stores: Vec::new(),
            lost: Vec::new(),
        }
    }

    #[test]
    fn a_status_names_what_is_there() {
        let status = status();
        let pair = |name: &str, help: &str| Candidate::new(name, help);
        let suspended = pair("chat", "priority 2, 1 session, suspended");
        assert_eq!(tenants(&status), [suspended]);
        let gpus = gpus(&status);
        assert_eq!(gpus, [pair("0", "a device"), pair("1", "a device")]);
        let workers = workers(&status);
        let third = "gpu 1, a device, 3 sessions";
        assert_eq!(
            workers,
            [
                pair("1", third),
                pair("0000000000000001", "gpu 0, a device, 1 session"),
                pair("0000000000000002", "gpu 0, a device, 2 sessions, draining"),
                pair("0000000000000003", third),
            ]
        );
        assert_eq!(groups(&status), [pair("spare", "0 workers")]);
    }

    #[test]
    fn a_session_is_looked_for_from_what_was_typed_on() {
        assert_eq!(before(""), Some(None));
        assert_eq!(before("0000000"), Some(None));
        assert_eq!(before("00000007"), Some(Some(SessionId(0x6_ffff_ffff))));
        assert_eq!(
            before("0000000700000003"),
            Some(Some(SessionId(0x7_0000_0002)))
        );
        assert_eq!(before("f"), Some(Some(SessionId(0xefff_ffff_ffff_ffff))));
        for wrong in ["x", "0X", "A", "-1", "+1", "00000007000000031", " "] {
            assert_eq!(before(wrong), None, "{wrong:?}");
        }
    }
}
