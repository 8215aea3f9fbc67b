//! A device under the names of OpenTelemetry's conventions for hardware.

use opentelemetry::KeyValue;

use super::Instruments;
use crate::catalogue::traces::{HW_ID, HW_TYPE};
use crate::catalogue::{self as table, HW_GPU_TASK, HW_MODEL, HW_VENDOR, Metric};
use crate::meters::{DeviceIdentity, Hardware};

impl Instruments<'_> {
    pub(super) fn hardware(&self) {
        type Bytes = fn(&Hardware) -> u64;
        let bytes: [(&'static Metric, Bytes); 2] = [
            (&table::HW_MEMORY_LIMIT, |it| it.identity.capacity),
            (&table::HW_MEMORY_USAGE, |it| it.used),
        ];
        for (metric, of) in bytes {
            self.level(metric, move |meters, out| {
                meters.each_hardware(|device| {
                    let bytes = i64::try_from(of(device)).unwrap_or(i64::MAX);
                    out.observe(bytes, &attributes(&device.identity));
                });
            });
        }
        self.time(&table::HW_MEMORY_UTILIZATION, |meters, out| {
            meters.each_hardware(|device| {
                out.observe(device.filled(), &attributes(&device.identity));
            });
        });
        self.time(&table::HW_UTILIZATION, |meters, out| {
            meters.each_hardware(|device| {
                let mut attributes = attributes(&device.identity);
                attributes.push(KeyValue::new(HW_GPU_TASK, "general"));
                out.observe(device.busy, &attributes);
            });
        });
    }
}

/// The attributes of a device. Its id is that of its spans.
fn attributes(identity: &DeviceIdentity) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(HW_ID, identity.gpu.to_string()),
        KeyValue::new(HW_TYPE, "gpu"),
        KeyValue::new(HW_MODEL, identity.model.clone()),
    ];
    let vendor = identity.vendor.map(|name| KeyValue::new(HW_VENDOR, name));
    attributes.extend(vendor);
    attributes
}
