//! Numbers for every metric of the table.

use std::time::{Duration, Instant};

use bus_schemas::{
    Incarnation, MoveTotals, SessionId, SpanId, StoreStatus, Tenant, TraceId, Usage, UsageRow,
    WIRE_VERSION,
};
use telemetry::{
    ClusterReading, ControllerMeters, DeviceIdentity, Exemplar, MemoryReading, Price, Role,
    TargetReading, Telemetry, TenantMemoryReading, TenantReading, TracerMeters, Untraced, Verified,
};

/// Makes each measurement of a role once.
pub(crate) fn measures(role: Role, telemetry: &Telemetry) {
    let tenant: Tenant = "chat".parse().expect("a name");
    let meters = telemetry.meters();
    match role {
        Role::Controller => controller(meters.controller(), tenant),
        Role::Client => {}
        Role::Tracer => tracer(meters.tracer(), &tenant),
        Role::Leader => {
            meters.tenant(&tenant).queue(Duration::from_micros(30));
            let queue = meters.tenant(&tenant).add_queue();
            queue.set(Some(Instant::now()));
            // It is open until the process ends.
            std::mem::forget(queue);
            meters.leader().epoch(3);
            meters.stores(&[StoreStatus {
                name: "record".into(),
                bytes: 1,
                limit: 2,
                alarm: String::new(),
            }]);
            meters.leader().takeover(Duration::from_millis(20));
            meters.leader().recorded(10, 4);
            meters.leader().lost(2);
            meters.gpu(1).window(2_000_000, 500_000);
            meters.gpu(1).granted(7);
            meters.gpu(1).voided(1);
            let reading = TargetReading {
                target_ns: 20_000_000,
                p99_ns: 4_000_000,
                requests: 10,
                within: 9,
            };
            meters.target(&tenant, reading);
        }
        Role::Worker => {
            meters
                .tenant(&tenant)
                .execute(1, Duration::from_micros(300));
            meters
                .tenant(&tenant)
                .moved(1, true, 1 << 20, Duration::from_millis(2));
            meters.usage(1, &usage(&tenant));
            let device = DeviceIdentity {
                gpu: 1,
                model: "a \"GPU\"".into(),
                vendor: Some("NVIDIA"),
                uuid: "GPU-1".into(),
                capacity: 8 << 30,
            };
            meters.device(&device, &usage(&tenant));
            meters.shared_device(&device, &usage(&tenant), |_| None);
            let reading = MemoryReading {
                total: 8 << 30,
                held: (3 << 30) + 256,
                resident: 2 << 30,
                free: 2 << 30,
                swapped: 1 << 30,
            };
            meters.memory(1, [(tenant.clone(), reading)].into());
            let moves = MoveTotals {
                waited_ns: 250_000_000,
                swapped_byte_ms: 1_500 << 30,
                saved_byte_ms: 750 << 30,
                unsent_bytes: 3 << 20,
                ..MoveTotals::default()
            };
            meters.moves(1, [(tenant, moves)].into());
        }
    }
}

fn tracer(meters: &TracerMeters, tenant: &Tenant) {
    let exemplar = Exemplar {
        trace: TraceId([1; 16]),
        span: SpanId([2; 8]),
        at: 1_764_500_000_250_000_000,
    };
    meters.request(tenant, Duration::from_millis(4), Some(exemplar));
    meters.waited(tenant, "share", Some(tenant), 3);
    meters.idle(1, "program", 5);
    meters.untraced(Untraced::Unknown, 2);
}

fn controller(meters: &ControllerMeters, tenant: Tenant) {
    meters.answered("cluster.read", 200, Duration::from_millis(3));
    meters.prices(vec![Price {
        credit: "core",
        currency: "EUR".into(),
        price: 0.5,
    }]);
    meters.verified(Verified {
        same: true,
        at_ms: 1_700_000_000_500,
    });
    let reading = TenantReading {
        sessions: 2,
        queued: 7,
        target_ns: 20_000_000,
        requests: 10,
        within: 9,
        p99_ns: 4_000_000,
    };
    let memory = TenantMemoryReading {
        held: 4 << 20,
        resident: 2 << 20,
        swapped: 1 << 20,
        saved: 1 << 20,
    };
    meters.cluster(ClusterReading {
        epoch: Some(3),
        workers: [1, 0],
        tenants: [(tenant.clone(), reading)].into(),
        memory: [((1, tenant), memory)].into(),
        capacity: [(1, 8 << 30)].into(),
        streams: 1,
    });
}

fn usage(tenant: &Tenant) -> Usage {
    Usage {
        v: WIRE_VERSION,
        incarnation: Incarnation(1),
        sms: 4,
        elapsed_ns: 10_000_000_000,
        active_ns: 6_000_000_000,
        starved_ns: 1_000_000_000,
        sm_ns: 2_500_000_000,
        saved: 12 << 20,
        sessions: vec![UsageRow {
            tenant: tenant.clone(),
            session: SessionId(1),
            launches: 5,
            sm_ns: 2_500_000_000,
            device_ns: 700_000_000,
            byte_ms: 500 << 30,
            resident: 1 << 30,
        }],
    }
}
