//! The devices of a tenant, which its clients may query without opening a session.

use bus_schemas::{
    Devices, DevicesRequest, Failure, Tenant, TenantDevice, WIRE_VERSION, decode, encode, limits,
};

use super::clients::Refused;
use super::context::Context;
use super::term::Term;

impl Term {
    /// Answers a tenant's query for the devices on which its sessions may be placed.
    pub(super) fn devices(
        &self,
        tenant: &Tenant,
        bytes: &[u8],
        reply: Option<&str>,
        cx: &mut Context<'_>,
    ) {
        let Some(reply) = reply else { return };
        let devices = match decode::<DevicesRequest>(bytes) {
            Ok(_) => self.devices_of(tenant, cx),
            Err(error) => Err(error.into()),
        };
        let (devices, failure) = match devices {
            Ok(devices) => (devices, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        let answer = Devices {
            v: WIRE_VERSION,
            devices,
            failure,
        };
        self.publisher
            .publish(reply.into(), encode(&answer), cx.actions);
    }

    fn devices_of(&self, tenant: &Tenant, cx: &Context<'_>) -> Result<Vec<TenantDevice>, Failure> {
        let places = self.scheduler.devices(tenant).map_err(|code| {
            let refused = Refused { code, share: None };
            refused.failure(tenant)
        })?;
        let places = places.into_iter().take(limits::DEVICES_NAMED);
        let devices = places.map(|place| {
            let member = cx.members.get(place.incarnation);
            TenantDevice {
                incarnation: place.incarnation,
                gpu: place.gpu,
                quota: place.quota,
                properties: member
                    .and_then(|member| member.properties.clone())
                    .unwrap_or_default(),
            }
        });
        Ok(devices.collect())
    }
}
