//! The OpenTelemetry instruments behind the meters. Names, units and meanings are published in
//! `docs/reference/telemetry.md`; a test holds the two to each other.

use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use bus_schemas::{Invariant, StoreStatus, Tenant};

use crate::meters::{Durations, GpuUsage, Meters, TargetReading, Totals, gpu_attribute};
use crate::settings::Role;

/// Makes a role's instruments. Callbacks hold the meters weakly: the meters hold instruments.
pub(crate) fn register(role: Role, meter: &Meter, meters: &Arc<Meters>) {
    meters.export_durations(Durations {
        request: histogram(
            meter,
            "warploom.request.duration",
            "request, first op to answer",
        ),
        queue: histogram(
            meter,
            "warploom.queue.duration",
            "intent received to granted",
        ),
        execute: histogram(meter, "warploom.execute.duration", "slice started to done"),
        takeover: histogram(
            meter,
            "warploom.takeover.duration",
            "leader missed to first grant",
        ),
    });
    match role {
        Role::Leader => {
            leader(meter, meters);
            targets(meter, meters);
            stores(meter, meters);
            invariants(meter);
        }
        Role::Worker => {
            worker(meter, meters);
            memory(meter, meters);
            invariants(meter);
        }
        Role::Client => {}
    }
}

fn histogram(meter: &Meter, name: &'static str, description: &'static str) -> Histogram<f64> {
    // 1, 2, 5 per power of ten, from 10 µs to 100 s.
    let decades = (-5..2).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(power)));
    meter
        .f64_histogram(name)
        .with_unit("s")
        .with_description(description)
        .with_boundaries(decades.chain([100.0]).collect())
        .build()
}

/// A gauge of whole numbers: name, unit, description, and how it is read.
fn gauge(
    meter: &Meter,
    meters: &Arc<Meters>,
    [name, unit, description]: [&'static str; 3],
    read: impl Fn(&Meters, &dyn AsyncInstrument<u64>) + Send + Sync + 'static,
) {
    let weak = Arc::downgrade(meters);
    let gauge = meter.u64_observable_gauge(name).with_unit(unit);
    let gauge = gauge.with_description(description);
    let gauge = gauge.with_callback(move |observer| {
        if let Some(meters) = weak.upgrade() {
            read(&meters, observer);
        }
    });
    gauge.build();
}

fn leader(meter: &Meter, meters: &Arc<Meters>) {
    let gpu_gauges = [
        ("warploom.window", "window in force", 0),
        (
            "warploom.outstanding",
            "charged work granted and not done",
            1,
        ),
    ];
    for (name, description, field) in gpu_gauges {
        let weak = Arc::downgrade(meters);
        let gauge = meter.f64_observable_gauge(name).with_unit("s");
        let gauge = gauge
            .with_description(description)
            .with_callback(move |observer| {
                gpus(&weak, |gpu, values| {
                    observer.observe(values[field] as f64 / 1e9, &[gpu_attribute(gpu)]);
                });
            });
        gauge.build();
    }
    let gpu_counters = [
        ("warploom.grants", "{grant}", "grants made", 2),
        (
            "warploom.voids",
            "{position}",
            "positions at which nothing ran",
            3,
        ),
    ];
    for (name, unit, description, field) in gpu_counters {
        let weak = Arc::downgrade(meters);
        let counter = meter.u64_observable_counter(name).with_unit(unit);
        let counter = counter
            .with_description(description)
            .with_callback(move |observer| {
                gpus(&weak, |gpu, values| {
                    observer.observe(values[field], &[gpu_attribute(gpu)])
                });
            });
        counter.build();
    }
    let gauges = [
        (
            "warploom.epoch",
            "{epoch}",
            "epoch this process leads, 0 while it does not",
            0,
        ),
        (
            "warploom.record.lag",
            "{input}",
            "inputs applied and not yet recorded",
            1,
        ),
    ];
    for (name, unit, description, field) in gauges {
        gauge(
            meter,
            meters,
            [name, unit, description],
            move |meters, observer| {
                observer.observe(meters.leader().read()[field], &[]);
            },
        );
    }
}

/// Violated invariants, of which each has a series from the start: a zero says that it is looked at.
fn invariants(meter: &Meter) {
    let counter = meter.u64_observable_counter("warploom.invariant.violations");
    let counter = counter
        .with_unit("{violation}")
        .with_description("checks that found an invariant violated")
        .with_callback(|observer| {
            for invariant in Invariant::ALL {
                let name = KeyValue::new("warploom.invariant", invariant.name());
                observer.observe(invariant.violations(), &[name]);
            }
        });
    counter.build();
}

/// What is kept in the broker.
fn stores(meter: &Meter, meters: &Arc<Meters>) {
    type Read = fn(&StoreStatus) -> u64;
    let gauges: [(_, _, _, Read); 3] = [
        (
            "warploom.store.used",
            "By",
            "bytes in a stream or bucket",
            |store| store.bytes,
        ),
        (
            "warploom.store.limit",
            "By",
            "bytes that it may hold",
            |store| store.limit,
        ),
        (
            "warploom.store.alarm",
            "{alarm}",
            "1 where something is wrong with it",
            |store| u64::from(!store.alarm.is_empty()),
        ),
    ];
    for (name, unit, description, read) in gauges {
        gauge(
            meter,
            meters,
            [name, unit, description],
            move |meters, observer| {
                meters.each_store(|store| {
                    let name = KeyValue::new("warploom.store", store.name.clone());
                    observer.observe(read(store), &[name]);
                });
            },
        );
    }
}

/// Targets of tenants and how they are met.
fn targets(meter: &Meter, meters: &Arc<Meters>) {
    let attribute =
        |tenant: &Tenant| [KeyValue::new("warploom.tenant", tenant.as_str().to_owned())];
    type Time = fn(&TargetReading) -> u64;
    let gauges: [(_, _, Time); 2] = [
        (
            "warploom.slo.target",
            "target for the 99th percentile of requests",
            |reading| reading.target_ns,
        ),
        (
            "warploom.slo.p99",
            "99th percentile of the last minute's requests",
            |reading| reading.p99_ns,
        ),
    ];
    for (name, description, time) in gauges {
        let weak = Arc::downgrade(meters);
        let gauge = meter.f64_observable_gauge(name).with_unit("s");
        let gauge = gauge
            .with_description(description)
            .with_callback(move |observer| {
                if let Some(meters) = weak.upgrade() {
                    meters.each_target(|tenant, reading| {
                        if reading.target_ns > 0 {
                            observer.observe(time(reading) as f64 / 1e9, &attribute(tenant));
                        }
                    });
                }
            });
        gauge.build();
    }
    type Count = fn(&TargetReading) -> u64;
    let counters: [(_, _, Count); 2] = [
        (
            "warploom.slo.requests",
            "requests of tenants with a target",
            |reading| reading.requests,
        ),
        (
            "warploom.slo.attained",
            "requests that took no longer than the target",
            |reading| reading.within,
        ),
    ];
    for (name, description, count) in counters {
        let weak = Arc::downgrade(meters);
        let counter = meter.u64_observable_counter(name).with_unit("{request}");
        let counter = counter
            .with_description(description)
            .with_callback(move |observer| {
                if let Some(meters) = weak.upgrade() {
                    meters.each_target(|tenant, reading| {
                        observer.observe(count(reading), &attribute(tenant));
                    });
                }
            });
        counter.build();
    }
}

fn worker(meter: &Meter, meters: &Arc<Meters>) {
    let weak = Arc::downgrade(meters);
    let launches = meter
        .u64_observable_counter("warploom.launches")
        .with_unit("{launch}");
    let launches = launches
        .with_description("launches run")
        .with_callback(move |observer| {
            tenants(&weak, |attributes, totals| {
                observer.observe(totals.launches, attributes)
            });
        });
    launches.build();

    type Credit = fn(&Totals) -> f64;
    let credits: [(_, _, _, Credit); 2] = [
        (
            "warploom.core.credits",
            "{SM}.s",
            "SMs busy times seconds",
            Totals::core_credits,
        ),
        (
            "warploom.vram.credits",
            "GiBy.s",
            "GiB resident times seconds",
            Totals::vram_credits,
        ),
    ];
    for (name, unit, description, credit) in credits {
        let weak = Arc::downgrade(meters);
        let counter = meter.f64_observable_counter(name).with_unit(unit);
        let counter = counter
            .with_description(description)
            .with_callback(move |observer| {
                tenants(&weak, |attributes, totals| {
                    observer.observe(credit(totals), attributes)
                });
            });
        counter.build();
    }

    type Time = fn(&GpuUsage) -> u64;
    let times: [(_, _, Time); 2] = [
        (
            "warploom.gpu.active",
            "time with at least one launch running",
            |usage| usage.active_ns,
        ),
        (
            "warploom.gpu.starvation",
            "time with a launch ready and waiting while the device was busy",
            |usage| usage.starved_ns,
        ),
    ];
    for (name, description, time) in times {
        let weak = Arc::downgrade(meters);
        let counter = meter.f64_observable_counter(name).with_unit("s");
        let counter = counter
            .with_description(description)
            .with_callback(move |observer| {
                if let Some(meters) = weak.upgrade() {
                    meters.each_usage(|usage| {
                        let seconds = time(usage) as f64 / 1e9;
                        observer.observe(seconds, &[gpu_attribute(usage.gpu)]);
                    });
                }
            });
        counter.build();
    }
}

/// The memory of devices.
fn memory(meter: &Meter, meters: &Arc<Meters>) {
    let saved = "bytes that sessions hold alike and that are not stored for each";
    gauge(
        meter,
        meters,
        ["warploom.vram.saved", "By", saved],
        |meters, observer| {
            meters.each_usage(|usage| observer.observe(usage.saved, &[gpu_attribute(usage.gpu)]));
        },
    );
}

fn gpus(meters: &Weak<Meters>, see: impl FnMut(u32, [u64; 4])) {
    if let Some(meters) = meters.upgrade() {
        meters.each_gpu(see);
    }
}

fn tenants(meters: &Weak<Meters>, mut see: impl FnMut(&[KeyValue], &Totals)) {
    if let Some(meters) = meters.upgrade() {
        meters.each_usage(|usage| {
            for (tenant, totals) in &usage.tenants {
                let tenant = KeyValue::new("warploom.tenant", tenant.as_str().to_owned());
                see(&[tenant, gpu_attribute(usage.gpu)], totals);
            }
        });
    }
}
