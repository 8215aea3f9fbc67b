//! A tenant's held and free memory on a device, queried in every possible way. The answers agree to
//! the byte, and concern only the tenant that asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use async_nats::Client as Bus;
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Devices, DevicesRequest, Incarnation, MemoryStatus, MemoryStatusRequest, Tenant, WIRE_VERSION,
    decode, encode,
};
use client_agent::{Client, Settings};
use serde_json::{Value, json};
use test_cluster::{Receiver, TempDir};

use crate::cluster::{done, objects};
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::quotas::Allocator;
use crate::run::compile;

const KERNEL: &str = include_str!("../../ops/lab/src/bench/long.ptx");
const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 1 << 30;
const QUOTA: u64 = 300 * MIB;
const DONE: &str = "0";

/// Total, held and free.
type Figures = (u64, u64, u64);

fn charged(bytes: &[u64]) -> u64 {
    bytes.iter().map(|bytes| bytes.next_multiple_of(256)).sum()
}

fn figures(row: &Value, total: &str) -> Figures {
    let number = |field: &str| {
        row[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{field}: {row}"))
    };
    (number(total), number("held"), number("free"))
}

/// The figures of cuMemGetInfo in a program.
fn told(program: &mut Allocator) -> Figures {
    let said = program.does("info");
    let (free, total) = said.split_once(" of ").expect("two numbers");
    let (free, total) = (free.parse().expect("free"), total.parse().expect("total"));
    (total, total - free, free)
}

/// A tenant's row in a command's output.
fn row<'a>(memory: &'a Value, tenant: &str) -> &'a Value {
    let rows = memory[0]["tenants"].as_array().expect("tenants");
    let found = rows.iter().find(|row| row["tenant"] == tenant);
    found.unwrap_or_else(|| panic!("no {tenant} in {memory}"))
}

/// A tenant's login, and nothing else.
struct Login {
    bus: Bus,
    subjects: Subjects,
    tenant: Tenant,
}

impl Login {
    async fn of(loaded: &LoadedCluster, tenant: &str) -> Self {
        Self {
            bus: loaded.demo.cluster.connect_tenant(tenant, None).await,
            subjects: loaded.demo.cluster.subjects(),
            tenant: tenant.parse().expect("a name"),
        }
    }

    /// The answer of a worker to these bytes on the subject of a tenant, if any.
    async fn asks(
        &self,
        whose: &Tenant,
        worker: Incarnation,
        bytes: Vec<u8>,
    ) -> Option<MemoryStatus> {
        let subject = self.subjects.tenant_memory(whose, worker);
        let answer = self.bus.request(subject, bytes.into());
        let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
        Some(decode(&answer.ok()?.ok()?.payload).expect("a status"))
    }

    async fn memory(&self, worker: Incarnation) -> MemoryStatus {
        let asked = Instant::now();
        loop {
            match self.asks(&self.tenant, worker, request()).await {
                Some(status) => return status,
                None => assert!(asked.elapsed() < SOON, "an answer"),
            }
        }
    }

    async fn devices(&self) -> Devices {
        let subject = self.subjects.to_leader(&self.tenant, ToLeader::Devices);
        let request = encode(&DevicesRequest { v: WIRE_VERSION });
        let answer = self.bus.request(subject, request.into()).await;
        decode(&answer.expect("an answer").payload).expect("devices")
    }
}

fn request() -> Vec<u8> {
    encode(&MemoryStatusRequest {
        v: WIRE_VERSION,
        after: None,
    })
}

fn of(status: &MemoryStatus) -> Figures {
    (status.capacity, status.held, status.free)
}

/// The newest exported values of a tenant's gauges.
fn exported(receiver: &Receiver, tenant: &str) -> Figures {
    let received = receiver.received();
    let of = json!({"warploom.tenant": tenant, "warploom.gpu": 0});
    let newest = |name: &str| {
        let name = format!("warploom.vram.{name}");
        let mut lines = received.iter().rev();
        let found = lines.find(|line| line["name"] == name && line["attributes"] == of);
        let found = found.unwrap_or_else(|| panic!("no {name} of {tenant}"));
        found["value"].as_u64().expect("bytes")
    };
    (newest("total"), newest("held"), newest("free"))
}

#[tokio::test]
async fn whoever_asks_is_told_the_same_number_and_only_of_himself() {
    let receiver = Receiver::start(0, None);
    let mut plans = [plan("a", "search", 1), plan("b", "search", 1)];
    plans[0].settings.quota = QUOTA;
    let endpoint = receiver.endpoint();
    let settings = [("worker.capacity", "1GiB"), ("telemetry.otlp", &endpoint)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "quotas");
    let start = |tenant: &str| Allocator::start(&loaded, tenant, dir.path(), &program);
    let (mut one, mut other, mut beside) = (start("a"), start("a"), start("b"));
    let (first, second, theirs) = ([1, 12_345_677], [3 * MIB + 1], [333_333_333]);
    for (program, sizes) in [
        (&mut one, &first[..]),
        (&mut other, &second),
        (&mut beside, &theirs),
    ] {
        for bytes in sizes {
            assert_eq!(program.allocates(*bytes), DONE);
        }
        assert_eq!(program.does("work"), DONE);
    }
    let held = charged(&first) + charged(&second);
    let of_a = (QUOTA, held, QUOTA - held);
    let all = held + charged(&theirs);
    let of_b = (CAPACITY, charged(&theirs), CAPACITY - all);
    // The programs.
    assert_eq!((told(&mut one), told(&mut other)), (of_a, of_a));
    let (total, _, free) = told(&mut beside);
    assert_eq!((total, free), (of_b.0, of_b.2));
    check_commands(&loaded, (of_a, of_b), all);
    check_sessions(
        row(&memory(&loaded, &["status", "--json"]), "a"),
        [&one, &other],
        [charged(&first), charged(&second)],
    );
    // A tenant's login.
    let worker = loaded.status().await.workers[0].incarnation;
    let (a, b) = (Login::of(&loaded, "a").await, Login::of(&loaded, "b").await);
    check_logins((&a, &b), worker, (of_a, of_b)).await;
    // A completed free is visible at once.
    assert_eq!(
        (one.does("free"), one.does("work")),
        (DONE.into(), DONE.into())
    );
    let held = held - charged(&first[1..]);
    assert_eq!(told(&mut other), (QUOTA, held, QUOTA - held));
    assert_eq!(of(&a.memory(worker).await), (QUOTA, held, QUOTA - held));
    // The memory of an ended program is free again.
    let mut gone = start("b");
    assert_eq!(gone.allocates(MIB), DONE);
    assert_eq!(gone.0.ends().1, Some(0));
    let of_b = (CAPACITY, of_b.1, CAPACITY - held - of_b.1);
    let begun = Instant::now();
    while of(&b.memory(worker).await) != of_b {
        assert!(begun.elapsed() < SOON, "what ended is still held");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The metrics, which every role exports at its end.
    let mut loaded = loaded;
    loaded.demo.cluster.drain().expect("every role ends");
    let of_a = (QUOTA, held, QUOTA - held);
    assert_eq!(exported(&receiver, "a"), of_a);
    assert_eq!(exported(&receiver, "b"), of_b);
}

/// Checks the answers that tenants' logins get, and that they get no others.
async fn check_logins(
    (a, b): (&Login, &Login),
    worker: Incarnation,
    (of_a, of_b): (Figures, Figures),
) {
    let said = a.memory(worker).await;
    assert_eq!(of(&said), of_a);
    assert_eq!((said.tenants.len(), said.sessions.len()), (1, 2));
    let theirs = b.memory(worker).await;
    assert_eq!(
        (of(&theirs), theirs.tenants[0].tenant.as_str()),
        (of_b, "b")
    );
    check_refusals(a, b, worker).await;
    assert_eq!(of(&a.memory(worker).await), of_a, "nothing came of it");
    let devices = a.devices().await;
    assert_eq!(
        (devices.devices.len(), devices.devices[0].quota),
        (1, QUOTA)
    );
    assert_eq!(devices.devices[0].incarnation, worker);
}

/// The memory in the last line of a command's output, queried again until a busy worker has
/// answered.
fn memory(loaded: &LoadedCluster, arguments: &[&str]) -> Value {
    let begun = Instant::now();
    loop {
        let line = objects(loaded, arguments).pop().expect("a line");
        if !line["memory"][0]["capacity"].is_null() {
            return line["memory"].clone();
        }
        assert!(begun.elapsed() < SOON, "{line}");
    }
}

/// Checks the output of `status` and `usage`, as JSON and as text.
fn check_commands(loaded: &LoadedCluster, (of_a, of_b): (Figures, Figures), all: u64) {
    for arguments in [["status", "--json"], ["usage", "--json"]] {
        let memory = &memory(loaded, &arguments);
        let whole = figures(&memory[0], "capacity");
        assert_eq!(whole, (CAPACITY, all, CAPACITY - all));
        assert_eq!(figures(row(memory, "a"), "total"), of_a);
        assert_eq!(figures(row(memory, "b"), "total"), of_b);
    }
    let memory = memory(loaded, &["usage", "--json", "--tenant", "a"]);
    assert_eq!(figures(row(&memory, "a"), "total"), of_a);
    assert_eq!(memory[0]["tenants"].as_array().map(Vec::len), Some(1));
    for command in ["status", "usage"] {
        let figures = ["│ a ", "14.8 MiB", "285.2 MiB", "300.0 MiB"];
        let has_all = |line: &str| figures.iter().all(|figure| line.contains(figure));
        let begun = Instant::now();
        loop {
            let shown = done(loaded, &[command]);
            if shown.lines().any(has_all) {
                break;
            }
            assert!(begun.elapsed() < SOON, "{shown}");
        }
    }
}

/// Checks that the sessions of a tenant are those of these programs, in the order in which they
/// began.
fn check_sessions(row: &Value, programs: [&Allocator; 2], held: [u64; 2]) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let sessions = row["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 2, "{row}");
    for (program, held) in programs.into_iter().zip(held) {
        let pid = program.0.child.id();
        let found = sessions.iter().find(|it| it["process"]["pid"] == pid);
        let session = found.unwrap_or_else(|| panic!("no {pid} in {row}"));
        let (process, bytes) = (&session["process"], &session["held"]);
        assert_eq!((&process["name"], bytes), (&json!("quotas"), &json!(held)));
        assert_eq!(process["host"], host.trim());
    }
}

/// Checks that no tenant learns of another, and that nonsense gets no answer.
async fn check_refusals(a: &Login, b: &Login, worker: Incarnation) {
    // The broker does not let a tenant publish as another, and the worker does not answer on
    // another's inbox.
    assert_eq!(b.asks(&a.tenant, worker, request()).await, None);
    let inbox = format!("{}.x", a.subjects.tenant_inbox(&a.tenant));
    let mut hears = a.bus.subscribe(inbox.clone()).await.expect("its own");
    a.bus.flush().await.expect("it is there");
    let subject = b.subjects.tenant_memory(&b.tenant, worker);
    let sent = b.bus.publish_with_reply(subject, inbox, request().into());
    sent.await.expect("sent");
    b.bus.flush().await.expect("it is there");
    for bad in [
        vec![],
        b"hello".to_vec(),
        vec![0xdf; 1 << 20],
        vec![0x91; 7 << 20],
    ] {
        assert_eq!(a.asks(&a.tenant, worker, bad).await, None);
    }
    let heard = futures_util::StreamExt::next(&mut hears);
    let heard = tokio::time::timeout(Duration::from_millis(200), heard).await;
    assert!(heard.is_err(), "another's answer");
}

/// States of a tenant's work: it waits for the asker, may run its next kernel, runs it, or has been seen.
const WAITS: u8 = 0;
const RESTED: u8 = 1;
const RUNS: u8 = 2;
const SEEN: u8 = 3;

/// Ends a tenant's work when the asker ends, also by a failed assertion.
struct Ends(Arc<AtomicU8>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(SEEN, Ordering::SeqCst);
    }
}

/// Runs kernels, each twice as long as the one before, until the asker has seen one at work. Before each, the asker
/// has seen the tenant idle.
fn work(settings: Settings, state: &AtomicU8) {
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let module = session.load(KERNEL.as_bytes()).expect("a module");
    let kernel = module.function("long").expect("a kernel");
    let data = session.alloc(128).expect("memory");
    let mut steps = 1_u32 << 20;
    while state.load(Ordering::SeqCst) != SEEN {
        if state.load(Ordering::SeqCst) == WAITS {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        let mut params = data.to_le_bytes().to_vec();
        params.extend(steps.to_le_bytes());
        let launched = session.launch(&kernel, [1, 1, 1], [32, 1, 1], 0, &params);
        launched.expect("a launch");
        state.store(RUNS, Ordering::SeqCst);
        session.sync().expect("it ran");
        let _ = state.compare_exchange(RUNS, WAITS, Ordering::SeqCst, Ordering::SeqCst);
        steps = steps.checked_mul(2).expect("no kernel was seen at work");
    }
    session.close().expect("closed");
}

#[tokio::test]
async fn a_kernel_that_has_not_ended_makes_its_tenant_busy() {
    let plans = [plan("a", "search", 1)];
    let settings = [("worker.watchdog", "60s")];
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let worker = loaded.status().await.workers[0].incarnation;
    let login = Login::of(&loaded, "a").await;
    let settings = loaded.login("a");
    let state = Arc::new(AtomicU8::new(WAITS));
    let (told, _ends) = (Arc::clone(&state), Ends(Arc::clone(&state)));
    let at_work = tokio::task::spawn_blocking(move || work(settings, &told));
    let swap = |from, to| {
        let _ = state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
    };
    let mut most = 0;
    while !at_work.is_finished() {
        let before = state.load(Ordering::SeqCst);
        let said = login.memory(worker).await;
        let busy = said.tenants.first().map_or(0, |row| row.busy_ppm);
        let sessions = said.sessions.iter().map(|session| session.busy_ppm);
        assert_eq!(sessions.max().unwrap_or(0), busy, "it is the only one");
        // It ran before and after the query, so the figure does not come from a completion.
        if before == RUNS && state.load(Ordering::SeqCst) == RUNS {
            most = most.max(busy);
        }
        match busy {
            0 => swap(WAITS, RESTED),
            _ if most >= 500_000 => state.store(SEEN, Ordering::SeqCst),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    at_work.await.expect("it worked");
    assert!((500_000..=1_000_000).contains(&most), "{most}");
}
