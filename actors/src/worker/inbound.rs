//! Messages of the bus on their way to the worker core.

use actix::{Context, StreamHandler};
use bus_schemas::subject::{ToWorker, WorkerSubject};
use bus_schemas::{SessionId, Tenant};
use gpu_worker_core::worker::Event;

use super::actor::GpuWorker;
use crate::inbox::{Handled, Waste};

impl StreamHandler<async_nats::Message> for GpuWorker {
    fn handle(&mut self, message: async_nats::Message, ctx: &mut Context<Self>) {
        self.on_message(&message);
        self.settle(ctx);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The connection is closed for good; the role decides the fate of the worker.
    }
}

impl GpuWorker {
    fn on_message(&mut self, message: &async_nats::Message) {
        let Some(subject) = self.subjects.all.parse_worker(&message.subject) else {
            return self.count_malformed(&"a subject without a meaning");
        };
        let bytes = message.payload.len();
        match &subject {
            WorkerSubject::Tenant(tenant, session, what) => {
                if !self.tenants.hears(tenant, bytes) {
                    return;
                }
                self.pass_on(message, &subject);
                let is_sound = self.worker.is_sound();
                self.malformed += u64::from(!is_sound);
                self.count((tenant, *session), (*what, bytes), is_sound);
            }
            WorkerSubject::TenantMemory(tenant) => {
                if self.tenants.hears(tenant, bytes) {
                    self.tenants.knows(tenant);
                    self.tenants.wasted(tenant, Waste::Whole, bytes);
                    self.on_memory_status(message, &subject, tenant);
                }
            }
            WorkerSubject::Memory if message.reply.is_none() => {
                self.count_malformed(&"a request without a subject for its answer");
            }
            _ => self.pass_on(message, &subject),
        }
    }

    /// Hands a message to the core. Its answer goes to the subject that the message names for replies.
    fn pass_on(&mut self, message: &async_nats::Message, subject: &WorkerSubject) {
        self.reply.clone_from(&message.reply);
        self.handle_event(Event::Message(subject, &message.payload));
        self.reply = None;
    }

    /// Handles a tenant's request for the use of its memory. The answer goes only to an inbox of the
    /// tenant.
    fn on_memory_status(
        &mut self,
        message: &async_nats::Message,
        subject: &WorkerSubject,
        tenant: &Tenant,
    ) {
        let reply = message.reply.as_ref();
        if reply.is_some_and(|reply| self.subjects.all.is_inbound_of(tenant, reply)) {
            self.pass_on(message, subject);
        }
    }

    /// Charges a tenant's message of a session if it was useless.
    fn count(
        &self,
        (tenant, session): (&Tenant, SessionId),
        (what, bytes): (ToWorker, usize),
        is_sound: bool,
    ) {
        let handled = Handled {
            sound: is_sound,
            open: self.core().quota(session, tenant).is_some(),
            took: self.core().took(),
        };
        if handled.sound && handled.open {
            self.tenants.knows(tenant);
        }
        if let Some(waste) = Waste::at_worker(what, handled) {
            self.tenants.wasted(tenant, waste, bytes);
        }
    }

    /// Counts a message that could not be read, and logs some of them.
    pub(super) fn count_malformed(&mut self, error: &dyn std::fmt::Display) {
        self.malformed += 1;
        if self.malformed.is_power_of_two() {
            tracing::warn!(%error, count = self.malformed, "a message meant nothing");
        }
    }
}
