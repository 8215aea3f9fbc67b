//! Metrics of every role of a busy cluster, as Prometheus reads them. They have the standard
//! format, their parts add up to the whole, and they agree with the usage that `warploom usage`
//! bills.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bus_schemas::TenantSettings;
use rustix::process::Signal;
use test_cluster::TempDir;

use crate::children::{Running, kill};
use crate::control::interface::{Interface, nobody, of_role};
use crate::exposition::Page;
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::warploom;
use crate::usage::{number, table};

const MIB: f64 = (1 << 20) as f64;

/// The first of this many consecutive ports without a listener. They lie below the ephemeral ports,
/// which connections of other tests take, and below those of brokers.
fn ports(count: u16) -> u16 {
    // Another process of tests begins elsewhere.
    static BEGINS: LazyLock<u16> =
        LazyLock::new(|| (RandomState::new().hash_one(0) % 9_000) as u16);
    static ASKED: AtomicU16 = AtomicU16::new(0);
    for _ in 0..100 {
        let behind = ASKED.fetch_add(count, Ordering::Relaxed);
        let first = 10_000 + (*BEGINS + behind) % 9_000;
        let free = |behind| TcpListener::bind(("127.0.0.1", first + behind)).ok();
        if (0..count).map(free).collect::<Option<Vec<_>>>().is_some() {
            return first;
        }
    }
    panic!("no ports in a row are free");
}

/// A cluster with metrics of a leader, a worker and a controller, with tenants at work.
async fn measured() -> LoadedCluster {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::made(1, 1, &plans, |options| {
        options.controllers = 1;
        options.metrics = Some(ports(3));
        for (key, value) in [("metrics.dcgm", "on"), ("worker.metering", "100ms")] {
            options.settings.push((key.into(), value.into()));
        }
    })
    .await;
    let settings = TenantSettings {
        slo_ns: 50_000_000_000,
        ..plans[0].settings.clone()
    };
    loaded.set_tenant(&plans[0].tenant, &settings).await;
    loaded.work(&plans).await;
    loaded.progress(3, SOON).await;
    loaded
}

/// The current metrics of a leader or worker.
async fn scrape(loaded: &LoadedCluster, role: &str) -> Page {
    let at = loaded.demo.cluster.options().metrics_at(role);
    let role = Interface::new(&format!("http://{}", at.expect("it has a port")));
    read(&role).await
}

async fn read(role: &Interface) -> Page {
    let answer = role.get("/metrics").await.is(200);
    let kind = answer.header("content-type");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    Page::read(&answer.text)
}

/// Repeats a check until it holds.
async fn until(
    loaded: &LoadedCluster,
    what: &str,
    mut is: impl AsyncFnMut() -> Result<(), String>,
) {
    let asked = Instant::now();
    loop {
        match is().await {
            Ok(()) => return,
            Err(why) if asked.elapsed() > SOON => loaded.panic(&format!("{what}: {why}")),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(1.0)
}

#[tokio::test]
async fn what_every_role_tells_adds_up_and_is_what_is_billed() {
    let mut loaded = measured().await;
    let viewer = of_role(&loaded, "viewer", None);
    let auditor = of_role(&loaded, "auditor", None);
    until(&loaded, "a target's figures", async || {
        let leader = scrape(&loaded, "leader-0").await;
        let targets = leader.by("warploom_slo_target_seconds", "warploom_tenant");
        let met = leader.sum("warploom_slo_attained_total");
        match targets == BTreeMap::from([("a".to_owned(), 50.0)]) && met > 0.0 {
            true => Ok(()),
            false => Err(format!("{targets:?} {met}")),
        }
    })
    .await;
    let leader = scrape(&loaded, "leader-0").await;
    assert!(leader.sum("warploom_epoch") >= 1.0 && leader.sum("warploom_grants_total") > 0.0);
    assert!(leader.sum("warploom_queue_duration_seconds_count") > 0.0);
    assert_eq!(leader.sum("warploom_invariant_violations_total"), 0.0);
    let cluster = loaded.demo.cluster.options().cluster.clone();
    assert_eq!(
        leader.labels("warploom_cluster"),
        BTreeSet::from([cluster.as_str()])
    );
    shares(&loaded, &viewer).await;
    memory(&loaded, &viewer).await;
    controller(&viewer, &auditor).await;
    waits(&loaded).await;
    loaded.demo.stop().await.expect("they stop");
    billed(&loaded).await;
}

/// Checks that the tenants' metrics with NVIDIA's names add up to those of the device.
async fn shares(loaded: &LoadedCluster, viewer: &Interface) {
    until(loaded, "both tenants' parts of the device", async || {
        let worker = scrape(loaded, "worker-0").await;
        let busy = worker.by("DCGM_FI_DEV_GPU_UTIL", "exported_namespace");
        let both = ["a", "b"]
            .iter()
            .all(|name| busy.get(*name).is_some_and(|part| *part > 0.0));
        if !both {
            return Err(format!("{busy:?}"));
        }
        let all = worker.sum("DCGM_FI_DEV_GPU_UTIL");
        assert!(all <= 100.0 + 1e-6, "{all}");
        let sms = worker.sum("DCGM_FI_PROF_SM_ACTIVE");
        assert!(sms > 0.0 && sms <= 1.0 + 1e-6, "{sms}");
        // The client reports its program's name.
        let programs = worker.labels("exported_container");
        assert!(programs.contains("warploom"), "{programs:?}");
        let used = worker.sum("DCGM_FI_DEV_FB_USED");
        let resident = worker.sum("warploom_vram_resident_bytes");
        assert!(
            near(used * MIB, resident),
            "{used} MiB are not {resident} bytes"
        );
        let (busy, full) = (
            worker.sum("hw_gpu_utilization_ratio"),
            worker.sum("hw_gpu_memory_utilization_ratio"),
        );
        assert!(busy > 0.0 && busy <= 1.0, "{busy}");
        let hardware = worker.sum("hw_gpu_memory_usage_bytes");
        assert!(near(hardware, resident), "{hardware} and {resident} bytes");
        let limit = worker.sum("hw_gpu_memory_limit_bytes");
        assert!(near(full * limit, hardware), "{full} of {limit} bytes");
        assert_eq!(worker.labels("hw_gpu_task"), BTreeSet::from(["general"]));
        let total = used + worker.sum("DCGM_FI_DEV_FB_FREE");
        let capacity = read(viewer).await.sum("warploom_cluster_capacity_bytes");
        assert!(
            near(total * MIB, capacity),
            "{total} MiB of {capacity} bytes"
        );
        Ok(())
    })
    .await;
}

/// Checks that the tracer has the requests and waits of both tenants, and the idle time of a hold.
async fn waits(loaded: &LoadedCluster) {
    until(loaded, "requests and waits of both tenants", async || {
        let tracer = scrape(loaded, "tracer").await;
        let requests = tracer.by("warploom_request_duration_seconds_count", "warploom_tenant");
        let waited = tracer.by("warploom_wait_seconds_total", "warploom_tenant");
        let both = |of: &BTreeMap<String, f64>| {
            let of = |name| of.get(name).is_some_and(|value| *value > 0.0);
            of("a") && of("b")
        };
        match both(&requests) && both(&waited) {
            true => Ok(()),
            false => Err(format!("{requests:?} {waited:?}")),
        }
    })
    .await;
    // While all grants are held, the device is idle for that, second by second.
    loaded.demo.administrator.hold(true).await.expect("held");
    let mut begin: Option<(Instant, f64)> = None;
    until(loaded, "idle time of the hold", async || {
        let tracer = scrape(loaded, "tracer").await;
        let idle = tracer.by("warploom_idle_seconds_total", "warploom_cause");
        let (now, held) = (Instant::now(), idle.get("hold").copied().unwrap_or(0.0));
        let Some((began, before)) = begin else {
            begin = (held > 0.0).then_some((now, held));
            return Err(format!("{idle:?}"));
        };
        let (took, told) = ((now - began).as_secs_f64(), held - before);
        match took >= 2.0 && (told / took - 1.0).abs() <= 0.1 {
            true => Ok(()),
            false => Err(format!("{told} of {took}")),
        }
    })
    .await;
    loaded
        .demo
        .administrator
        .hold(false)
        .await
        .expect("released");
}

/// Checks that worker and controller report the same memory of each tenant.
async fn memory(loaded: &LoadedCluster, viewer: &Interface) {
    until(
        loaded,
        "the same memory by worker and controller",
        async || {
            let (worker, controller) = (scrape(loaded, "worker-0").await, read(viewer).await);
            for (of_worker, of_controller) in [
                ("warploom_vram_held_bytes", "warploom_cluster_held_bytes"),
                (
                    "warploom_vram_resident_bytes",
                    "warploom_cluster_resident_bytes",
                ),
                (
                    "warploom_vram_swapped_bytes",
                    "warploom_cluster_swapped_bytes",
                ),
            ] {
                let one = worker.by(of_worker, "warploom_tenant");
                let other = controller.by(of_controller, "warploom_tenant");
                if one != other || one.len() != 2 {
                    return Err(format!("{of_worker}: {one:?} {other:?}"));
                }
            }
            let parts = ["resident", "swapped", "saved"];
            let parts = parts.map(|part| controller.sum(&format!("warploom_cluster_{part}_bytes")));
            let held = controller.sum("warploom_cluster_held_bytes");
            let (parts, free) = (parts.iter().sum::<f64>(), held > 0.0);
            match free && parts >= held {
                true => Ok(()),
                false => Err(format!("{parts} of {held}")),
            }
        },
    )
    .await;
}

/// The controller counts its own requests, and reports the result of the last verification.
async fn controller(viewer: &Interface, auditor: &Interface) {
    let before = read(viewer).await;
    assert!(before.of("warploom_order_verified").next().is_none());
    assert_eq!(before.sum("warploom_cluster_leading"), 1.0);
    let live = BTreeMap::from([("draining".to_owned(), 0.0), ("live".to_owned(), 1.0)]);
    assert_eq!(
        before.by("warploom_cluster_workers", "warploom_state"),
        live
    );
    let sessions = before.by("warploom_cluster_sessions", "warploom_tenant");
    assert!(sessions["a"] >= 1.0 && sessions["b"] >= 1.0, "{sessions:?}");
    let attained = before.by("warploom_cluster_attainment_ratio", "warploom_tenant");
    assert_eq!(attained, BTreeMap::from([("a".to_owned(), 1.0)]));
    let verified = auditor.ask("POST", "/api/v1/order/verify", None).await;
    assert_eq!(verified.is(200).json()["ok"], true);
    viewer.get("/api/v1/order/verify").await.is(405);
    let after = read(viewer).await;
    assert_eq!(after.sum("warploom_order_verified"), 1.0);
    assert!(after.sum("warploom_order_verified_time_seconds") > 1.7e9);
    let answers = |page: &Page, operation: &str, status: &str| {
        let values = page
            .of("warploom_api_requests_total")
            .filter(|(labels, _)| {
                labels["warploom_operation"] == operation && labels["warploom_status"] == status
            });
        values.map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(answers(&after, "order.verify", "200"), 1.0);
    let read = answers(&after, "cluster.read", "200") - answers(&before, "cluster.read", "200");
    assert_eq!(read, 1.0, "the page is counted with the next one");
    assert!(after.sum("warploom_api_duration_seconds_count") > 2.0);
}

/// Checks that the worker's metrics by tenant agree with those of its device, and with the billed
/// usage.
async fn billed(loaded: &LoadedCluster) {
    until(
        loaded,
        "what the worker tells is what is billed",
        async || {
            let worker = scrape(loaded, "worker-0").await;
            let credits = worker.by("warploom_core_credits_total", "warploom_tenant");
            let launches = worker.by("warploom_launches_total", "warploom_tenant");
            let device = worker.sum("warploom_gpu_credits_total");
            assert!(
                near(credits.values().sum(), device),
                "{credits:?} of {device}"
            );
            let (rows, _) = table(loaded, "tenant");
            for row in &rows {
                let name = row["tenant"].as_str().expect("a name");
                let same = launches.get(name) == Some(&number(row, "launches"))
                    && near(credits[name], number(row, "core_credits"));
                if !same {
                    return Err(format!("{row}: {launches:?} {credits:?}"));
                }
            }
            match rows.len() {
                2 => Ok(()),
                _ => Err(format!("{rows:?}")),
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_controllers_metrics_need_a_token_and_a_tenant_admin_reads_its_tenants() {
    let plans = [plan("chat", "search", 1), plan("guest", "search", 1)];
    let loaded = LoadedCluster::made(1, 1, &plans, |options| options.controllers = 1).await;
    nobody(&loaded)
        .get("/metrics")
        .await
        .problem(401, "E-API-LOGIN");
    for role in ["viewer", "operator", "auditor"] {
        read(&of_role(&loaded, role, None)).await;
    }
    let all = read(&of_role(&loaded, "viewer", None)).await;
    assert_eq!(
        all.labels("warploom_tenant"),
        BTreeSet::from(["chat", "guest"])
    );
    let own = read(&of_role(&loaded, "tenant-admin", Some("chat"))).await;
    assert_eq!(own.labels("warploom_tenant"), BTreeSet::from(["chat"]));
    assert!(own.kinds.contains_key("warploom_cluster_queued"));
    assert!(
        !own.kinds.contains_key("warploom_cluster_workers"),
        "{own:?}"
    );
    let posted = of_role(&loaded, "operator", None)
        .ask("POST", "/metrics", None)
        .await;
    posted.problem(405, "E-API-METHOD");
    // A worker without configured metrics has no listener, as its settings show.
    assert_eq!(loaded.demo.cluster.options().metrics_at("worker-0"), None);
}

#[tokio::test]
async fn up_says_where_metrics_are_read_and_who_comes_back_is_read_there_again() {
    let dir = TempDir::new().expect("a directory");
    let first = format!("up.metrics={}", ports(4));
    let arguments = ["--leaders=2", "--set", "up.controllers=0", "--set", &first];
    let (_up, announced) = Running::up(dir.path(), &arguments);
    let told = announced["metrics"].as_object().expect("where metrics are");
    let names: Vec<_> = told.keys().map(String::as_str).collect();
    assert_eq!(names, ["leader-0", "leader-1", "tracer", "worker-0"]);
    let of = |name: &str| {
        let url = told[name].as_str().expect("a URL");
        Interface::new(url.strip_suffix("/metrics").expect("its path"))
    };
    let asked = Instant::now();
    // `up` waits for one leader; the other one may still be starting.
    for role in ["leader-0", "leader-1"] {
        while of(role).try_get("/metrics").await.is_none() {
            assert!(asked.elapsed() < SOON, "{role} is not read");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let epochs = [read(&of("leader-0")).await, read(&of("leader-1")).await];
    let leading = epochs
        .iter()
        .filter(|page| page.sum("warploom_epoch") > 0.0);
    assert_eq!(leading.count(), 1);
    let before = read(&of("worker-0")).await;
    let process = announced["workers"][0].as_u64().expect("a process");
    kill(u32::try_from(process).expect("an id"), Signal::KILL);
    let asked = Instant::now();
    loop {
        let page = of("worker-0").try_get("/metrics").await;
        let page = page.map(|answer| Page::read(&answer.is(200).text));
        let another = page.filter(|page| {
            let ids = page.labels("service_instance_id");
            !ids.is_empty() && ids != before.labels("service_instance_id")
        });
        if another.is_some() {
            return;
        }
        assert!(asked.elapsed() < SOON, "it is not read again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn ports_that_cannot_be_are_refused() {
    let dir = TempDir::new().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = format!("worker.metrics={}", taken.local_addr().expect("an address"));
    let broker = "broker.url=nats://127.0.0.1:9";
    for (arguments, code, says) in [
        (
            ["up", "--leaders=2", "--set", "leader.metrics=127.0.0.1:1"],
            2,
            "set up.metrics",
        ),
        (
            ["up", "--leaders=2", "--set", "up.metrics=65535"],
            2,
            "no ports",
        ),
        (
            ["worker", "--set", broker, &*format!("--set={taken}")],
            1,
            "E-METRICS-LISTEN",
        ),
    ] {
        let output = warploom(dir.path())
            .args(arguments)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn metrics_are_told_to_others_only_if_that_is_asked_for() {
    for (key, role) in [("leader.metrics", "leader"), ("worker.metrics", "worker")] {
        let refused = Command::new(env!("CARGO_BIN_EXE_warploom"))
            .args([role, "--set", &format!("{key}=0.0.0.0:0")])
            .args(["--set", "broker.url=nats://127.0.0.1:9"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains("E-CONFIG-VALUE") && said.contains("metrics.public"),
            "{said}"
        );
    }
}
