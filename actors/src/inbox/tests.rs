//! Tests of the inbox with a real nats-server.

use std::cell::Cell;

use bus_schemas::Incarnation;
use bus_schemas::subject::ToLeader;
use test_cluster::TestBroker;
use tokio::task::LocalSet;

use super::*;
use crate::testing::connect;

const WORKER: Incarnation = Incarnation(7);

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

/// An inbox at a broker, and the publishing tenants.
struct Scene {
    inbox: Inbox,
    messages: Messages,
    publisher: Client,
    subjects: Subjects,
    /// Number of the next message of tenant `b`, which numbers its messages.
    next: Cell<u64>,
}

impl Scene {
    async fn open(broker: &TestBroker) -> Self {
        let subjects = Subjects::new(&"test".parse().unwrap());
        let client = connect(broker, &subjects).await;
        let role = HearsTenants::Worker(WORKER);
        let inbox = Inbox::open(client, subjects.clone(), role).await.unwrap();
        for name in ["a", "b"] {
            inbox.knows(&tenant(name));
        }
        Self {
            messages: inbox.messages(),
            publisher: connect(broker, &subjects).await,
            inbox,
            subjects,
            next: Cell::new(0),
        }
    }

    async fn say(&self, name: &str, number: u64) {
        let role = HearsTenants::Worker(WORKER);
        let subject = self.subjects.from_tenants(role, Some(&tenant(name)));
        let subject = subject.replace('>', "1.batch");
        let payload = number.to_be_bytes().to_vec().into();
        self.publisher.publish(subject, payload).await.unwrap();
    }

    /// Receives a message: `true` and its number if it is of tenant `b`. Each message of `a` that
    /// is heard is useless.
    async fn hear(&mut self) -> (bool, u64) {
        let message = self.messages.next().await.unwrap();
        let number = u64::from_be_bytes(message.payload[..].try_into().unwrap());
        let of_b = message.subject.contains(".t.b.");
        if !of_b && self.inbox.hears(&tenant("a"), 8) {
            self.inbox.wasted(&tenant("a"), Waste::Whole, 8);
        }
        if of_b {
            let next = self.next.get();
            assert!(number <= next, "{number} comes before {next}");
            self.next.set(next.max(number + 1));
        }
        (of_b, number)
    }

    /// Publishes and receives until all of `b` up to this number is received.
    async fn through(&mut self, number: u64) {
        while self.next.get() <= number {
            self.hear().await;
        }
    }

    /// Waits until a condition of the inbox holds, while `b` goes on.
    async fn until(&mut self, holds: impl Fn(&State) -> bool) {
        while !holds(&self.inbox.state.borrow()) {
            let number = self.next.get();
            self.say("b", number).await;
            self.through(number).await;
        }
    }
}

#[tokio::test]
async fn one_that_floods_is_not_listened_to_and_the_others_lose_nothing() {
    let broker = TestBroker::start();
    let at = async {
        let mut scene = Scene::open(&broker).await;
        let (a, b) = (tenant("a"), tenant("b"));
        // The broker drops messages once the subscription has ended.
        while !scene.inbox.state.borrow().mode.guarded || scene.inbox.state.borrow().gate.hears(&a)
        {
            for _ in 0..50 {
                scene.say("a", 0).await;
            }
            let number = scene.next.get();
            scene.say("b", number).await;
            scene.through(number).await;
        }
        let heard = scene.inbox.state.borrow().now.tenants();
        assert_eq!(heard, [b.clone()].into());
        assert!(scene.inbox.hears(&b, 8));
        // The tenant is heard again after it has been quiet, now by a subscription of its own.
        scene.until(|state| state.now.tenants().contains(&a)).await;
        // Repeated until received: the broker may not have the subscription yet.
        let soon = Duration::from_millis(10);
        loop {
            scene.say("a", 1).await;
            if let Ok((false, 1)) = tokio::time::timeout(soon, scene.hear()).await {
                break;
            }
        }
        // A new tenant is heard too.
        scene.inbox.knows(&tenant("c"));
        scene.until(|state| state.now.tenants().len() == 3).await;
        // Long after the last flood, one subscription serves all tenants.
        scene.inbox.state.borrow_mut().gate.forgive();
        scene.until(|state| !state.mode.guarded).await;
        let number = scene.next.get();
        scene.say("b", number).await;
        scene.through(number).await;
        assert!(scene.inbox.state.borrow().now.tenants().is_empty());
    };
    LocalSet::new().run_until(at).await;
}

#[tokio::test]
async fn a_candidate_hears_who_lives_and_a_leader_all() {
    let broker = TestBroker::start();
    let at = async {
        let subjects = Subjects::new(&"test".parse().unwrap());
        let client = connect(&broker, &subjects).await;
        let role = HearsTenants::Candidate;
        let inbox = Inbox::open(client, subjects.clone(), role).await.unwrap();
        let mut messages = inbox.messages();
        let publisher = connect(&broker, &subjects).await;
        let say = async |what: ToLeader| {
            let subject = subjects.to_leader(&tenant("a"), what);
            publisher.publish(subject, Bytes::new()).await.unwrap();
            publisher.flush().await.unwrap();
        };
        say(ToLeader::Open).await;
        say(ToLeader::Alive).await;
        let first = messages.next().await.unwrap();
        assert!(first.subject.ends_with(".alive"), "{}", first.subject);
        inbox.hear_as(HearsTenants::Leader);
        while inbox.state.borrow().mode.role != HearsTenants::Leader {
            tokio::task::yield_now().await;
        }
        // Repeated until received: the broker may not have the subscription yet.
        let opened = loop {
            say(ToLeader::Open).await;
            let soon = tokio::time::timeout(Duration::from_millis(10), messages.next()).await;
            if let Ok(message) = soon {
                break message.unwrap();
            }
        };
        assert!(opened.subject.ends_with(".open"), "{}", opened.subject);
    };
    LocalSet::new().run_until(at).await;
}
