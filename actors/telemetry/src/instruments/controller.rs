//! A controller's instruments.

use opentelemetry::KeyValue;

use super::{Instruments, seconds};
use crate::catalogue::{self as table, Metric};
use crate::meters::{TenantMemoryReading, gpu_attribute, tenant_attribute};

impl Instruments<'_> {
    /// The API itself, and the last verification of the order.
    pub(super) fn interface(&self) {
        self.counter(&table::API_REQUESTS, |meters, out| {
            meters.controller().each_answer(|operation, status, count| {
                let operation = KeyValue::new("warploom.operation", operation);
                let status = KeyValue::new("warploom.status", i64::from(status));
                out.observe(count, &[operation, status]);
            });
        });
        self.gauge(&table::API_STREAMS, |meters, out| {
            let controller = meters.controller();
            controller.see_cluster(|cluster| out.observe(cluster.streams, &[]));
        });
        self.time(&table::PRICE, |meters, out| {
            meters.controller().each_price(|price| {
                let credit = KeyValue::new("warploom.credit", price.credit);
                let currency = KeyValue::new("warploom.currency", price.currency.clone());
                out.observe(price.price, &[credit, currency]);
            });
        });
        self.gauge(&table::ORDER_VERIFIED, |meters, out| {
            if let Some(last) = meters.controller().last_verified() {
                out.observe(last.same.into(), &[]);
            }
        });
        self.time(&table::ORDER_VERIFIED_TIME, |meters, out| {
            if let Some(last) = meters.controller().last_verified() {
                out.observe(last.at_ms as f64 / 1e3, &[]);
            }
        });
    }

    /// The cluster's leader and workers.
    pub(super) fn cluster(&self) {
        self.gauge(&table::CLUSTER_LEADING, |meters, out| {
            let controller = meters.controller();
            controller.see_cluster(|cluster| out.observe(cluster.epoch.is_some().into(), &[]));
        });
        self.gauge(&table::CLUSTER_EPOCH, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                if let Some(epoch) = cluster.epoch {
                    out.observe(epoch, &[]);
                }
            });
        });
        self.gauge(&table::CLUSTER_WORKERS, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                let states = ["live", "draining"].into_iter();
                for (state, workers) in states.zip(cluster.workers) {
                    out.observe(workers, &[KeyValue::new("warploom.state", state)]);
                }
            });
        });
    }

    /// Activity of tenants.
    pub(super) fn cluster_tenants(&self) {
        self.gauge(&table::CLUSTER_SESSIONS, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                for (tenant, reading) in &cluster.tenants {
                    out.observe(reading.sessions, &[tenant_attribute(tenant)]);
                }
            });
        });
        self.gauge(&table::CLUSTER_QUEUED, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                for (tenant, reading) in &cluster.tenants {
                    out.observe(reading.queued, &[tenant_attribute(tenant)]);
                }
            });
        });
        self.time(&table::CLUSTER_P99, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                for (tenant, reading) in cluster.tenants.iter().filter(|(_, it)| it.requests > 0) {
                    out.observe(seconds(reading.p99_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        self.time(&table::CLUSTER_TARGET, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                for (tenant, reading) in cluster.tenants.iter().filter(|(_, it)| it.target_ns > 0) {
                    out.observe(seconds(reading.target_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        self.time(&table::CLUSTER_ATTAINMENT, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                let tenants = cluster.tenants.iter();
                for (tenant, it) in tenants.filter(|(_, it)| it.target_ns > 0 && it.requests > 0) {
                    let attained = it.within as f64 / it.requests as f64;
                    out.observe(attained, &[tenant_attribute(tenant)]);
                }
            });
        });
    }

    /// Device memory of tenants.
    pub(super) fn cluster_memory(&self) {
        type Of = fn(&TenantMemoryReading) -> u64;
        let rows: [(&'static Metric, Of); 4] = [
            (&table::CLUSTER_HELD, |it| it.held),
            (&table::CLUSTER_RESIDENT, |it| it.resident),
            (&table::CLUSTER_SWAPPED, |it| it.swapped),
            (&table::CLUSTER_SAVED, |it| it.saved),
        ];
        for (metric, of) in rows {
            self.gauge(metric, move |meters, out| {
                meters.controller().see_cluster(|cluster| {
                    for ((gpu, tenant), reading) in &cluster.memory {
                        let attributes = [tenant_attribute(tenant), gpu_attribute(*gpu)];
                        out.observe(of(reading), &attributes);
                    }
                });
            });
        }
        self.gauge(&table::CLUSTER_CAPACITY, |meters, out| {
            meters.controller().see_cluster(|cluster| {
                for (gpu, capacity) in &cluster.capacity {
                    out.observe(*capacity, &[gpu_attribute(*gpu)]);
                }
            });
        });
    }
}
