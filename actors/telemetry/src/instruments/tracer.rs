//! A tracer's instruments.

use opentelemetry::KeyValue;

use super::{Instruments, seconds};
use crate::catalogue as table;
use crate::meters::gpu_attribute;

impl Instruments<'_> {
    /// Waits, idle time, and requests that are not traced.
    pub(super) fn tracer(&self) {
        self.amount(&table::WAIT, |meters, out| {
            meters.tracer().each_wait(|[tenant, cause, by], ns| {
                let attributes = [
                    KeyValue::new("warploom.tenant", tenant.to_owned()),
                    KeyValue::new("warploom.cause", cause.to_owned()),
                    KeyValue::new("warploom.by", by.to_owned()),
                ];
                out.observe(seconds(ns), &attributes);
            });
        });
        self.amount(&table::IDLE, |meters, out| {
            meters.tracer().each_idle(|gpu, cause, ns| {
                let attributes = [gpu_attribute(gpu), KeyValue::new("warploom.cause", cause)];
                out.observe(seconds(ns), &attributes);
            });
        });
        self.counter(&table::UNTRACED, |meters, out| {
            // All are there from the start, so that a monitor sees the first of each grow.
            meters.tracer().each_untraced(|reason, requests| {
                out.observe(requests, &[KeyValue::new("warploom.reason", reason)]);
            });
        });
    }
}
