//! A tenant states only its own facts. Each row of the table of facts is published by another
//! tenant.

use std::sync::{Arc, Mutex};

use async_nats::{Client, ConnectOptions, Event, ServerError};
use bus_schemas::subject::{
    ConnectionName, FACTS, Fact, FactNames, Speaker, Subjects, ToLeader, ToWorker,
};
use bus_schemas::{
    Alive, CloseReason, CloseRequest, DevicesRequest, LeaderBeat, LeaderId, Lost,
    MemoryStatusRequest, OpenRequest, Opened, Refusal, Status, Tenant, WIRE_VERSION, encode,
};
use futures_util::StreamExt;

use crate::loaded::{LoadedCluster, SOON, plan};

const V: u16 = WIRE_VERSION;

/// The hostile tenant: its own login, a connection name of its choice, and the broker's refusals.
struct Mallory {
    client: Client,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Mallory {
    async fn connect(loaded: &LoadedCluster, name: &str) -> Self {
        let cluster = &loaded.demo.cluster;
        let (user, password) = cluster.tenant_login("mallory");
        let refused = Arc::new(Mutex::new(Vec::new()));
        let seen = refused.clone();
        let tenant: Tenant = "mallory".parse().expect("a name");
        let client = ConnectOptions::with_user_and_password(user, password)
            .name(name)
            .custom_inbox_prefix(cluster.subjects().tenant_inbox(&tenant))
            .event_callback(move |event| {
                let seen = seen.clone();
                async move {
                    if let Event::ServerError(ServerError::Other(why)) = event {
                        seen.lock().expect("whole").push(why);
                    }
                }
            })
            .connect(cluster.broker.credentials().url.with_login())
            .await
            .expect("it has a login");
        Self { client, refused }
    }

    async fn say(&self, subject: &str, reply: Option<&str>, bytes: &[u8]) {
        let (subject, bytes) = (subject.to_owned(), bytes.to_vec().into());
        let said = match reply {
            Some(reply) => {
                let reply = reply.to_owned();
                self.client.publish_with_reply(subject, reply, bytes).await
            }
            None => self.client.publish(subject, bytes).await,
        };
        said.expect("it is connected");
        self.client.flush().await.expect("it is connected");
    }

    /// Publishes a forbidden message, and waits until the broker has refused it.
    async fn is_refused(&self, loaded: &LoadedCluster, subject: &str, bytes: &[u8]) {
        self.say(subject, None, bytes).await;
        let told = format!("\"{}\"", subject.to_lowercase());
        let look = |_: &LoadedCluster| {
            let refused = self.refused.lock().expect("whole");
            let mut refused = refused.iter().map(|why| why.to_lowercase());
            refused.any(|why| why.contains(&told)).then_some(())
        };
        loaded.wait(&format!("{subject} refused"), SOON, look).await;
    }
}

/// The parts of the attack: the victim's session, and the attacker's own.
struct Scene {
    subjects: Subjects,
    /// The victim's tenant, session and worker, and the current leader.
    victim: FactNames,
    /// The attacker's own session.
    own: Opened,
}

impl Scene {
    /// The row's fact about the victim, as the attacker would publish it.
    fn forged(&self, fact: &Fact) -> Vec<u8> {
        let FactNames {
            worker,
            session,
            leader,
            epoch,
            ..
        } = self.victim;
        let higher = epoch + 1_000;
        match fact.subject {
            "t.{t}.up.l.open" => encode(&OpenRequest {
                v: V,
                nonce: 77,
                connection: "client-victim".into(),
                devices: 1,
            }),
            "t.{t}.up.l.close" | "s.ctl.kill" => encode(&CloseRequest {
                v: V,
                session,
                after: 0,
                reason: CloseReason::Killed,
            }),
            "t.{t}.up.l.alive" => encode(&Alive {
                v: V,
                connection: "client-victim".into(),
                sessions: vec![session],
                workers: vec![worker],
                gpus: vec![0],
            }),
            "t.{t}.up.l.devices" => encode(&DevicesRequest { v: V }),
            "t.{t}.up.w.{w}.memory" | "s.w.{w}.memory" => {
                encode(&MemoryStatusRequest { v: V, after: None })
            }
            "s.l.refusal.{w}" => encode(&Refusal {
                v: V,
                epoch: higher,
                leader: LeaderId(1),
            }),
            "s.l.beat" | "t.{t}.dn.reign" => encode(&LeaderBeat {
                v: V,
                epoch: higher,
                leader: LeaderId(1),
                leaving: false,
            }),
            "s.lost" => encode(&Lost {
                v: V,
                epoch,
                leader,
                incarnation: worker,
            }),
            _ => b"\x81\xa1v\x01".to_vec(),
        }
    }

    /// A subject of the attacker that names the victim's session and worker.
    fn own_subject(&self, fact: &Fact) -> String {
        let names = FactNames {
            tenant: "mallory".parse().expect("a name"),
            ..self.victim.clone()
        };
        fact.subject(&self.subjects, &names)
    }

    /// Attacks one row in every possible way.
    async fn attack(&self, loaded: &LoadedCluster, mallory: &Mallory, fact: &Fact) {
        let bytes = self.forged(fact);
        let theirs = fact.subject(&self.subjects, &self.victim);
        mallory.is_refused(loaded, &theirs, &bytes).await;
        if fact.from == Speaker::Tenant {
            mallory.say(&self.own_subject(fact), None, &bytes).await;
            mallory.say(&self.own_subject(fact), None, b"").await;
            return;
        }
        // Other parties are asked to publish it for the attacker, as an answer to its request.
        let tenant: Tenant = "mallory".parse().expect("a name");
        let (worker, session) = (self.own.incarnation, self.own.session);
        let devices = self.subjects.to_leader(&tenant, ToLeader::Devices);
        let close = self.subjects.to_leader(&tenant, ToLeader::Close);
        let memory = self.subjects.tenant_memory(&tenant, worker);
        let batch = self
            .subjects
            .to_worker(&tenant, worker, session, ToWorker::Batch);
        let asked = encode(&DevicesRequest { v: V });
        mallory.say(&devices, Some(&theirs), &asked).await;
        mallory
            .say(&devices, Some(&theirs), b"\x81\xa1v\xcd\xff\xff")
            .await;
        mallory
            .say(&close, Some(&theirs), b"\x81\xa1v\xcd\xff\xff")
            .await;
        let asked = encode(&MemoryStatusRequest { v: V, after: None });
        mallory.say(&memory, Some(&theirs), &asked).await;
        mallory
            .say(&batch, Some(&theirs), b"\x91\xcd\xff\xff")
            .await;
    }
}

fn who_leads(status: &Status) -> (u64, LeaderId, Vec<bus_schemas::Incarnation>) {
    let workers = status.workers.iter().map(|it| it.incarnation);
    (status.epoch, status.leader, workers.collect())
}

/// Number of a tenant's sessions, according to the leader.
fn sessions(status: &Status, tenant: &str) -> u64 {
    let mut tenants = status.tenants.iter();
    let found = tenants.find(|it| it.tenant.as_str() == tenant);
    found.map_or(0, |it| it.sessions)
}

#[tokio::test]
async fn a_tenant_states_no_fact_but_its_own() {
    let plans = [plan("busy", "search", 2)];
    // A session with a closed connection would end soon.
    let settings = [("leader.connection_lost", "2s")];
    let mut loaded = LoadedCluster::start_with(2, 1, &plans, &settings).await;
    for name in ["victim", "mallory"] {
        loaded.guest(name, &plan(name, "search", 1).settings).await;
    }
    let (victim, subjects, opened) = loaded.join("victim").await;
    let (owner, _, own) = loaded.join("mallory").await;
    let before = loaded.status().await;
    let names = FactNames {
        tenant: "victim".parse().expect("a name"),
        worker: opened.incarnation,
        session: opened.session,
        leader: before.leader,
        epoch: before.epoch,
    };
    let inbox = format!("{}.any", subjects.tenant_inbox(&names.tenant));
    let mut answers = victim.subscribe(inbox).await.expect("subscribed");
    victim.flush().await.expect("flushed");
    let scene = Scene {
        subjects,
        victim: names,
        own,
    };
    let mallory = Mallory::connect(&loaded, "mallory").await;
    for fact in FACTS {
        scene.attack(&loaded, &mallory, fact).await;
    }
    // The broker's own events: connections of any name, closed.
    let leader = ConnectionName::Leader(scene.victim.leader).to_string();
    let worker = ConnectionName::Worker(scene.victim.worker).to_string();
    for name in [&leader, &worker, "client-victim"] {
        for _ in 0..5 {
            let named = Mallory::connect(&loaded, name).await;
            named.client.flush().await.expect("flushed");
        }
    }
    // The attacker's own session ends with its connection. By then another session would have
    // ended, too.
    assert!(sessions(&loaded.status().await, "mallory") > 0);
    drop(owner);
    let gone = |status: &Status| sessions(status, "mallory") == 0;
    let after = loaded.until("its own session has ended", gone).await;
    assert_eq!(sessions(&after, "victim"), 1);
    assert_eq!(who_leads(&after), who_leads(&before));
    let heard = answers.next();
    let heard = tokio::time::timeout(std::time::Duration::ZERO, heard).await;
    assert!(heard.is_err(), "an answer to another's request: {heard:?}");
    drop((mallory, victim));
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}
