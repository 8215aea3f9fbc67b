//! Checks the table against every message that is built or parsed.

use super::*;
use crate::subject::{Admin, LeaderSubject, ToClient, ToLeader, ToWorker, WorkerSubject};

fn names() -> (Subjects, FactNames) {
    let names = FactNames {
        tenant: "chat".parse().unwrap(),
        worker: Incarnation(7),
        session: SessionId(9),
        leader: LeaderId(3),
        epoch: 4,
    };
    (Subjects::new(&"lab".parse().unwrap()), names)
}

/// Returns the row of a subject, which must be the only one.
fn row(subject: &str) -> &'static Fact {
    let (subjects, names) = names();
    let rows = FACTS
        .iter()
        .filter(|it| it.subject(&subjects, &names) == subject);
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 1, "{subject}");
    rows[0]
}

#[test]
fn a_tenant_speaks_where_it_may_publish_and_nowhere_else() {
    let (subjects, names) = names();
    let own = subjects.tenant_outbound(&names.tenant);
    for fact in FACTS {
        let subject = fact.subject(&subjects, &names);
        let may = subject.starts_with(own.trim_end_matches('>'));
        assert_eq!(may, fact.from == Speaker::Tenant, "{subject}");
    }
}

/// Collects the rows of all messages that [`Subjects`] builds. The matches have no wildcard arm, so
/// a new kind of message does not compile without an arm here. Other new subjects must be added to
/// the list below.
#[test]
#[expect(clippy::too_many_lines, reason = "one row for each message")]
fn every_message_has_a_row() {
    let (
        subjects,
        FactNames {
            tenant,
            worker,
            session,
            epoch,
            ..
        },
    ) = names();
    let all = [
        ToLeader::Open,
        ToLeader::Close,
        ToLeader::Alive,
        ToLeader::Devices,
    ];
    for what in all.into_iter().chain([ToLeader::Intent(session)]) {
        match what {
            ToLeader::Open
            | ToLeader::Close
            | ToLeader::Alive
            | ToLeader::Devices
            | ToLeader::Intent(_) => row(&subjects.to_leader(&tenant, what)),
        };
    }
    for what in [
        ToWorker::Batch,
        ToWorker::Data,
        ToWorker::State,
        ToWorker::Memory,
        ToWorker::Offer,
        ToWorker::Ipc,
    ] {
        match what {
            ToWorker::Batch
            | ToWorker::Data
            | ToWorker::State
            | ToWorker::Memory
            | ToWorker::Offer
            | ToWorker::Ipc => row(&subjects.to_worker(&tenant, worker, session, what)),
        };
    }
    for what in [
        ToClient::Worker,
        ToClient::Result,
        ToClient::Leader,
        ToClient::Error,
        ToClient::Memory,
        ToClient::Ipc,
    ] {
        match what {
            ToClient::Worker
            | ToClient::Result
            | ToClient::Leader
            | ToClient::Error
            | ToClient::Memory
            | ToClient::Ipc => row(&subjects.to_client(&tenant, session, what)),
        };
    }
    for (verb, _) in Admin::ALL {
        row(&subjects.admin(verb));
    }
    for subject in [
        subjects.tenant_memory(&tenant, worker),
        subjects.term(&tenant),
        subjects.grants(worker),
        subjects.seal(worker),
        subjects.leave(worker),
        subjects.quotas(worker),
        subjects.memory(worker),
        subjects.lost(),
        subjects.done(worker),
        subjects.worker_beat(worker),
        subjects.refusal(worker),
        subjects.measured(worker),
        subjects.leader_beat(),
        subjects.usage(worker),
        subjects.usage_blocks(worker),
        subjects.usage_days(),
        subjects.record(epoch),
        subjects.unstored(),
        subjects.unstored_worker(),
        subjects.unstored_ask(),
    ] {
        row(&subject);
    }
}

#[test]
fn what_a_role_parses_is_from_the_user_of_its_row() {
    let (subjects, names) = names();
    for fact in FACTS {
        let subject = fact.subject(&subjects, &names);
        let from = match (
            subjects.parse_leader(&subject),
            subjects.parse_worker(&subject),
        ) {
            (Some(LeaderSubject::Tenant(tenant, _)), _)
            | (_, Some(WorkerSubject::Tenant(tenant, ..) | WorkerSubject::TenantMemory(tenant))) => {
                assert_eq!(tenant, names.tenant);
                Speaker::Tenant
            }
            (None, None) => continue,
            _ => Speaker::Cluster,
        };
        assert_eq!(from, fact.from, "{subject}");
    }
}
