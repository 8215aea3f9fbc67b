//! All subjects of the bus. They are built and parsed only here.
//!
//! `wl.v1.<cluster>.t.<tenant>.up.…` is for messages of a tenant, and `….dn.…` for messages to it.
//! `wl.v1.<cluster>.s.…` is for messages among leaders and workers. Permissions are these three
//! prefixes. The sender is read from the subject, never from the payload.

mod connection;
mod facts;
mod parse;

use crate::id::{Epoch, Incarnation, SessionId, Tenant};

pub use connection::{Author, ConnectionName, Users, tenant_user};
pub use facts::{FACTS, Fact, FactNames, Speaker};
pub use parse::{LeaderSubject, WorkerSubject};

/// The subjects of one cluster. The rules of tenants' names apply to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    root: String,
    cluster: Tenant,
}

/// Messages of a tenant to leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToLeader {
    /// [`crate::OpenRequest`], a request.
    Open,
    /// [`crate::CloseRequest`], a request.
    Close,
    /// [`crate::Alive`].
    Alive,
    /// [`crate::DevicesRequest`], a request.
    Devices,
    /// [`crate::Intent`] of a session.
    Intent(SessionId),
}

/// Messages of a tenant to a worker, about one of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToWorker {
    /// [`crate::Batch`].
    Batch,
    /// [`crate::DataChunk`].
    Data,
    /// [`crate::ClientState`].
    State,
    /// [`crate::MemoryRequest`].
    Memory,
    /// [`crate::CopyOffer`].
    Offer,
    /// [`crate::IpcRequest`].
    Ipc,
}

/// Messages to a tenant about one of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToClient {
    /// [`crate::WorkerAck`] from the worker.
    Worker,
    /// [`crate::DeviceResult`] from the worker.
    Result,
    /// [`crate::LeaderNotice`] from the leader.
    Leader,
    /// [`crate::Rejected`]: about a message that could not be read or belongs to no session.
    Error,
    /// [`crate::MemoryAnswer`] from the worker.
    Memory,
    /// [`crate::IpcAnswer`] from the worker.
    Ipc,
}

/// Requests of administrators to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin {
    /// [`crate::StatusRequest`].
    Status,
    /// [`crate::Hold`].
    Hold,
    /// [`crate::CloseRequest`] of any tenant's session.
    Kill,
    /// [`crate::AdmissionRequest`].
    Admission,
    /// [`crate::Drain`].
    Drain,
    /// [`crate::SessionsRequest`].
    Sessions,
}

impl Admin {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Status, "status"),
        (Self::Hold, "hold"),
        (Self::Kill, "kill"),
        (Self::Admission, "admission"),
        (Self::Drain, "drain"),
        (Self::Sessions, "sessions"),
    ];

    fn token(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(verb, _)| *verb == self)
            .map_or("", |(_, token)| token)
    }
}

/// A role that hears tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HearsTenants {
    /// A leader candidate: it only hears which sessions are alive, because it may lead next.
    Candidate,
    /// The leader.
    Leader,
    /// A worker.
    Worker(Incarnation),
}

impl Subjects {
    /// Creates the subjects of a cluster.
    #[must_use]
    pub fn new(cluster: &Tenant) -> Self {
        Self {
            root: format!("wl.v1.{cluster}"),
            cluster: cluster.clone(),
        }
    }

    /// Returns the cluster's name.
    #[must_use]
    pub fn cluster(&self) -> &Tenant {
        &self.cluster
    }

    /// Returns the pattern of all subjects of the cluster.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}.>", self.root)
    }

    /// Returns the pattern of all subjects on which a tenant may publish.
    #[must_use]
    pub fn tenant_outbound(&self, tenant: &Tenant) -> String {
        format!("{}.t.{tenant}.up.>", self.root)
    }

    /// Returns the pattern of all subjects to which a tenant may subscribe.
    #[must_use]
    pub fn tenant_inbound(&self, tenant: &Tenant) -> String {
        format!("{}.t.{tenant}.dn.>", self.root)
    }

    /// True if a tenant may receive a subject. The broker does not check reply subjects, so the
    /// role that answers a tenant's request must. Otherwise a tenant could have answers sent to
    /// another one.
    #[must_use]
    pub fn is_inbound_of(&self, tenant: &Tenant, subject: &str) -> bool {
        let mut prefix = self.tenant_inbound(tenant);
        prefix.truncate(prefix.len() - 1);
        subject
            .strip_prefix(&prefix)
            .is_some_and(|rest| !rest.is_empty())
    }

    /// Returns the prefix of a tenant's reply inboxes.
    #[must_use]
    pub fn tenant_inbox(&self, tenant: &Tenant) -> String {
        format!("{}.t.{tenant}.dn.inbox", self.root)
    }

    /// Returns the prefix of the cluster user's reply inboxes.
    #[must_use]
    pub fn cluster_inbox(&self) -> String {
        format!("{}.s.inbox", self.root)
    }

    /// Returns a subject from client to leader.
    #[must_use]
    pub fn to_leader(&self, tenant: &Tenant, what: ToLeader) -> String {
        let root = &self.root;
        match what {
            ToLeader::Open => format!("{root}.t.{tenant}.up.l.open"),
            ToLeader::Close => format!("{root}.t.{tenant}.up.l.close"),
            ToLeader::Alive => format!("{root}.t.{tenant}.up.l.alive"),
            ToLeader::Devices => format!("{root}.t.{tenant}.up.l.devices"),
            ToLeader::Intent(session) => format!("{root}.t.{tenant}.up.l.intent.{session}"),
        }
    }

    /// Returns the pattern of all intents, of any tenant's session.
    #[must_use]
    pub fn intents_all(&self) -> String {
        format!("{}.t.*.up.l.intent.*", self.root)
    }

    /// Returns a subject from client to worker.
    #[must_use]
    pub fn to_worker(
        &self,
        tenant: &Tenant,
        worker: Incarnation,
        session: SessionId,
        what: ToWorker,
    ) -> String {
        let verb = match what {
            ToWorker::Batch => "batch",
            ToWorker::Data => "data",
            ToWorker::State => "state",
            ToWorker::Memory => "memory",
            ToWorker::Offer => "offer",
            ToWorker::Ipc => "ipc",
        };
        format!("{}.t.{tenant}.up.w.{worker}.{session}.{verb}", self.root)
    }

    /// [`crate::MemoryStatusRequest`], tenant to worker, a request about itself.
    #[must_use]
    pub fn tenant_memory(&self, tenant: &Tenant, worker: Incarnation) -> String {
        format!("{}.t.{tenant}.up.w.{worker}.memory", self.root)
    }

    /// [`crate::RequestReports`], program to tracer.
    #[must_use]
    pub fn request_reports(&self, tenant: &Tenant) -> String {
        format!("{}.t.{tenant}.up.trace.requests", self.root)
    }

    /// Returns the pattern of all subjects in the stream of request reports.
    #[must_use]
    pub fn request_reports_all(&self) -> String {
        format!("{}.t.*.up.trace.requests", self.root)
    }

    /// Name of the JetStream stream of request reports.
    #[must_use]
    pub fn requests_stream(&self) -> String {
        format!("wl-{}-requests", self.cluster)
    }

    /// Returns a subject from leader or worker to client, about one session.
    #[must_use]
    pub fn to_client(&self, tenant: &Tenant, session: SessionId, what: ToClient) -> String {
        let verb = match what {
            ToClient::Worker => "worker",
            ToClient::Result => "result",
            ToClient::Leader => "leader",
            ToClient::Error => "error",
            ToClient::Memory => "memory",
            ToClient::Ipc => "ipc",
        };
        format!("{}.t.{tenant}.dn.{session}.{verb}", self.root)
    }

    /// Returns the pattern of all messages to a client about one session.
    #[must_use]
    pub fn session_inbound(&self, tenant: &Tenant, session: SessionId) -> String {
        format!("{}.t.{tenant}.dn.{session}.*", self.root)
    }

    /// Returns the pattern of all messages to clients about any session.
    #[must_use]
    pub fn sessions_inbound_all(&self) -> String {
        format!("{}.t.*.dn.*.*", self.root)
    }

    /// [`crate::LeaderBeat`] to all clients of a tenant, when a term begins.
    #[must_use]
    pub fn term(&self, tenant: &Tenant) -> String {
        format!("{}.t.{tenant}.dn.reign", self.root)
    }

    /// Returns the subjects to which every leader candidate subscribes, beside
    /// [`Self::from_tenants`].
    #[must_use]
    pub fn leader_inbound(&self) -> Vec<String> {
        let root = &self.root;
        vec![format!("{root}.s.l.>"), format!("{root}.s.ctl.*")]
    }

    /// Returns the subjects to which a worker subscribes, beside [`Self::from_tenants`].
    #[must_use]
    pub fn worker_inbound(&self, worker: Incarnation) -> Vec<String> {
        let root = &self.root;
        vec![format!("{root}.s.w.{worker}.>"), format!("{root}.s.lost")]
    }

    /// Returns the subject to which a role subscribes for one tenant, or for all.
    #[must_use]
    pub fn from_tenants(&self, role: HearsTenants, tenant: Option<&Tenant>) -> String {
        let (root, tenant) = (&self.root, tenant.map_or("*", Tenant::as_str));
        match role {
            HearsTenants::Candidate => format!("{root}.t.{tenant}.up.l.alive"),
            HearsTenants::Leader => format!("{root}.t.{tenant}.up.l.>"),
            HearsTenants::Worker(worker) => format!("{root}.t.{tenant}.up.w.{worker}.>"),
        }
    }

    /// [`crate::GrantBatch`], leader to worker.
    #[must_use]
    pub fn grants(&self, worker: Incarnation) -> String {
        format!("{}.s.w.{worker}.order", self.root)
    }

    /// [`crate::Seal`], leader to worker, a request.
    #[must_use]
    pub fn seal(&self, worker: Incarnation) -> String {
        format!("{}.s.w.{worker}.seal", self.root)
    }

    /// [`crate::Leave`], leader to worker.
    #[must_use]
    pub fn leave(&self, worker: Incarnation) -> String {
        format!("{}.s.w.{worker}.leave", self.root)
    }

    /// [`crate::Quotas`], leader to worker.
    #[must_use]
    pub fn quotas(&self, worker: Incarnation) -> String {
        format!("{}.s.w.{worker}.quotas", self.root)
    }

    /// [`crate::MemoryStatusRequest`], administrator to worker, a request about all tenants.
    #[must_use]
    pub fn memory(&self, worker: Incarnation) -> String {
        format!("{}.s.w.{worker}.memory", self.root)
    }

    /// [`crate::Lost`], leader to everyone in the cluster.
    #[must_use]
    pub fn lost(&self) -> String {
        format!("{}.s.lost", self.root)
    }

    /// [`crate::Done`], worker to leader.
    #[must_use]
    pub fn done(&self, worker: Incarnation) -> String {
        format!("{}.s.l.done.{worker}", self.root)
    }

    /// [`crate::WorkerBeat`], worker to leaders.
    #[must_use]
    pub fn worker_beat(&self, worker: Incarnation) -> String {
        format!("{}.s.l.worker.{worker}", self.root)
    }

    /// [`crate::Refusal`], worker to a stale leader.
    #[must_use]
    pub fn refusal(&self, worker: Incarnation) -> String {
        format!("{}.s.l.refusal.{worker}", self.root)
    }

    /// [`crate::Measured`], worker to leader.
    #[must_use]
    pub fn measured(&self, worker: Incarnation) -> String {
        format!("{}.s.l.measured.{worker}", self.root)
    }

    /// [`crate::LeaderBeat`], leader to candidates and workers.
    #[must_use]
    pub fn leader_beat(&self) -> String {
        format!("{}.s.l.beat", self.root)
    }

    /// [`crate::Usage`], worker to all readers of usage.
    #[must_use]
    pub fn usage(&self, worker: Incarnation) -> String {
        format!("{}.s.usage.{worker}", self.root)
    }

    /// [`crate::UsageBlock`], of the usage of a worker's tenants.
    #[must_use]
    pub fn usage_blocks(&self, worker: Incarnation) -> String {
        format!("{}.s.account.{worker}", self.root)
    }

    /// [`crate::UsageBlock`], of any worker, with others folded into it.
    #[must_use]
    pub fn usage_days(&self) -> String {
        format!("{}.s.account.days", self.root)
    }

    /// Returns the pattern of all subjects in the stream `account`, of usage blocks.
    #[must_use]
    pub fn usage_blocks_all(&self) -> String {
        format!("{}.s.account.*", self.root)
    }

    /// Name of the JetStream stream of usage blocks.
    #[must_use]
    pub fn usage_stream(&self) -> String {
        format!("wl-{}-account", self.cluster)
    }

    /// An administrator's request.
    #[must_use]
    pub fn admin(&self, verb: Admin) -> String {
        format!("{}.s.ctl.{}", self.root, verb.token())
    }

    /// Blocks of leader inputs of one epoch, in the record stream.
    #[must_use]
    pub fn record(&self, epoch: Epoch) -> String {
        format!("{}.s.record.{epoch}", self.root)
    }

    /// Returns the pattern of all subjects in the record stream.
    #[must_use]
    pub fn record_all(&self) -> String {
        format!("{}.s.record.*", self.root)
    }

    /// [`crate::UnstoredCopy`], leader to candidates.
    #[must_use]
    pub fn unstored(&self) -> String {
        format!("{}.s.unstored", self.root)
    }

    /// [`crate::UnstoredCopy`], leader to workers: a block that the stream has not acknowledged for a while.
    #[must_use]
    pub fn unstored_worker(&self) -> String {
        format!("{}.s.unstored.worker", self.root)
    }

    /// Request of a candidate to the leader for every block that is not stored: it may have missed
    /// some.
    #[must_use]
    pub fn unstored_ask(&self) -> String {
        format!("{}.s.unstored.ask", self.root)
    }

    /// Name of the record's JetStream stream.
    #[must_use]
    pub fn record_stream(&self) -> String {
        format!("wl-{}-record", self.cluster)
    }

    /// Name of the KV bucket that holds the lease, at key `leader`.
    #[must_use]
    pub fn lease_bucket(&self) -> String {
        format!("wl-{}-lease", self.cluster)
    }

    /// Name of the KV bucket with measurements of kernels, for people: a [`crate::KernelRecord`] by
    /// kernel key.
    #[must_use]
    pub fn kernel_bucket(&self) -> String {
        format!("wl-{}-kernels", self.cluster)
    }

    /// Name of the KV bucket with the data of controllers: tokens and logins.
    #[must_use]
    pub fn control_bucket(&self) -> String {
        format!("wl-{}-control", self.cluster)
    }

    /// Name of the KV bucket with controllers' answers to requests with an idempotency key.
    #[must_use]
    pub fn answers_bucket(&self) -> String {
        format!("wl-{}-answers", self.cluster)
    }

    /// Name of the KV bucket that holds tenants (`tenant.<name>`), `settings`, `profile`, `pin` and
    /// `placement`.
    #[must_use]
    pub fn state_bucket(&self) -> String {
        format!("wl-{}-state", self.cluster)
    }

    /// Name of the object store of published weights.
    #[must_use]
    pub fn weights_store(&self) -> String {
        format!("wl-{}-weights", self.cluster)
    }
}
