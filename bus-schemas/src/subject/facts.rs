//! All facts that a role takes from the bus or from the broker's events, each with the user that it
//! must come from. A tenant can state only facts about itself.

use super::Subjects;
use crate::id::{Epoch, Incarnation, LeaderId, SessionId, Tenant};

/// The user that states a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The tenant that the subject names. The broker lets no other user publish there. Its messages
    /// affect only its own sessions and requests, whatever ids they contain.
    Tenant,
    /// The cluster's own user: the broker lets no tenant publish there.
    Cluster,
    /// The broker itself.
    Broker,
}

/// A fact of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// The subject, as a pattern below the cluster's root, or complete for the broker's own. `{t}`
    /// is a tenant, `{w}` a worker, `{s}` a session, `{l}` a leader, `{e}` an epoch, `{x}`
    /// anything.
    pub subject: &'static str,
    /// The roles that rely on it.
    pub taken_by: &'static str,
    /// The user that it must come from.
    pub from: Speaker,
    /// The fact.
    pub says: &'static str,
}

const fn fact(
    from: Speaker,
    subject: &'static str,
    taken_by: &'static str,
    says: &'static str,
) -> Fact {
    Fact {
        subject,
        taken_by,
        from,
        says,
    }
}

/// The table of all facts.
pub const FACTS: &[Fact] = {
    use Speaker::{Broker, Cluster, Tenant};
    const L: &str = "leader";
    const W: &str = "worker";
    const C: &str = "client";
    const T: &str = "tracer";
    &[
        fact(
            Tenant,
            "t.{t}.up.l.open",
            L,
            "a program wants sessions; its connection's name",
        ),
        fact(
            Tenant,
            "t.{t}.up.l.close",
            L,
            "a session of its own is to end",
        ),
        fact(
            Tenant,
            "t.{t}.up.l.alive",
            L,
            "sessions of its own live, on this connection",
        ),
        fact(
            Tenant,
            "t.{t}.up.l.devices",
            L,
            "a program asks what it may use",
        ),
        fact(
            Tenant,
            "t.{t}.up.l.intent.{s}",
            L,
            "the cost of the next ops of its own session",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.batch",
            W,
            "the next ops of its own session",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.data",
            W,
            "bytes of its own session's transfer",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.state",
            W,
            "how far its own session's results came",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.memory",
            W,
            "memory for its own session",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.offer",
            W,
            "a copy to its own session, by its hash",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.{s}.ipc",
            W,
            "a handle of memory, within the tenant",
        ),
        fact(
            Tenant,
            "t.{t}.up.w.{w}.memory",
            W,
            "a program asks what its tenant holds",
        ),
        fact(
            Tenant,
            "t.{t}.up.trace.requests",
            T,
            "requests of its own sessions that have ended",
        ),
        fact(
            Cluster,
            "t.{t}.dn.{s}.worker",
            C,
            "what a worker has of a session",
        ),
        fact(Cluster, "t.{t}.dn.{s}.result", C, "a session's result"),
        fact(
            Cluster,
            "t.{t}.dn.{s}.leader",
            C,
            "what a leader has of a session, and its end",
        ),
        fact(
            Cluster,
            "t.{t}.dn.{s}.error",
            C,
            "a message of a session was not understood",
        ),
        fact(
            Cluster,
            "t.{t}.dn.{s}.memory",
            C,
            "where a session's memory is",
        ),
        fact(
            Cluster,
            "t.{t}.dn.{s}.ipc",
            C,
            "what a handle of memory stands for",
        ),
        fact(Cluster, "t.{t}.dn.reign", C, "who leads"),
        fact(Cluster, "t.{t}.dn.inbox.{x}", C, "an answer to a request"),
        fact(Cluster, "s.l.done.{w}", L, "what a worker accepted and did"),
        fact(
            Cluster,
            "s.l.worker.{w}",
            L,
            "a worker lives, its device, whom it obeys",
        ),
        fact(Cluster, "s.l.refusal.{w}", L, "a higher epoch leads"),
        fact(Cluster, "s.l.measured.{w}", L, "how long kernels took"),
        fact(
            Cluster,
            "s.l.beat",
            "leader, worker",
            "a leader lives, or leaves",
        ),
        fact(
            Cluster,
            "s.inbox.leader.{l}.{w}",
            L,
            "a worker's answer to a seal",
        ),
        fact(Cluster, "s.inbox.{x}", "all", "an answer to a request"),
        fact(
            Cluster,
            "s.ctl.status",
            L,
            "an operator asks how the cluster is",
        ),
        fact(Cluster, "s.ctl.hold", L, "grants are held, or go on"),
        fact(
            Cluster,
            "s.ctl.kill",
            L,
            "a session of any tenant is to end",
        ),
        fact(
            Cluster,
            "s.ctl.admission",
            L,
            "an operator asks what a tenant would get",
        ),
        fact(Cluster, "s.ctl.drain", L, "a worker gets no new sessions"),
        fact(
            Cluster,
            "s.ctl.sessions",
            L,
            "an operator asks for all sessions",
        ),
        fact(Cluster, "s.w.{w}.order", W, "what runs next"),
        fact(Cluster, "s.w.{w}.seal", W, "a new leader leads"),
        fact(Cluster, "s.w.{w}.leave", W, "the worker may leave"),
        fact(Cluster, "s.w.{w}.quotas", W, "the quotas of all tenants"),
        fact(
            Cluster,
            "s.w.{w}.memory",
            W,
            "an operator asks what all tenants hold",
        ),
        fact(Cluster, "s.lost", W, "a worker is lost"),
        fact(
            Cluster,
            "s.unstored",
            L,
            "a block of the record that is not stored",
        ),
        fact(Cluster, "s.unstored.worker", W, "the same, kept by workers"),
        fact(
            Cluster,
            "s.unstored.ask",
            L,
            "a candidate asks for such blocks",
        ),
        fact(
            Cluster,
            "s.usage.{w}",
            "controller",
            "what a worker's tenants hold",
        ),
        fact(
            Cluster,
            "s.account.{w}",
            "controller",
            "what a worker's tenants used",
        ),
        fact(Cluster, "s.account.days", "controller", "the same, by day"),
        fact(Cluster, "s.record.{e}", "all", "what a leader decided from"),
        fact(
            Cluster,
            "$KV.{x}",
            "all",
            "lease, settings, tenants, placement, tokens",
        ),
        fact(
            Cluster,
            "$JS.API.{x}",
            "broker",
            "streams and buckets are made, read, deleted",
        ),
        fact(
            Broker,
            "$SYS.ACCOUNT.{x}.DISCONNECT",
            L,
            "a connection was closed: of a leader or worker if the cluster's user made it, of a client \
             for the tenant whose login it is",
        ),
    ]
};

/// The names for the variables of a pattern.
#[derive(Debug, Clone)]
pub struct FactNames {
    /// The tenant.
    pub tenant: Tenant,
    /// The worker.
    pub worker: Incarnation,
    /// The session.
    pub session: SessionId,
    /// The leader.
    pub leader: LeaderId,
    /// The epoch.
    pub epoch: Epoch,
}

impl Fact {
    /// Returns the subject with these names in it.
    #[must_use]
    pub fn subject(&self, subjects: &Subjects, names: &FactNames) -> String {
        let filled = self
            .subject
            .replace("{t}", names.tenant.as_str())
            .replace("{w}", &names.worker.to_string())
            .replace("{s}", &names.session.to_string())
            .replace("{l}", &names.leader.to_string())
            .replace("{e}", &names.epoch.to_string())
            .replace("{x}", "any");
        match filled.starts_with('$') {
            true => filled,
            false => format!("{}{filled}", subjects.all().trim_end_matches('>')),
        }
    }
}

#[cfg(test)]
mod tests;
