//! Checks the table against every message that is built or parsed.

use super::*;
use crate::subject::{Admin, LeaderSubject, ToClient, ToWorker, WorkerSubject};

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

/// The subjects that [`Subjects`] builds, in the form of the table, as its source has them. Those
/// with a verb are built from enumerations, and those with a wildcard are subscribed to.
fn built() -> Vec<String> {
    let source = include_str!("../mod.rs");
    let texts = source.split("format!(\"").skip(1);
    let texts = texts.filter_map(|text| text.split_once('"'));
    let below = texts.filter_map(|(text, _)| {
        let own = text.strip_prefix("{}.");
        own.or_else(|| text.strip_prefix("{root}."))
    });
    let several = ["*", ">", "{}", "{verb}"];
    let below = below.filter(|text| !several.iter().any(|part| text.contains(part)));
    let short = |text: &str| {
        let text = text.replace("{tenant}", "{t}").replace("{worker}", "{w}");
        text.replace("{session}", "{s}").replace("{epoch}", "{e}")
    };
    below.map(short).collect()
}

/// True if this is the row of a subject that is built: the subject itself, or an inbox below it.
fn is_row_of(fact: &Fact, built: &str) -> bool {
    fact.subject == built || fact.subject.strip_suffix(".{x}") == Some(built)
}

#[test]
fn every_subject_that_is_built_has_a_row() {
    let built = built();
    assert!(built.len() > 25, "{built:?}");
    for subject in &built {
        let rows = FACTS.iter().filter(|fact| is_row_of(fact, subject));
        assert_eq!(rows.count(), 1, "{subject}");
    }
}

/// The matches have no wildcard arm, so a new kind of message does not compile without an arm here.
#[test]
fn every_message_has_a_row_and_every_row_a_message() {
    let (subjects, names) = names();
    let FactNames {
        tenant,
        worker,
        session,
        ..
    } = names;
    let mut seen = Vec::new();
    for what in [
        ToWorker::Batch,
        ToWorker::Data,
        ToWorker::State,
        ToWorker::Memory,
        ToWorker::Offer,
        ToWorker::Ipc,
    ] {
        seen.push(match what {
            ToWorker::Batch
            | ToWorker::Data
            | ToWorker::State
            | ToWorker::Memory
            | ToWorker::Offer
            | ToWorker::Ipc => row(&subjects.to_worker(&tenant, worker, session, what)),
        });
    }
    for what in [
        ToClient::Worker,
        ToClient::Result,
        ToClient::Leader,
        ToClient::Error,
        ToClient::Memory,
        ToClient::Ipc,
    ] {
        seen.push(match what {
            ToClient::Worker
            | ToClient::Result
            | ToClient::Leader
            | ToClient::Error
            | ToClient::Memory
            | ToClient::Ipc => row(&subjects.to_client(&tenant, session, what)),
        });
    }
    seen.extend(Admin::ALL.map(|(verb, _)| row(&subjects.admin(verb))));
    let built = built();
    let rest = FACTS.iter().filter(|fact| {
        let seen = seen.iter().any(|row| row.subject == fact.subject);
        let built = built.iter().any(|it| is_row_of(fact, it));
        // The broker's own subjects are built by its client.
        !seen && !built && !fact.subject.starts_with('$')
    });
    let rest: Vec<_> = rest.map(|fact| fact.subject).collect();
    assert_eq!(rest, ["s.inbox.leader.{l}.{w}"], "a leader's own inbox");
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
