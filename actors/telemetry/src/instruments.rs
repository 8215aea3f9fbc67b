//! The OpenTelemetry instruments behind the meters. Names, units and meanings are published in
//! `docs/reference/telemetry.md`; a test holds the two to each other.

use std::sync::Arc;

use bus_schemas::{Invariant, MoveTotals};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use crate::meters::{
    Durations, MemoryReading, Meters, UsageTotals, gpu_attribute, tenant_attribute,
};
use crate::settings::Role;

/// Makes a role's instruments. Callbacks hold the meters weakly: the meters hold instruments.
pub(crate) fn register(role: Role, meter: &Meter, meters: &Arc<Meters>) {
    let histogram = |name, description| histogram(meter, name, description);
    meters.export_durations(Durations {
        request: histogram("warploom.request.duration", "request, first op to answer"),
        queue: histogram("warploom.queue.duration", "intent received to granted"),
        execute: histogram("warploom.execute.duration", "slice started to done"),
        swap: histogram("warploom.swap.duration", "move of a session's memory"),
        swapped: meter
            .u64_counter("warploom.swap.bytes")
            .with_unit("By")
            .with_description("bytes of sessions' memory that were moved")
            .build(),
        takeover: histogram("warploom.takeover.duration", "leader missed to first grant"),
    });
    let instruments = Instruments { meter, meters };
    match role {
        Role::Leader => {
            instruments.leader();
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
            instruments.invariants();
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

/// Where instruments are made, and what they read.
struct Instruments<'a> {
    meter: &'a Meter,
    meters: &'a Arc<Meters>,
}

/// Methods that make an instrument of name, unit and description, and of what reads its values.
macro_rules! observables {
    ($($method:ident, $make:ident, $number:ty;)*) => {$(
        fn $method(
            &self,
            [name, unit, description]: [&'static str; 3],
            read: impl Fn(&Meters, &dyn AsyncInstrument<$number>) + Send + Sync + 'static,
        ) {
            let meters = Arc::downgrade(self.meters);
            let made = self.meter.$make(name).with_unit(unit).with_description(description);
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
        time, f64_observable_gauge, f64;
    }

    /// What a process that leads or would lead knows of itself.
    fn leader(&self) {
        let epoch = "epoch this process leads, 0 while it does not";
        self.gauge(["warploom.epoch", "{epoch}", epoch], |meters, out| {
            out.observe(meters.leader().read()[0], &[]);
        });
        let lag = "inputs applied and not yet recorded";
        self.gauge(["warploom.record.lag", "{input}", lag], |meters, out| {
            out.observe(meters.leader().read()[1], &[]);
        });
    }

    /// Devices as the leader sees them.
    fn gpus(&self) {
        let outstanding = "charged work granted and not done";
        let times = [
            (["warploom.window", "s", "window in force"], 0),
            (["warploom.outstanding", "s", outstanding], 1),
        ];
        for (text, field) in times {
            self.time(text, move |meters, out| {
                meters.each_gpu(|gpu, values| {
                    out.observe(seconds(values[field]), &[gpu_attribute(gpu)]);
                });
            });
        }
        let voids = "positions at which nothing ran";
        let counts = [
            (["warploom.grants", "{grant}", "grants made"], 2),
            (["warploom.voids", "{position}", voids], 3),
        ];
        for (text, field) in counts {
            self.counter(text, move |meters, out| {
                meters.each_gpu(|gpu, values| out.observe(values[field], &[gpu_attribute(gpu)]));
            });
        }
    }

    /// Targets of tenants and how they are met.
    fn targets(&self) {
        let target = "target for the 99th percentile of requests";
        self.time(["warploom.slo.target", "s", target], |meters, out| {
            meters.each_target(|tenant, reading| {
                if reading.target_ns > 0 {
                    out.observe(seconds(reading.target_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        let p99 = "99th percentile of the last minute's requests";
        self.time(["warploom.slo.p99", "s", p99], |meters, out| {
            meters.each_target(|tenant, reading| {
                if reading.target_ns > 0 {
                    out.observe(seconds(reading.p99_ns), &[tenant_attribute(tenant)]);
                }
            });
        });
        let requests = "requests of tenants with a target";
        let requests = ["warploom.slo.requests", "{request}", requests];
        self.counter(requests, |meters, out| {
            meters.each_target(|tenant, reading| {
                out.observe(reading.requests, &[tenant_attribute(tenant)]);
            });
        });
        let attained = "requests that took no longer than the target";
        let attained = ["warploom.slo.attained", "{request}", attained];
        self.counter(attained, |meters, out| {
            meters.each_target(|tenant, reading| {
                out.observe(reading.within, &[tenant_attribute(tenant)]);
            });
        });
    }

    /// What is kept in the broker.
    fn stores(&self) {
        let attribute = |name: &str| [KeyValue::new("warploom.store", name.to_owned())];
        let used = ["warploom.store.used", "By", "bytes in a stream or bucket"];
        self.gauge(used, move |meters, out| {
            meters.each_store(|store| out.observe(store.bytes, &attribute(&store.name)));
        });
        let limit = ["warploom.store.limit", "By", "bytes that it may hold"];
        self.gauge(limit, move |meters, out| {
            meters.each_store(|store| out.observe(store.limit, &attribute(&store.name)));
        });
        let alarm = "1 where something is wrong with it";
        self.gauge(
            ["warploom.store.alarm", "{alarm}", alarm],
            move |meters, out| {
                meters.each_store(|store| {
                    out.observe((!store.alarm.is_empty()).into(), &attribute(&store.name));
                });
            },
        );
    }

    /// Violated invariants, of which each has a series from the start: a zero says that it is looked at.
    fn invariants(&self) {
        let violations = "checks that found an invariant violated";
        let violations = ["warploom.invariant.violations", "{violation}", violations];
        self.counter(violations, |_, out| {
            for invariant in Invariant::ALL {
                let name = KeyValue::new("warploom.invariant", invariant.name());
                out.observe(invariant.violations(), &[name]);
            }
        });
    }

    /// What tenants used of a worker's device.
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
        self.counter(
            ["warploom.launches", "{launch}", "launches run"],
            |meters, out| {
                each(meters, |attributes, totals| {
                    out.observe(totals.launches, attributes)
                });
            },
        );
        let core = ["warploom.core.credits", "{SM}.s", "SMs busy times seconds"];
        self.amount(core, |meters, out| {
            each(meters, |attributes, totals| {
                out.observe(totals.core_credits(), attributes)
            });
        });
        let vram = [
            "warploom.vram.credits",
            "GiBy.s",
            "GiB resident times seconds",
        ];
        self.amount(vram, |meters, out| {
            each(meters, |attributes, totals| {
                out.observe(totals.vram_credits(), attributes)
            });
        });
    }

    /// What tenants have of a worker's device's memory now.
    fn memory(&self) {
        type Of = fn(MemoryReading) -> u64;
        let rows: [(&'static str, &'static str, Of); 4] = [
            (
                "warploom.vram.total",
                "bytes that a tenant may hold",
                |it| it.total,
            ),
            (
                "warploom.vram.held",
                "bytes that a tenant's sessions have allocated",
                |it| it.held,
            ),
            (
                "warploom.vram.free",
                "bytes that a tenant may still allocate",
                |it| it.free,
            ),
            (
                "warploom.vram.swapped",
                "bytes of a tenant's sessions that are swapped out",
                |it| it.swapped,
            ),
        ];
        for (name, description, of) in rows {
            self.gauge([name, "By", description], move |meters, out| {
                meters.each_memory(|tenant, gpu, reading| {
                    let attributes = [tenant_attribute(tenant), gpu_attribute(gpu)];
                    out.observe(of(reading), &attributes);
                });
            });
        }
    }

    /// What tenants' memory did on a worker's device. Moves and their bytes are counted as they end.
    fn moves(&self) {
        type Of = fn(&MoveTotals) -> f64;
        let rows: [(&'static str, &'static str, &'static str, Of); 4] = [
            (
                "warploom.swap.waited",
                "s",
                "time that a tenant's sessions waited for their memory",
                |it| seconds(it.waited_ns),
            ),
            (
                "warploom.swap.credits",
                "GiBy.s",
                "GiB swapped out times seconds",
                |it| gib_seconds(it.swapped_byte_ms),
            ),
            (
                "warploom.saved.credits",
                "GiBy.s",
                "GiB saved by sharing times seconds",
                |it| gib_seconds(it.saved_byte_ms),
            ),
            (
                "warploom.copies.unsent",
                "By",
                "bytes of copies that need not be sent",
                |it| it.unsent_bytes as f64,
            ),
        ];
        for (name, unit, description, of) in rows {
            self.amount([name, unit, description], move |meters, out| {
                meters.each_moves(|tenant, gpu, moves| {
                    let attributes = [tenant_attribute(tenant), gpu_attribute(gpu)];
                    out.observe(of(moves), &attributes);
                });
            });
        }
    }

    /// The devices of this process's workers.
    fn devices(&self) {
        let active = "time with at least one launch running";
        self.amount(["warploom.gpu.active", "s", active], |meters, out| {
            meters.each_usage(|usage| {
                out.observe(seconds(usage.active_ns), &[gpu_attribute(usage.gpu)]);
            });
        });
        let starvation = "time with a launch ready and waiting while the device was busy";
        self.amount(
            ["warploom.gpu.starvation", "s", starvation],
            |meters, out| {
                meters.each_usage(|usage| {
                    out.observe(seconds(usage.starved_ns), &[gpu_attribute(usage.gpu)]);
                });
            },
        );
        let saved = "bytes that sessions hold alike and that are not stored for each";
        self.gauge(["warploom.vram.saved", "By", saved], |meters, out| {
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
