//! A worker's reports on its device's memory to administrators and tenants.

use std::time::Duration;

use async_nats::{Client, StatusCode, Subject, Subscriber};
use bus_schemas::subject::ToWorker;
use bus_schemas::{
    ClientProcess, MemoryAnswer, MemoryRequest, MemoryStatus, MemoryStatusRequest, Op, SessionId,
    ShortText, Tenant, WIRE_VERSION, decode, encode,
};
use futures_util::StreamExt;

use crate::driven::{CAPACITY, DrivenWorker, Program, WORKER, tenant, window};

const QUOTA: u64 = 256 << 20;

/// A client that asks, on a connection of its own.
struct Asker {
    bus: Client,
    subject: Subject,
    inbox: String,
    hears: Subscriber,
}

impl Asker {
    async fn tenant(driven: &DrivenWorker, name: &str) -> Self {
        let bus = driven.cluster.connect_tenant(name, None).await;
        let tenant: Tenant = name.parse().unwrap();
        let subject = driven.subjects.tenant_memory(&tenant, WORKER);
        let inbox = driven.subjects.tenant_inbox(&tenant);
        Self::new(bus, subject, inbox).await
    }

    async fn administrator(driven: &DrivenWorker) -> Self {
        let bus = driven.cluster.connect().await;
        let inbox = driven.subjects.cluster_inbox();
        Self::new(bus, driven.subjects.memory(WORKER), inbox).await
    }

    async fn new(bus: Client, subject: String, inbox: String) -> Self {
        let inbox = format!("{inbox}.asked");
        let hears = bus.subscribe(inbox.clone()).await.unwrap();
        bus.flush().await.unwrap();
        Self {
            bus,
            subject: subject.into(),
            inbox,
            hears,
        }
    }

    /// Publishes a request with the given reply subject.
    async fn publish(&self, reply: &str, bytes: Vec<u8>) {
        let (subject, reply) = (self.subject.clone(), reply.to_owned());
        let published = self
            .bus
            .publish_with_reply(subject, reply, bytes.into())
            .await;
        published.unwrap();
        self.bus.flush().await.unwrap();
    }

    /// Waits a short time for the next answer.
    async fn heard(&mut self) -> Option<MemoryStatus> {
        let next = tokio::time::timeout(Duration::from_millis(300), self.hears.next());
        let message = next.await.ok()??;
        // The broker's answer if the subject has no subscriber.
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return None;
        }
        Some(decode(&message.payload).expect("a status"))
    }

    async fn ask(&mut self) -> MemoryStatus {
        let inbox = self.inbox.clone();
        self.publish(&inbox, request()).await;
        self.heard().await.expect("an answer")
    }
}

fn request() -> Vec<u8> {
    encode(&MemoryStatusRequest {
        v: WIRE_VERSION,
        after: None,
    })
}

/// Returns the worker's answer to the client of a session that holds `held` bytes.
async fn answered(driven: &mut DrivenWorker, held: u64) -> (u64, u64, u64) {
    let ask = MemoryRequest {
        v: WIRE_VERSION,
        number: 1,
        held,
        after: 0,
        wanted: 0,
        least: 0,
        recall: 0,
        process: Some(ClientProcess {
            host: ShortText::new("node-7"),
            pid: 4_711,
            name: ShortText::new("train\x1b[2J"),
        }),
        pinned: false,
    };
    driven.say(1, ToWorker::Memory, encode(&ask)).await;
    let heard = driven.client_heard(".memory").await;
    let answer: MemoryAnswer = decode(&heard.payload).unwrap();
    (answer.total, answer.held, answer.free)
}

#[tokio::test]
async fn a_tenant_and_an_administrator_are_told_what_a_client_is() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let program = Program::default()
        .plain(Op::Alloc {
            address: window(1).base,
            bytes: 1_000_001,
        })
        .plain(Op::Sync);
    driven.run(1, 1, &program).await;
    driven.ack(|ack| ack.done == 2).await;
    let held = 1_000_192;
    let figures = answered(&mut driven, held).await;
    assert_eq!(figures, (QUOTA, held, QUOTA - held));
    let mut own = Asker::tenant(&driven, "a").await;
    let status = own.ask().await;
    assert_eq!((status.incarnation, status.gpu), (WORKER, 5));
    assert_eq!((status.capacity, status.held, status.free), figures);
    let row = &status.tenants[0];
    assert_eq!((row.total, row.held, row.free), figures);
    assert_eq!((row.resident, row.sessions), (1_000_001, 1));
    let session = &status.sessions[0];
    assert_eq!((session.session, session.held), (SessionId(1), held));
    let process = session.process.expect("it was said");
    assert_eq!((process.pid, process.name.as_str()), (4_711, "train?[2J"));
    let mut all = Asker::administrator(&driven).await;
    let status = all.ask().await;
    assert_eq!(
        (status.capacity, status.held, status.free),
        (CAPACITY, held, CAPACITY - held)
    );
    assert_eq!(status.tenants, std::slice::from_ref(row));
    assert_eq!(status.tenants[0].tenant, tenant());
    // Another tenant learns nothing of it, and cannot have an answer sent to others.
    let mut other = Asker::tenant(&driven, "b").await;
    let status = other.ask().await;
    assert_eq!((status.capacity, status.held, status.free), (0, 0, 0));
    assert!(status.tenants.is_empty() && status.sessions.is_empty());
    other.publish(&own.inbox, request()).await;
    assert_eq!(own.heard().await, None);
}

#[tokio::test]
async fn floods_and_nonsense_are_not_answered_and_harm_nobody() {
    let mut driven = DrivenWorker::start(false).await;
    driven.begin().await;
    driven.open(1).await;
    let mut own = Asker::tenant(&driven, "a").await;
    let inbox = own.inbox.clone();
    let newer = encode(&MemoryStatusRequest {
        v: WIRE_VERSION + 1,
        after: None,
    });
    for bad in [
        Vec::new(),
        b"hello".to_vec(),
        vec![0xdf; 1 << 20],
        vec![0x91; 4 << 20],
        newer,
    ] {
        own.publish(&inbox, bad).await;
    }
    assert_eq!(own.heard().await, None);
    assert_eq!(own.ask().await.tenants.len(), 1);
    for _ in 0..2_000 {
        let published =
            own.bus
                .publish_with_reply(own.subject.clone(), inbox.clone(), request().into());
        published.await.unwrap();
    }
    own.bus.flush().await.unwrap();
    let mut answers = 0;
    while own.heard().await.is_some() {
        answers += 1;
    }
    assert!((1..1_000).contains(&answers), "{answers} of 2000");
    // Others are still answered.
    assert_eq!(
        Asker::administrator(&driven)
            .await
            .ask()
            .await
            .tenants
            .len(),
        1
    );
    // The tenant is heard again after it has been quiet for a while.
    let status = loop {
        own.publish(&inbox, request()).await;
        if let Some(status) = own.heard().await {
            break status;
        }
    };
    assert_eq!(status.tenants.len(), 1);
}
