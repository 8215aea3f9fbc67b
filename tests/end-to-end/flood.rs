//! A tenant that floods: leader and worker end its subscription for a while, and no other.

use async_nats::client::RequestErrorKind;
use bus_schemas::subject::{ToLeader, ToWorker};
use bus_schemas::{
    DevicesRequest, Incarnation, MemoryStatusRequest, SessionId, WIRE_VERSION, encode,
};

use crate::loaded::{LoadedCluster, plan};

/// Messages sent at once to each role, so many that even a role that takes seconds for them stops
/// listening.
const BURST: usize = 20_000;

/// A tenant's connection, its questions to the leader and to a worker, and the subjects on which it
/// sends them nonsense.
struct Asker {
    client: async_nats::Client,
    questions: [(String, Vec<u8>); 2],
    nonsense: [String; 2],
}

impl Asker {
    async fn join(loaded: &LoadedCluster, tenant: &str, worker: Incarnation) -> Self {
        let cluster = &loaded.demo.cluster;
        let client = cluster.connect_tenant(tenant, None).await;
        let (subjects, name) = (cluster.subjects(), tenant.parse().expect("a name"));
        let (v, after, nobody) = (WIRE_VERSION, None, SessionId(1));
        let devices = subjects.to_leader(&name, ToLeader::Devices);
        let memory = subjects.tenant_memory(&name, worker);
        Self {
            client,
            questions: [
                (devices, encode(&DevicesRequest { v })),
                (memory, encode(&MemoryStatusRequest { v, after })),
            ],
            nonsense: [
                subjects.to_leader(&name, ToLeader::Close),
                subjects.to_worker(&name, worker, nobody, ToWorker::Batch),
            ],
        }
    }

    async fn flood(&self) {
        for subject in &self.nonsense {
            for _ in 0..BURST {
                let said = self.client.publish(subject.clone(), "x".into()).await;
                said.expect("published");
            }
        }
        self.client.flush().await.expect("flushed");
    }

    /// True for the leader and for the worker if they listen to it.
    async fn is_heard(&self) -> [bool; 2] {
        let mut heard = [false; 2];
        for (heard, (subject, question)) in heard.iter_mut().zip(&self.questions) {
            let asked = self
                .client
                .request(subject.clone(), question.clone().into());
            *heard = match asked.await {
                Ok(_) => true,
                // It was heard while it was being silenced, or the machine is busy.
                Err(error) if error.kind() == RequestErrorKind::TimedOut => true,
                Err(error) if error.kind() == RequestErrorKind::NoResponders => false,
                Err(error) => panic!("{error}"),
            };
        }
        heard
    }
}

#[tokio::test]
async fn a_tenant_that_floods_is_silenced_at_the_broker_and_its_neighbour_is_not() {
    let plans = ["loud", "quiet"].map(|tenant| plan(tenant, "small", 1));
    let loaded = LoadedCluster::idle(2, 1, &plans, &[]).await;
    let worker = loaded.status().await.workers[0].incarnation;
    let loud = Asker::join(&loaded, "loud", worker).await;
    let quiet = Asker::join(&loaded, "quiet", worker).await;
    assert_eq!(quiet.is_heard().await, [true; 2], "the worker knows it");
    let mut silenced = [false; 2];
    while silenced != [true; 2] {
        loud.flood().await;
        let heard = loud.is_heard().await;
        for (silenced, heard) in silenced.iter_mut().zip(heard) {
            *silenced |= !heard;
        }
        assert_eq!(quiet.is_heard().await, [true; 2], "it does not flood");
    }
    // It is heard again once it is quiet.
    while loud.is_heard().await != [true; 2] {}
    assert_eq!(quiet.is_heard().await, [true; 2]);
}
