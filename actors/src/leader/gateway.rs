//! The gateway: reads messages from the broker and forwards them to the actors.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use actix::dev::SendError;
use actix::{Addr, Recipient};
use async_nats::Message;
use bus_schemas::subject::{Author, LeaderSubject, Subjects, ToLeader, Users};
use bus_schemas::{SessionId, Tenant};
use futures_util::{Stream, StreamExt as _};

use super::events::Events;
use super::messages::LeaderMessage;
use super::queue::{self, KernelQueue};
use super::tenant::{self, Asked};
use crate::inbox::{Inbox, Waste};
use bus::{BusSettings, connect};
use telemetry::Telemetry;

/// The receivers of messages. The leader owns it; the tasks that read subscriptions use it.
pub(super) struct Router {
    pub(super) subjects: Subjects,
    pub(super) inbox: String,
    pub(super) leader: Recipient<LeaderMessage>,
    pub(super) telemetry: Telemetry,
    /// Messages of tenants.
    pub(super) tenants_inbox: Inbox,
    pub(super) queues: RefCell<HashMap<SessionId, (Tenant, Addr<KernelQueue>)>>,
    pub(super) tenants: RefCell<HashMap<Tenant, Addr<tenant::Tenant>>>,
    /// True if the candidate leads. Only a leader serves clients; a candidate only hears their
    /// signs of life.
    pub(super) leading: Cell<bool>,
    /// Maximum age of the record, seconds.
    pub(super) record_age: Cell<u64>,
    /// Time for which usage is kept in detail, seconds.
    pub(super) usage_age: Cell<u64>,
    /// Messages dropped because a mailbox was full.
    dropped: Cell<u64>,
}

impl Router {
    pub(super) fn new(
        subjects: Subjects,
        inbox: String,
        leader: Recipient<LeaderMessage>,
        telemetry: Telemetry,
        tenants_inbox: Inbox,
    ) -> Self {
        Self {
            subjects,
            inbox,
            leader,
            telemetry,
            tenants_inbox,
            queues: RefCell::default(),
            tenants: RefCell::default(),
            leading: Cell::new(false),
            record_age: Cell::new(u64::MAX),
            usage_age: Cell::new(u64::MAX),
            dropped: Cell::new(0),
        }
    }

    /// Forwards a message to its actor.
    fn route(&self, message: Message) {
        let subject = message.subject.as_str();
        if let Some(worker) = subject.strip_prefix(&self.inbox) {
            if let Ok(incarnation) = worker.parse() {
                let bytes = message.payload;
                self.send(LeaderMessage::SealReply { incarnation, bytes });
            }
            return;
        }
        match self.subjects.parse_leader(subject) {
            Some(LeaderSubject::Tenant(tenant, what)) => self.route_client(tenant, what, message),
            None => {}
            Some(subject) => self.send(LeaderMessage::Message {
                subject,
                reply: message.reply,
                bytes: message.payload,
            }),
        }
    }

    fn route_client(&self, tenant: Tenant, what: ToLeader, message: Message) {
        if !self.tenants_inbox.hears(&tenant, message.payload.len()) {
            return;
        }
        if !self.leading.get() {
            self.waste(&tenant, Waste::Whole, &message);
            // A candidate notes which clients live: it may lead next.
            if what == ToLeader::Alive {
                self.ask_leader(tenant, what, message);
            }
            return;
        }
        if let ToLeader::Intent(session) = what
            && let Some((owner, queue)) = self.queues.borrow().get(&session)
            && *owner == tenant
        {
            let message = queue::QueueMessage::Intent(message.payload);
            match queue.try_send(message) {
                Ok(()) => {}
                Err(SendError::Full(_)) => self.drop_one(),
                Err(SendError::Closed(_)) => self.send(LeaderMessage::QueueDied(session)),
            }
            return;
        }
        self.waste(&tenant, Waste::at_leader(what), &message);
        let tenants = self.tenants.borrow();
        let Some(actor) = tenants.get(&tenant) else {
            // The tenant does not exist: the leader refuses the message.
            return self.ask_leader(tenant, what, message);
        };
        let asked = Asked {
            what,
            reply: message.reply,
            bytes: message.payload,
        };
        if actor.try_send(asked).is_err() {
            self.drop_one();
        }
    }

    /// Charges a message to its tenant's account.
    fn waste(&self, tenant: &Tenant, waste: Waste, message: &Message) {
        let bytes = message.payload.len();
        self.tenants_inbox.wasted(tenant, waste, bytes);
    }

    fn ask_leader(&self, tenant: Tenant, what: ToLeader, message: Message) {
        self.send(LeaderMessage::Message {
            subject: LeaderSubject::Tenant(tenant, what),
            reply: message.reply,
            bytes: message.payload,
        });
    }

    /// Sends without waiting. Important messages of the bus are repeated.
    fn send(&self, message: LeaderMessage) {
        if self.leader.try_send(message).is_err() {
            self.drop_one();
        }
    }

    fn drop_one(&self) {
        let dropped = self.dropped.get() + 1;
        self.dropped.set(dropped);
        if dropped.is_power_of_two() {
            tracing::warn!(dropped, "messages dropped: mailboxes are full");
        }
    }
}

/// Forwards messages until the source ends.
pub(super) async fn receive(source: impl Stream<Item = Message>, router: Rc<Router>) {
    let mut source = std::pin::pin!(source);
    while let Some(message) = source.next().await {
        router.route(message);
    }
}

/// Sends the leader the names of connections that the broker closed, each with its owner. Without a
/// system account this receives nothing, and the leader relies on heartbeats alone.
pub(super) async fn disconnects(
    settings: BusSettings,
    events: Events,
    leader: Recipient<LeaderMessage>,
) {
    let Events { subject, users, .. } = events;
    let client = match connect(&settings).await {
        Ok((client, _links)) => client,
        Err(error) => {
            tracing::warn!(%error, "no disconnect events");
            return;
        }
    };
    let mut source = match client.subscribe(subject).await {
        Ok(source) => source,
        Err(error) => {
            tracing::warn!(%error, "no disconnect events");
            return;
        }
    };
    while let Some(message) = source.next().await {
        let Some((name, author)) = closed(&message.payload, &users) else {
            continue;
        };
        // The event is not repeated.
        if leader
            .send(LeaderMessage::Closed(name, author))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Returns the connection's name in a disconnect event, and the owner of its login. The client
/// chooses the name; the broker vouches for the user.
fn closed(payload: &[u8], users: &Users) -> Option<(String, Author)> {
    #[derive(serde::Deserialize)]
    struct Event {
        client: Client,
    }
    #[derive(serde::Deserialize)]
    struct Client {
        name: Option<String>,
        user: Option<String>,
    }
    let event: Event = serde_json::from_slice(payload).ok()?;
    let author = users.author(event.client.user.as_deref());
    Some((event.client.name?, author))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_known_by_its_login() {
        let users = Users::new(Some("cluster".into()));
        let event = |client: &str| closed(format!("{{\"client\":{client}}}").as_bytes(), &users);
        let name = "worker-07".to_owned();
        let own = event(r#"{"name":"worker-07","user":"cluster","acc":"WL"}"#);
        assert_eq!(own, Some((name.clone(), Author::Cluster)));
        let tenant = event(r#"{"name":"worker-07","user":"tenant-chat"}"#);
        let chat = Author::Tenant("chat".parse().unwrap());
        assert_eq!(tenant, Some((name.clone(), chat)));
        assert_eq!(
            event(r#"{"name":"worker-07"}"#),
            Some((name, Author::Unknown))
        );
        assert_eq!(event(r#"{"user":"cluster"}"#), None);
        assert_eq!(closed(b"{", &users), None);
    }
}
