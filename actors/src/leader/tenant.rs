//! The Tenant actor: the requests of one tenant's clients, in a mailbox of its own, so that a
//! tenant's flood harms only that tenant.

use actix::dev::SendError;
use actix::{Actor, Addr, Context, Handler, Message, Recipient};
use async_nats::Subject;
use bus_schemas::subject::{LeaderSubject, ToLeader};
use bytes::Bytes;

use super::messages::LeaderMessage;

/// Capacity of a tenant's mailbox.
const MAILBOX: usize = 512;
/// Maximum number of requests of one tenant in the leader's mailbox.
const FORWARDED: usize = 256;

/// A client's request.
pub(super) struct Asked {
    pub(super) what: ToLeader,
    pub(super) reply: Option<Subject>,
    pub(super) bytes: Bytes,
}

impl Message for Asked {
    type Result = ();
}

/// Tells that the leader took up requests.
pub(super) struct TakenUp;

impl Message for TakenUp {
    type Result = ();
}

/// One tenant.
pub(super) struct Tenant {
    pub(super) name: bus_schemas::Tenant,
    pub(super) leader: Recipient<LeaderMessage>,
    /// Number of requests forwarded and not taken up.
    forwarded: usize,
    /// Number of requests not forwarded: their clients ask again.
    turned_away: u64,
}

impl Tenant {
    pub(super) fn launch(
        name: bus_schemas::Tenant,
        leader: Recipient<LeaderMessage>,
    ) -> Addr<Self> {
        let tenant = Self {
            name,
            leader,
            forwarded: 0,
            turned_away: 0,
        };
        tenant.start()
    }
}

impl Actor for Tenant {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<Asked> for Tenant {
    type Result = ();

    fn handle(&mut self, asked: Asked, _ctx: &mut Self::Context) {
        let message = LeaderMessage::Message {
            subject: LeaderSubject::Tenant(self.name.clone(), asked.what),
            reply: asked.reply,
            bytes: asked.bytes,
        };
        let sent = match self.forwarded {
            FORWARDED.. => Err(SendError::Full(message)),
            _ => self.leader.try_send(message),
        };
        match sent {
            Ok(()) => self.forwarded += 1,
            Err(_) => {
                self.turned_away += 1;
                if self.turned_away.is_power_of_two() {
                    let (tenant, times) = (&self.name, self.turned_away);
                    tracing::warn!(%tenant, times, "a tenant asks more than can be answered");
                }
            }
        }
    }
}

impl Handler<TakenUp> for Tenant {
    type Result = ();

    fn handle(&mut self, _: TakenUp, _ctx: &mut Self::Context) {
        self.forwarded = 0;
    }
}
