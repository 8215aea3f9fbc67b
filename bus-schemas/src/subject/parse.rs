//! Parsed subjects: the sender and kind of a message.

use super::{Admin, Subjects, ToClient, ToLeader, ToWorker};
use crate::id::{Incarnation, SessionId, Tenant};

/// A parsed subject to which a leader subscribes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderSubject {
    /// From a tenant.
    Tenant(Tenant, ToLeader),
    /// [`crate::Done`] from a worker.
    Done(Incarnation),
    /// [`crate::WorkerBeat`].
    WorkerBeat(Incarnation),
    /// [`crate::Refusal`] of a worker to the leader of a stale grant batch.
    Refusal(Incarnation),
    /// [`crate::Measured`] from a worker.
    Measured(Incarnation),
    /// [`crate::LeaderBeat`] of some leader.
    LeaderBeat,
    /// From an administrator.
    Admin(Admin),
}

/// A parsed subject to which a worker subscribes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerSubject {
    /// From a tenant, about one of its sessions.
    Tenant(Tenant, SessionId, ToWorker),
    /// [`crate::MemoryStatusRequest`] of a tenant about itself.
    TenantMemory(Tenant),
    /// [`crate::MemoryStatusRequest`] of an administrator.
    Memory,
    /// [`crate::GrantBatch`].
    GrantBatch,
    /// [`crate::Seal`], a request.
    Seal,
    /// [`crate::Leave`].
    Leave,
    /// [`crate::Quotas`].
    Quotas,
    /// [`crate::Lost`].
    Lost,
}

impl Subjects {
    fn tail<'s>(&self, subject: &'s str) -> Option<&'s str> {
        subject.strip_prefix(&self.root)?.strip_prefix('.')
    }

    /// Parses a subject to which a leader subscribes; `None` if it is not one.
    #[must_use]
    pub fn parse_leader(&self, subject: &str) -> Option<LeaderSubject> {
        let mut tokens = self.tail(subject)?.split('.');
        let parsed = match (tokens.next()?, tokens.next()?, tokens.next()?) {
            ("t", tenant, "up") => {
                let tenant = tenant.parse().ok()?;
                let what = match (tokens.next()?, tokens.next()?, tokens.next()) {
                    ("l", "open", None) => ToLeader::Open,
                    ("l", "close", None) => ToLeader::Close,
                    ("l", "alive", None) => ToLeader::Alive,
                    ("l", "devices", None) => ToLeader::Devices,
                    ("l", "intent", Some(session)) => ToLeader::Intent(session.parse().ok()?),
                    _ => return None,
                };
                LeaderSubject::Tenant(tenant, what)
            }
            ("s", "l", "beat") => LeaderSubject::LeaderBeat,
            ("s", "l", what) => {
                let worker = tokens.next()?.parse().ok()?;
                match what {
                    "done" => LeaderSubject::Done(worker),
                    "worker" => LeaderSubject::WorkerBeat(worker),
                    "refusal" => LeaderSubject::Refusal(worker),
                    "measured" => LeaderSubject::Measured(worker),
                    _ => return None,
                }
            }
            ("s", "ctl", verb) => {
                let (verb, _) = Admin::ALL.iter().find(|(_, token)| *token == verb)?;
                LeaderSubject::Admin(*verb)
            }
            _ => return None,
        };
        tokens.next().is_none().then_some(parsed)
    }

    /// Parses a subject to which a worker subscribes; `None` if it is not one.
    #[must_use]
    pub fn parse_worker(&self, subject: &str) -> Option<WorkerSubject> {
        let mut tokens = self.tail(subject)?.split('.');
        let parsed = match (tokens.next()?, tokens.next()?) {
            ("t", tenant) => {
                let ("up", "w", _worker) = (tokens.next()?, tokens.next()?, tokens.next()?) else {
                    return None;
                };
                let session = match tokens.next()? {
                    "memory" => return memory_of(tenant, tokens.next()),
                    session => session.parse().ok()?,
                };
                let what = match tokens.next()? {
                    "batch" => ToWorker::Batch,
                    "data" => ToWorker::Data,
                    "state" => ToWorker::State,
                    "memory" => ToWorker::Memory,
                    "offer" => ToWorker::Offer,
                    "ipc" => ToWorker::Ipc,
                    _ => return None,
                };
                WorkerSubject::Tenant(tenant.parse().ok()?, session, what)
            }
            ("s", "lost") => WorkerSubject::Lost,
            ("s", "w") => {
                let _worker = tokens.next()?;
                match tokens.next()? {
                    "order" => WorkerSubject::GrantBatch,
                    "seal" => WorkerSubject::Seal,
                    "leave" => WorkerSubject::Leave,
                    "quotas" => WorkerSubject::Quotas,
                    "memory" => WorkerSubject::Memory,
                    _ => return None,
                }
            }
            _ => return None,
        };
        tokens.next().is_none().then_some(parsed)
    }

    /// Parses a subject of the stream of request reports: the tenant that sent it.
    #[must_use]
    pub fn parse_request_reports(&self, subject: &str) -> Option<Tenant> {
        let (tenant, rest) = self.tail(subject)?.strip_prefix("t.")?.split_once('.')?;
        (rest == "up.trace.requests").then(|| tenant.parse().ok())?
    }

    /// Parses a subject to which a client subscribes, about one session; `None` if it is not one.
    #[must_use]
    pub fn parse_client(&self, subject: &str) -> Option<(SessionId, ToClient)> {
        let mut tokens = self.tail(subject)?.split('.');
        let ("t", _tenant, "dn") = (tokens.next()?, tokens.next()?, tokens.next()?) else {
            return None;
        };
        let session = tokens.next()?.parse().ok()?;
        let what = match tokens.next()? {
            "worker" => ToClient::Worker,
            "result" => ToClient::Result,
            "leader" => ToClient::Leader,
            "error" => ToClient::Error,
            "memory" => ToClient::Memory,
            "ipc" => ToClient::Ipc,
            _ => return None,
        };
        tokens.next().is_none().then_some((session, what))
    }
}

/// Returns a tenant's request about itself, unless more tokens follow.
fn memory_of(tenant: &str, next: Option<&str>) -> Option<WorkerSubject> {
    let tenant = tenant.parse().ok()?;
    next.is_none()
        .then_some(WorkerSubject::TenantMemory(tenant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> (Subjects, Tenant) {
        (
            Subjects::new(&"lab".parse().unwrap()),
            "chat".parse().unwrap(),
        )
    }
    #[test]
    fn what_leaders_hear_parses_back() {
        let (subjects, tenant) = subjects();
        let session = SessionId(7);
        for what in [
            ToLeader::Open,
            ToLeader::Close,
            ToLeader::Alive,
            ToLeader::Devices,
            ToLeader::Intent(session),
        ] {
            let subject = subjects.to_leader(&tenant, what);
            assert!(subject.starts_with(subjects.tenant_outbound(&tenant).trim_end_matches('>')));
            let parsed = subjects.parse_leader(&subject);
            assert_eq!(parsed, Some(LeaderSubject::Tenant(tenant.clone(), what)));
        }
        let worker = Incarnation(9);
        for (subject, parsed) in [
            (subjects.done(worker), LeaderSubject::Done(worker)),
            (
                subjects.worker_beat(worker),
                LeaderSubject::WorkerBeat(worker),
            ),
            (subjects.refusal(worker), LeaderSubject::Refusal(worker)),
            (subjects.measured(worker), LeaderSubject::Measured(worker)),
            (subjects.leader_beat(), LeaderSubject::LeaderBeat),
            (
                subjects.admin(Admin::Hold),
                LeaderSubject::Admin(Admin::Hold),
            ),
            (
                subjects.admin(Admin::Drain),
                LeaderSubject::Admin(Admin::Drain),
            ),
            (
                subjects.admin(Admin::Sessions),
                LeaderSubject::Admin(Admin::Sessions),
            ),
        ] {
            assert_eq!(subjects.parse_leader(&subject), Some(parsed), "{subject}");
            assert_eq!(subjects.parse_leader(&format!("{subject}.x")), None);
        }
    }

    #[test]
    fn what_workers_and_clients_hear_parses_back() {
        let (subjects, tenant) = subjects();
        let (worker, session) = (Incarnation(9), SessionId(7));
        for what in [
            ToWorker::Batch,
            ToWorker::Data,
            ToWorker::State,
            ToWorker::Memory,
            ToWorker::Offer,
            ToWorker::Ipc,
        ] {
            let subject = subjects.to_worker(&tenant, worker, session, what);
            let parsed = subjects.parse_worker(&subject);
            assert_eq!(
                parsed,
                Some(WorkerSubject::Tenant(tenant.clone(), session, what))
            );
        }
        assert_eq!(
            subjects.parse_worker(&subjects.grants(worker)),
            Some(WorkerSubject::GrantBatch)
        );
        assert_eq!(
            subjects.parse_worker(&subjects.seal(worker)),
            Some(WorkerSubject::Seal)
        );
        assert_eq!(
            subjects.parse_worker(&subjects.leave(worker)),
            Some(WorkerSubject::Leave)
        );
        assert_eq!(
            subjects.parse_worker(&subjects.quotas(Incarnation(7))),
            Some(WorkerSubject::Quotas)
        );
        assert_eq!(
            subjects.parse_worker(&subjects.memory(worker)),
            Some(WorkerSubject::Memory)
        );
        let own = subjects.tenant_memory(&tenant, worker);
        assert!(own.starts_with(subjects.tenant_outbound(&tenant).trim_end_matches('>')));
        assert_eq!(
            subjects.parse_worker(&own),
            Some(WorkerSubject::TenantMemory(tenant.clone()))
        );
        assert_eq!(subjects.parse_worker(&format!("{own}.x")), None);
        assert_eq!(
            subjects.parse_worker(&subjects.lost()),
            Some(WorkerSubject::Lost)
        );
        for what in [
            ToClient::Worker,
            ToClient::Result,
            ToClient::Leader,
            ToClient::Error,
        ] {
            let subject = subjects.to_client(&tenant, session, what);
            assert_eq!(subjects.parse_client(&subject), Some((session, what)));
        }
        assert_eq!(
            subjects.parse_client("wl.v1.other.t.chat.dn.0000000000000007.worker"),
            None
        );
    }

    #[test]
    fn the_patterns_of_all_sessions_are_those_of_one_with_wildcards() {
        let (subjects, tenant) = subjects();
        let session = SessionId(7);
        let with_wildcards = |subject: String| {
            let subject = subject.replace(".chat.", ".*.");
            subject.replace(&session.to_string(), "*")
        };
        let intent = subjects.to_leader(&tenant, ToLeader::Intent(session));
        assert_eq!(with_wildcards(intent), subjects.intents_all());
        let inbound = subjects.session_inbound(&tenant, session);
        assert_eq!(with_wildcards(inbound), subjects.sessions_inbound_all());
    }

    #[test]
    fn a_tenant_hears_its_own_prefix_only() {
        let (subjects, tenant) = subjects();
        let inbox = subjects.tenant_inbox(&tenant) + ".x";
        assert!(subjects.is_inbound_of(&tenant, &inbox));
        let other = "chat2".parse().unwrap();
        for bad in [
            subjects.tenant_inbox(&other),
            subjects.lost(),
            "x".into(),
            inbox[1..].into(),
        ] {
            assert!(!subjects.is_inbound_of(&tenant, &bad), "{bad}");
        }
    }
}
