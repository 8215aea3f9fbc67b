//! A worker on a real broker, driven message by message as its leader and its client.

use std::path::PathBuf;
use std::time::Duration;

use actors::worker::{ExitReason, WorkerError, WorkerSettings, serve};
use async_nats::{Client, Subscriber};
use bus_schemas::subject::{Subjects, ToWorker};
use bus_schemas::{
    Allowance, Batch, ClientState, Column, CostRun, DataChunk, Failure, FunctionFingerprint, Grant,
    GrantBatch, GrantKind, Incarnation, KernelKey, LeaderId, ModuleHash, Op, OpenGrant, Rejected,
    Seal, SealReply, SessionId, Tenant, WIRE_VERSION, Window, WorkerAck, decode, encode, limits,
    write_descriptor,
};
use futures_util::StreamExt;
use test_cluster::{RoleThread, TestCluster};

use crate::device::TestDevice;

pub(crate) const WORKER: Incarnation = Incarnation(0xabc);
pub(crate) const CAPACITY: u64 = 1 << 30;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A received message: its contents and its subject.
pub(crate) struct Heard {
    pub(crate) subject: String,
    pub(crate) payload: Vec<u8>,
}

/// A worker in a thread of its own, its broker, and two connections that drive it.
pub(crate) struct DrivenWorker {
    pub(crate) cluster: TestCluster,
    pub(crate) subjects: Subjects,
    pub(crate) leader: Client,
    pub(crate) client: Client,
    leader_hears: Subscriber,
    client_hears: Subscriber,
    /// A second subscription to the client's messages, so that [`Self::run`] takes none from tests.
    acks: Subscriber,
    worker: RoleThread<Result<ExitReason, WorkerError>>,
    pub(crate) epoch: u64,
    next: u64,
    pub(crate) reports: u64,
}

pub(crate) fn tenant() -> Tenant {
    "a".parse().unwrap()
}

pub(crate) fn window(session: u64) -> Window {
    let size = limits::WINDOW_MIN_BYTES;
    Window {
        base: limits::ADDRESS_FIRST + session * size,
        size,
    }
}

impl DrivenWorker {
    pub(crate) async fn start(evidence: bool) -> Self {
        let cluster = TestCluster::start();
        let subjects = cluster.subjects();
        let leader = cluster.connect().await;
        let client = cluster.connect_tenant("a", None).await;
        let leader_hears = leader.subscribe(format!("wl.v1.{}.s.>", subjects.cluster()));
        let leader_hears = leader_hears.await.unwrap();
        let client_hears = client.subscribe(subjects.tenant_inbound(&tenant()));
        let client_hears = client_hears.await.unwrap();
        let acks = client
            .subscribe(subjects.tenant_inbound(&tenant()))
            .await
            .unwrap();
        leader.flush().await.unwrap();
        client.flush().await.unwrap();
        let mut settings = WorkerSettings::new(cluster.url(), subjects.cluster().clone(), 5);
        settings.bus.login = Some(cluster.cluster_login());
        settings.bus.patience = Some(TIMEOUT);
        settings.incarnation = Some(WORKER);
        settings.evidence = evidence.then(|| cluster.dir().join("started.jsonl"));
        let worker = RoleThread::start(|asked| {
            let make =
                Box::new(|| Ok(Box::new(TestDevice::new(CAPACITY)) as Box<dyn device::Device>));
            actix::System::new().block_on(serve(settings, make, asked))
        });
        Self {
            cluster,
            subjects,
            leader,
            client,
            leader_hears,
            client_hears,
            acks,
            worker,
            epoch: 1,
            next: 1,
            reports: 0,
        }
    }

    pub(crate) fn evidence(&self) -> PathBuf {
        self.cluster.dir().join("started.jsonl")
    }

    /// Waits for the next message to leaders with this word in its subject.
    pub(crate) async fn leader_heard(&mut self, word: &str) -> Heard {
        heard(&mut self.leader_hears, word).await
    }

    /// Waits for the next message to the client with a subject that ends so.
    pub(crate) async fn client_heard(&mut self, word: &str) -> Heard {
        heard(&mut self.client_hears, word).await
    }

    /// Reads acknowledgements until one satisfies the condition.
    pub(crate) async fn ack(&mut self, enough: impl Fn(&WorkerAck<'_>) -> bool) -> Heard {
        loop {
            let heard = self.client_heard(".worker").await;
            let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
            if enough(&ack) {
                return heard;
            }
        }
    }

    /// Reads done messages until one satisfies the condition.
    pub(crate) async fn done(&mut self, enough: impl Fn(&bus_schemas::Done<'_>) -> bool) -> Heard {
        loop {
            let heard = self.leader_heard(".done.").await;
            let done: bus_schemas::Done<'_> = decode(&heard.payload).unwrap();
            self.reports = self.reports.max(done.first + done.reports.len() as u64 - 1);
            if enough(&done) {
                return heard;
            }
        }
    }

    pub(crate) async fn seal(&mut self, epoch: u64, leader: u64) -> SealReply {
        let seal = Seal {
            v: WIRE_VERSION,
            epoch,
            leader: LeaderId(leader),
            after: None,
            times: true,
        };
        let subject = self.subjects.seal(WORKER);
        let reply = self
            .leader
            .request(subject, encode(&seal).into())
            .await
            .unwrap();
        decode(&reply.payload).unwrap()
    }

    /// Waits for the worker's first heartbeat and seals it.
    pub(crate) async fn begin(&mut self) {
        self.leader_heard(".worker.").await;
        let answer = self
            .seal(1, 1)
            .await
            .sealed
            .expect("the first seal is obeyed");
        assert_eq!((answer.gpu, answer.capacity), (5, CAPACITY));
    }

    pub(crate) async fn order_as(&self, epoch: u64, leader: u64, first: u64, grants: &[Grant]) {
        let mut packed = Vec::new();
        let opens = grants.iter().filter(|grant| grant.kind == GrantKind::Open);
        let order = GrantBatch {
            v: WIRE_VERSION,
            epoch,
            leader: LeaderId(leader),
            first,
            recorded: 0,
            reports: self.reports,
            opens: opens.map(|grant| open_grant(grant.session)).collect(),
            grants: Column::pack(grants, &mut packed),
        };
        let subject = self.subjects.grants(WORKER);
        self.leader
            .publish(subject, encode(&order).into())
            .await
            .unwrap();
    }

    pub(crate) async fn order(&mut self, grants: &[Grant]) {
        let first = self.next;
        self.next += grants.len() as u64;
        self.order_as(self.epoch, self.epoch, first, grants).await;
    }

    pub(crate) async fn open(&mut self, session: u64) {
        self.order(&[grant(GrantKind::Open, session, 0, 0, 0)])
            .await;
        let accepted = self.next - 1;
        self.done(|done| done.accepted >= accepted).await;
        self.ack(|ack| ack.send_through > 0).await;
    }

    pub(crate) async fn say(&self, session: u64, what: ToWorker, payload: Vec<u8>) {
        let subject = self
            .subjects
            .to_worker(&tenant(), WORKER, SessionId(session), what);
        self.client.publish(subject, payload.into()).await.unwrap();
    }

    pub(crate) async fn batch(&self, session: u64, first: u64, program: &Program) {
        let payload = program.batch(first);
        self.say(session, ToWorker::Batch, payload).await;
    }

    /// Sends the batch and, once the worker has it, grants it as one slice. A grant of ops that the
    /// worker lacks would be void.
    pub(crate) async fn run(&mut self, session: u64, first: u64, program: &Program) {
        self.batch(session, first, program).await;
        let last = first + program.count() - 1;
        let of = SessionId(session).to_string();
        loop {
            let heard = heard(&mut self.acks, ".worker").await;
            let ack: WorkerAck<'_> = decode(&heard.payload).unwrap();
            let knows = ack.received >= last || ack.failure.is_some();
            if heard.subject.contains(&of) && knows {
                break;
            }
        }
        let slice = grant(GrantKind::Run, session, first, last, program.declared);
        self.order(&[slice]).await;
    }

    pub(crate) async fn stage(
        &self,
        session: u64,
        transfer: u64,
        bytes: &[u8],
        module: Option<ModuleHash>,
    ) {
        for (index, part) in bytes.chunks(limits::CHUNK_BYTES).enumerate() {
            let chunk = DataChunk {
                v: WIRE_VERSION,
                transfer,
                total: bytes.len() as u64,
                offset: (index * limits::CHUNK_BYTES) as u64,
                hash: module.as_ref().map_or(&[], |hash| &hash.0),
                bytes: part,
            };
            self.say(session, ToWorker::Data, encode(&chunk)).await;
        }
    }

    /// Offers an image without its bytes.
    pub(crate) async fn offer(&self, session: u64, transfer: u64, image: &[u8]) {
        let chunk = DataChunk {
            v: WIRE_VERSION,
            transfer,
            total: image.len() as u64,
            offset: 0,
            hash: &ModuleHash::of(image).0,
            bytes: &[],
        };
        self.say(session, ToWorker::Data, encode(&chunk)).await;
    }

    pub(crate) async fn state(&self, session: u64, results: u64) {
        let state = ClientState {
            v: WIRE_VERSION,
            sent: 0,
            results,
        };
        self.say(session, ToWorker::State, encode(&state)).await;
    }

    /// Waits for the failure that the session is told after a malformed message.
    pub(crate) async fn rejected(&mut self) -> Failure {
        let heard = self.client_heard(".error").await;
        decode::<Rejected>(&heard.payload).unwrap().failure
    }

    /// Asks the worker to leave and waits until it has left.
    pub(crate) async fn leave(&mut self) -> Result<ExitReason, WorkerError> {
        self.worker.ask();
        self.left().await
    }

    /// Waits until the worker leaves by itself.
    pub(crate) async fn left(&mut self) -> Result<ExitReason, WorkerError> {
        self.worker.left(TIMEOUT).await
    }
}

async fn heard(source: &mut Subscriber, word: &str) -> Heard {
    let wanted = async {
        loop {
            let message = source.next().await.expect("the connection lives");
            if message.subject.contains(word) {
                return Heard {
                    subject: message.subject.to_string(),
                    payload: message.payload.to_vec(),
                };
            }
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, wanted).await;
    waited.unwrap_or_else(|_| panic!("nothing with {word:?} was said"))
}

pub(crate) fn grant(kind: GrantKind, session: u64, first: u64, last: u64, declared: u64) -> Grant {
    Grant {
        kind,
        priority: 2,
        global: 0,
        session: SessionId(session),
        first,
        last,
        cost: 1_000,
        declared,
        input: 1,
        epoch: 1,
    }
}

pub(crate) fn open_grant(session: SessionId) -> OpenGrant {
    OpenGrant {
        session,
        tenant: tenant(),
        ordinal: session.0,
        window: window(session.0),
        quota: 256 << 20,
        nonce: session.0,
        priority: 2,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
    }
}

/// Ops as a client packs and declares them.
#[derive(Default)]
pub(crate) struct Program {
    descriptors: Vec<u8>,
    blob: Vec<u8>,
    pub(crate) declared: u64,
}

impl Program {
    pub(crate) fn op(mut self, op: Op, payload: &[u8], key: KernelKey) -> Self {
        write_descriptor(&op, 0, payload.len() as u32, &mut self.descriptors);
        self.blob.extend_from_slice(payload);
        let declared = CostRun::of(&op, key).declared();
        self.declared = self.declared.wrapping_add(declared);
        self
    }

    pub(crate) fn plain(self, op: Op) -> Self {
        self.op(op, &[], KernelKey(0))
    }

    pub(crate) fn launch(self, image: &[u8], function: u32, name: &str) -> Self {
        let launch = bus_schemas::Launch {
            module: 0,
            function,
            grid: [7, 1, 1],
            block: [32, 1, 1],
            shared: 0,
            attributes: bus_schemas::LaunchAttributes::default(),
        };
        let fingerprint = FunctionFingerprint::new(&ModuleHash::of(image), name);
        let key = fingerprint.launch_key(&launch);
        self.op(Op::Launch(launch), b"parameters", key)
    }

    pub(crate) fn count(&self) -> u64 {
        (self.descriptors.len() / bus_schemas::DESCRIPTOR_BYTES) as u64
    }

    pub(crate) fn batch(&self, first: u64) -> Vec<u8> {
        encode(&Batch {
            v: WIRE_VERSION,
            first,
            count: self.count() as u32,
            results: 0,
            descriptors: &self.descriptors,
            blob: &self.blob,
        })
    }
}
