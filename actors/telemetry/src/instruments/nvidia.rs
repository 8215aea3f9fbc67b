//! A device under the metric names of NVIDIA's exporter (`dcgm-exporter`), so that dashboards made
//! for that exporter work.

use opentelemetry::KeyValue;

use super::Instruments;
use crate::catalogue::{self as table, Metric};
use crate::export::host_name;
use crate::meters::{Holder, Share, SharedDevice};

/// Bytes as NVIDIA's exporter counts them.
const MIB: f64 = (1 << 20) as f64;

impl Instruments<'_> {
    pub(super) fn nvidia(&self) {
        type Of = fn(&Share) -> f64;
        let host = host_name();
        let rows: [(&'static Metric, Of); 3] = [
            (&table::DCGM_UTIL, |share| share.busy),
            (&table::DCGM_USED, |share| share.resident as f64 / MIB),
            (&table::DCGM_SM_ACTIVE, |share| share.sms),
        ];
        for (metric, of) in rows {
            let host = host.clone();
            self.time(metric, move |meters, out| {
                meters.each_shared(|device| {
                    for (holder, share) in &device.shares {
                        out.observe(of(share), &attributes(device, &host, Some(holder)));
                    }
                });
            });
        }
        self.time(&table::DCGM_FREE, move |meters, out| {
            meters.each_shared(|device| {
                let free = device.free() as f64 / MIB;
                out.observe(free, &attributes(device, &host, None));
            });
        });
    }
}

fn attributes(device: &SharedDevice, host: &str, holder: Option<&Holder>) -> Vec<KeyValue> {
    let identity = &device.identity;
    let mut attributes = vec![
        KeyValue::new("gpu", i64::from(identity.gpu)),
        KeyValue::new("UUID", identity.uuid.clone()),
        KeyValue::new("device", format!("nvidia{}", identity.gpu)),
        KeyValue::new("modelName", identity.model.clone()),
        KeyValue::new("Hostname", host.to_owned()),
    ];
    if let Some(holder) = holder {
        attributes.extend([
            KeyValue::new("exported_namespace", holder.tenant.clone()),
            KeyValue::new("exported_pod", holder.host.clone()),
            KeyValue::new("exported_container", holder.program.clone()),
        ]);
    }
    attributes
}
