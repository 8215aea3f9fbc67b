//! Requests about memory shared between sessions, on their way to the device and back.

use actix::{Context, Handler};
use bus_schemas::subject::ToClient;
use bus_schemas::{IpcAction, IpcRequest, MessageError, SessionId, Tenant, decode, encode};
use gpu_worker_core::exports::ExportAction;

use super::actor::GpuWorker;
use super::device_command::Command;
use super::pager::{MemoryKept, PagerMessage};

impl GpuWorker {
    /// Handles a request. One that needs memory to stay on the device goes through the pager first.
    pub(super) fn on_ipc(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let request: IpcRequest = decode(payload)?;
        let Some(quota) = self.core.quota(session, tenant) else {
            return Ok(());
        };
        match request.action {
            IpcAction::Export { .. } | IpcAction::Import { .. } => {
                // If the request finds no room, the client asks again.
                let _ = self.pager.try_send(PagerMessage::Keep {
                    session,
                    tenant: tenant.clone(),
                    quota,
                    request,
                });
            }
            IpcAction::Find { .. } | IpcAction::Drop { .. } => {
                let next = self.exports.asked((tenant, session), request, Ok(()));
                self.exchange(next);
            }
        }
        Ok(())
    }

    /// Performs the next action: a command to the device or an answer to the client.
    pub(super) fn exchange(&mut self, next: Option<ExportAction>) {
        match next {
            Some(ExportAction::Device(session, action)) => {
                self.device.command(Command::Exchange(session, action));
            }
            Some(ExportAction::Answer(tenant, session, answer)) => {
                let subject = self.subjects.all.to_client(&tenant, session, ToClient::Ipc);
                self.outgoing.publish(subject.into(), encode(&answer));
            }
            None => {}
        }
    }
}

impl Handler<MemoryKept> for GpuWorker {
    type Result = ();

    fn handle(&mut self, kept: MemoryKept, ctx: &mut Context<Self>) {
        let (tenant, session) = (&kept.tenant, kept.session);
        // The session may have been closed meanwhile.
        if self.core.quota(session, tenant).is_some() {
            let next = self
                .exports
                .asked((tenant, session), kept.request, kept.kept);
            self.exchange(next);
        }
        self.settle(ctx);
    }
}
