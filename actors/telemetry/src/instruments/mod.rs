//! The OpenTelemetry instruments of the meters. They are made once from the table in `catalogue`
//! and serve all readers: an OTLP collector, Prometheus, or both.

mod controller;
mod hardware;
mod nvidia;
mod tracer;

use std::sync::Arc;

use bus_schemas::{Invariant, MoveTotals};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use crate::catalogue::{self as table, Metric};
use crate::meters::{
    Durations, GpuUsage, MemoryReading, Meters, UsageTotals, boundaries, gpu_attribute,
    tenant_attribute,
};
use crate::settings::Role;

/// Makes a role's instruments. Callbacks hold the meters weakly, because the meters hold
/// instruments.
pub(crate) fn register(role: Role, meter: &Meter, meters: &Arc<Meters>) {
    let histogram = |metric| histogram(meter, metric);
    let swapped = &table::SWAP_BYTES;
    meters.export_durations(Durations {
        request: histogram(&table::REQUEST_DURATION),
        queue: histogram(&table::QUEUE_DURATION),
        execute: histogram(&table::EXECUTE_DURATION),
        swap: histogram(&table::SWAP_DURATION),
        swapped: meter
            .u64_counter(swapped.name)
            .with_unit(swapped.unit)
            .with_description(swapped.help)
            .build(),
        takeover: histogram(&table::TAKEOVER_DURATION),
        answer: histogram(&table::API_DURATION),
    });
    let instruments = Instruments { meter, meters };
    match role {
        Role::Leader => {
            instruments.leader();
            instruments.workers();
            instruments.gpus();
            instruments.targets();
            instruments.stores();
            instruments.invariants();
        }
        Role::Worker => {
            instruments.tenants();
            instruments.memory();
            instruments.moves();
            instruments.devices();
            instruments.hardware();
            instruments.invariants();
            if meters.shares_devices() {
                instruments.nvidia();
            }
        }
        Role::Controller => {
            instruments.interface();
            instruments.cluster();
            instruments.cluster_tenants();
            instruments.cluster_memory();
        }
        Role::Tracer => instruments.tracer(),
        Role::Client => {}
    }
}

fn histogram(meter: &Meter, metric: &'static Metric) -> Histogram<f64> {
    meter
        .f64_histogram(metric.name)
        .with_unit(metric.unit)
        .with_description(metric.help)
        .with_boundaries(boundaries())
        .build()
}

/// Makes instruments that read the meters.
struct Instruments<'a> {
    meter: &'a Meter,
    meters: &'a Arc<Meters>,
}

/// Methods that each make an instrument from the table and a function that reads its values.
macro_rules! observables {
    ($($method:ident, $make:ident, $number:ty;)*) => {$(
        fn $method(
            &self,
            metric: &'static Metric,
            read: impl Fn(&Meters, &dyn AsyncInstrument<$number>) + Send + Sync + 'static,
        ) {
            let meters = Arc::downgrade(self.meters);
            let made = self.meter.$make(metric.name);
            let made = made.with_unit(metric.unit).with_description(metric.help);
            let made = made.with_callback(move |observer| {
                if let Some(meters) = meters.upgrade() {
                    read(&meters, observer);
                }
            });
            made.build();
        }
    )*};
}

impl Instruments<'_> {
    observables! {
        counter, u64_observable_counter, u64;
        amount, f64_observable_counter, f64;
        gauge, u64_observable_gauge, u64;
        level, i64_observable_up_down_counter, i64;
        time, f64_observable_gauge, f64;
    }

    /// Measurements that a candidate or leader makes of itself.
    fn leader(&self) {
        self.gauge(&table::EPOCH, |meters, out| {
            out.observe(meters.leader().read()[0], &[]);
        });
        self.time(&table::QUEUE_AGE, |meters, out| {
            meters.each_tenant(|tenant| {
                if let Some(age) = tenant.oldest() {
                    out.observe(age.as_secs_f64(), std::slice::from_ref(tenant.attribute()));
                }
            });
        });
        self.gauge(&table::RECORD_LAG, |meters, out| {
            out.observe(meters.leader().read()[1], &[]);
        });
    }

    /// Workers as the leader sees them.
    fn workers(&self) {
        self.counter(&table::WORKERS_LOST, |meters, out| {
            out.observe(meters.leader().read()[2], &[]);
        });
    }

    /// Devices as the leader sees them.
    fn gpus(&self) {
        for (metric, field) in [(&table::WINDOW, 0), (&table::OUTSTANDING, 1)] {
            self.time(metric, move |meters, out| {
                meters.each_gpu(|gpu, values| {
                    out.observe(seconds(values[field]), &[gpu_attribute(gpu)]);
                });
            });
        }
        for (metric, field) in [(&table::GRANTS, 2), (&table::VOIDS, 3)] {
            self.counter(metric, move |meters, out| {
                meters.each_gpu(|gpu, values| out.observe(values[field], &[gpu_attribute(gpu)]));
            });
        }
    }

    /// Targets of tenants and how they are met.
    fn targets(&self) {
        self.time(&table::SLO_TARGET, |meters, out| {
            meters.each_target(|tenant, reading| {
                if reading.target_ns > 0 {
                    out.observe(seconds(reading.target_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        self.time(&table::SLO_P99, |meters, out| {
            meters.each_target(|tenant, reading| {
                if reading.target_ns > 0 {
                    out.observe(seconds(reading.p99_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        self.counter(&table::SLO_REQUESTS, |meters, out| {
            meters.each_target(|tenant, reading| {
                out.observe(reading.requests, &[tenant_attribute(tenant)]);
            });
        });
        self.counter(&table::SLO_ATTAINED, |meters, out| {
            meters.each_target(|tenant, reading| {
                out.observe(reading.within, &[tenant_attribute(tenant)]);
            });
        });
    }

    /// Streams and buckets that are kept in the broker.
    fn stores(&self) {
        let attribute = |name: &str| [KeyValue::new("warploom.store", name.to_owned())];
        self.gauge(&table::STORE_USED, move |meters, out| {
            meters.each_store(|store| out.observe(store.bytes, &attribute(&store.name)));
        });
        self.gauge(&table::STORE_LIMIT, move |meters, out| {
            meters.each_store(|store| out.observe(store.limit, &attribute(&store.name)));
        });
        self.gauge(&table::STORE_ALARM, move |meters, out| {
            meters.each_store(|store| {
                out.observe((!store.alarm.is_empty()).into(), &attribute(&store.name));
            });
        });
    }

    /// Violated invariants. Each invariant has a series from the start: a zero shows that it is
    /// checked.
    fn invariants(&self) {
        self.counter(&table::INVARIANT_VIOLATIONS, |_, out| {
            for invariant in Invariant::ALL {
                let name = KeyValue::new("warploom.invariant", invariant.name());
                out.observe(invariant.violations(), &[name]);
            }
        });
    }

    /// Usage of a worker's device by tenants.
    fn tenants(&self) {
        fn each(meters: &Meters, mut see: impl FnMut(&[KeyValue], &UsageTotals)) {
            meters.each_usage(|usage| {
                for (tenant, totals) in &usage.tenants {
                    see(
                        &[tenant_attribute(tenant), gpu_attribute(usage.gpu)],
                        totals,
                    );
                }
            });
        }
        self.counter(&table::LAUNCHES, |meters, out| {
            each(meters, |attributes, totals| {
                out.observe(totals.launches, attributes)
            });
        });
        self.amount(&table::CORE_CREDITS, |meters, out| {
            each(meters, |attributes, totals| {
                out.observe(totals.core_credits(), attributes)
            });
        });
        self.amount(&table::VRAM_CREDITS, |meters, out| {
            each(meters, |attributes, totals| {
                out.observe(totals.vram_credits(), attributes)
            });
        });
    }

    /// Current memory of tenants on a worker's device.
    fn memory(&self) {
        type Of = fn(MemoryReading) -> u64;
        let rows: [(&'static Metric, Of); 5] = [
            (&table::VRAM_TOTAL, |it| it.total),
            (&table::VRAM_HELD, |it| it.held),
            (&table::VRAM_RESIDENT, |it| it.resident),
            (&table::VRAM_FREE, |it| it.free),
            (&table::VRAM_SWAPPED, |it| it.swapped),
        ];
        for (metric, of) in rows {
            self.gauge(metric, move |meters, out| {
                meters.each_memory(|tenant, gpu, reading| {
                    let attributes = [tenant_attribute(tenant), gpu_attribute(gpu)];
                    out.observe(of(reading), &attributes);
                });
            });
        }
    }

    /// Moves of tenants' memory on a worker's device. A move and its bytes are counted when it
    /// ends.
    fn moves(&self) {
        type Of = fn(&MoveTotals) -> f64;
        let rows: [(&'static Metric, Of); 4] = [
            (&table::SWAP_WAITED, |it| seconds(it.waited_ns)),
            (&table::SWAP_CREDITS, |it| gib_seconds(it.swapped_byte_ms)),
            (&table::SAVED_CREDITS, |it| gib_seconds(it.saved_byte_ms)),
            (&table::COPIES_UNSENT, |it| it.unsent_bytes as f64),
        ];
        for (metric, of) in rows {
            self.amount(metric, move |meters, out| {
                meters.each_moves(|tenant, gpu, moves| {
                    let attributes = [tenant_attribute(tenant), gpu_attribute(gpu)];
                    out.observe(of(moves), &attributes);
                });
            });
        }
    }

    /// The devices of this process's workers.
    fn devices(&self) {
        type Of = fn(&GpuUsage) -> f64;
        let rows: [(&'static Metric, Of); 3] = [
            (&table::GPU_ACTIVE, |it| seconds(it.active_ns)),
            (&table::GPU_STARVATION, |it| seconds(it.starved_ns)),
            (&table::GPU_CREDITS, |it| seconds(it.sm_ns)),
        ];
        for (metric, of) in rows {
            self.amount(metric, move |meters, out| {
                meters.each_usage(|usage| out.observe(of(usage), &[gpu_attribute(usage.gpu)]));
            });
        }
        self.gauge(&table::VRAM_SAVED, |meters, out| {
            meters.each_usage(|usage| out.observe(usage.saved, &[gpu_attribute(usage.gpu)]));
        });
    }
}

fn gib_seconds(byte_ms: u64) -> f64 {
    byte_ms as f64 / f64::from(1 << 30) / 1e3
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
