//! Greedy tenants that take everything they can get, and another tenant beside them that notices
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use bus_schemas::subject::{Subjects, ToClient, ToLeader, ToWorker};
use bus_schemas::{
    Alive, Allowance, CloseReason, CloseRequest, Code, DataChunk, Failure, Opened, SessionId,
    Tenant, TenantSettings, WIRE_VERSION, WorkerAck, decode, encode,
};
use client_agent::{Client, Settings};
use futures_util::StreamExt;

use crate::loaded::LoadedCluster;

const TIMEOUT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// The kernel `double` doubles each of 256 words.
const DOUBLE: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry double(.param .u64 words) {
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [words]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
    add.u64 %d1, %d1, %d2; ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r2;
    st.global.u32 [%d1], %r2; ret;
}";

/// A program from start to end: opens, loads, copies, computes, checks, closes.
fn program(settings: &Settings) -> Result<(), client_agent::Error> {
    let client = Client::connect(settings.clone())?;
    let session = client.open()?;
    let module = session.load(DOUBLE.as_bytes())?;
    let double = module.function("double")?;
    // Large enough to be staged.
    let words: Vec<u8> = (0..64 << 10_u32).flat_map(u32::to_le_bytes).collect();
    let at = session.alloc(words.len() as u64)?;
    session.copy_in(at, &words)?;
    session.launch(&double, [1, 1, 1], [256, 1, 1], 0, &at.to_le_bytes())?;
    let mut back = vec![0; words.len()];
    session.copy_out(at, &mut back)?;
    for (index, word) in back.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes(word.try_into().expect("four bytes")) as usize;
        let wanted = if index < 256 { 2 * index } else { index };
        assert_eq!(word, wanted, "word {index}");
    }
    session.close()
}

/// Opens sessions until it is refused, and keeps asking; returns the number of sessions and the
/// first error.
fn opens(settings: Settings, stop: &AtomicBool, refused: &AtomicUsize) -> (usize, Failure) {
    let client = Client::connect(settings).expect("a broker");
    let (mut sessions, mut first) = (Vec::new(), None);
    while !stop.load(Ordering::Relaxed) {
        match client.open() {
            Ok(session) => sessions.push(session),
            Err(client_agent::Error::Refused(failure)) => {
                first.get_or_insert(failure);
                refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    (sessions.len(), first.expect("a refusal"))
}

/// Loads modules until it is refused, and keeps trying; then unloads one and loads another.
fn loads(settings: Settings, stop: &AtomicBool, refused: &AtomicUsize) -> (usize, Failure) {
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let (mut modules, mut first) = (Vec::new(), None);
    let mut number = 0_u64;
    let mut next = || {
        number += 1;
        let filler = "mul.lo.u64 %d1, %d1, %d1; add.u64 %d1, %d1, 3;\n".repeat(2_000);
        format!(
            ".version 7.0\n.target sm_75\n.address_size 64\n
             .visible .entry k{number}(.param .u64 to) {{ .reg .b64 %d<3>; mov.u64 %d1, {number};
             ld.param.u64 %d2, [to]; {filler} st.global.u64 [%d2], %d1; ret; }}"
        )
    };
    while !stop.load(Ordering::Relaxed) {
        match session.load(next().as_bytes()) {
            Ok(module) => modules.push(module),
            Err(client_agent::Error::Refused(failure)) => {
                first.get_or_insert(failure);
                refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let held = modules.len();
    // It can go on after it has freed something: the session did not fail.
    modules
        .drain(..held / 2)
        .for_each(|module| session.unload(module).expect("unloaded"));
    session.sync().expect("a session that lives");
    session
        .load(next().as_bytes())
        .expect("there is room again");
    session.close().expect("closed");
    (held, first.expect("a refusal"))
}

/// The first part of a transfer, for which the tenant has room reserved for all of it.
fn part(transfer: u64, total: u64, bytes: &[u8]) -> bytes::Bytes {
    let chunk = DataChunk {
        v: WIRE_VERSION,
        transfer,
        total,
        offset: 0,
        hash: &[],
        bytes,
    };
    encode(&chunk).into()
}

/// Begins transfers beyond any credit until the worker refuses; returns the failure of its session.
async fn stages(loaded: &LoadedCluster, tenant: &str) -> Failure {
    let (client, subjects, opened) = loaded.join(tenant).await;
    let name: Tenant = tenant.parse().expect("a tenant");
    let acks = subjects.to_client(&name, opened.session, ToClient::Worker);
    let mut acks = client.subscribe(acks).await.expect("a subscription");
    let to = subjects.to_worker(&name, opened.incarnation, opened.session, ToWorker::Data);
    let bytes = vec![7; 64 << 10];
    let asked = Instant::now();
    loop {
        for transfer in 1..=200 {
            let sent = client.publish(to.clone(), part(transfer, MIB, &bytes));
            sent.await.expect("sent");
        }
        client.flush().await.expect("flushed");
        // Reads everything that has arrived before it sends more.
        let pause = Duration::from_millis(250);
        while let Ok(Some(message)) = tokio::time::timeout(pause, acks.next()).await {
            let ack: WorkerAck<'_> = decode(&message.payload).expect("an acknowledgement");
            if let Some(failure) = ack.failure {
                return failure;
            }
        }
        assert!(asked.elapsed() < TIMEOUT, "the worker keeps all of it");
    }
}

#[tokio::test]
async fn tenants_that_take_all_they_can_get_shut_out_nobody() {
    let settings = [("worker.device", "cpu"), ("worker.watchdog", "60s")];
    let mut loaded = LoadedCluster::idle(1, 1, &[], &settings).await;
    // The limits on sessions and addresses keep their defaults.
    let greedy = TenantSettings {
        modules: Allowance::of(32 * MIB),
        staged: Allowance::of(64 * MIB),
        ..TenantSettings::default()
    };
    // Three tenants, as one would block itself: modules are staged, and need a session.
    let opener = loaded.guest("opener", &greedy).await;
    let loader = loaded.guest("loader", &greedy).await;
    loaded.guest("stager", &greedy).await;
    let victim = loaded.guest("victim", &TenantSettings::default()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [opening, loading] = &counts;
    let staging = stages(&loaded, "stager");
    let (opener_stop, opener_count) = (stop.clone(), opening.clone());
    let (loader_stop, loader_count) = (stop.clone(), loading.clone());
    let loads = tokio::task::spawn_blocking(move || loads(loader, &loader_stop, &loader_count));
    let opens = tokio::task::spawn_blocking(move || opens(opener, &opener_stop, &opener_count));
    let ended = stop.clone();
    let programs = tokio::task::spawn_blocking(move || {
        let (mut before, mut after) = (0, 0);
        let began = Instant::now();
        while began.elapsed() < TIMEOUT && after < 20 {
            program(&victim).unwrap_or_else(|error| panic!("the victim: {error}"));
            let refused = counts
                .iter()
                .all(|count| count.load(Ordering::Relaxed) >= 3);
            *(if refused { &mut after } else { &mut before }) += 1;
        }
        ended.store(true, Ordering::Relaxed);
        (before, after)
    });
    let (staged, programs) = tokio::join!(staging, programs);
    let (before, after) = programs.expect("no error");
    let opened = opens.await.expect("as it should be");
    let (held, too_many) = loads.await.expect("as it should be");
    assert!(
        before > 0 && after >= 20,
        "{before} programs before it was refused, {after} after"
    );
    let (sessions, refused) = opened;
    let codes = [Code::SessionLimit, Code::AddressLimit];
    assert!(
        codes.contains(&refused.code) && sessions > 10,
        "{sessions}: {refused}"
    );
    assert!(
        refused.detail.contains("warploom tenant set opener --"),
        "{refused}"
    );
    assert_eq!(too_many.code, Code::ModuleShare, "{too_many}");
    assert!(
        held > 1 && too_many.detail.contains("tenant set loader --modules"),
        "{too_many}"
    );
    assert_eq!(staged.code, Code::StagedShare, "{staged}");
    assert!(
        staged.detail.contains("64 MiB staged of the 64 MiB"),
        "{staged}"
    );
}

/// Resident memory of a process, bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.expect("a number")
        .trim()
        .parse::<u64>()
        .expect("a number")
        << 10
}

async fn close(client: &async_nats::Client, subjects: &Subjects, tenant: &Tenant, opened: &Opened) {
    let request = CloseRequest {
        v: WIRE_VERSION,
        session: opened.session,
        after: 0,
        reason: CloseReason::Asked,
    };
    let to = subjects.to_leader(tenant, ToLeader::Close);
    let began = Instant::now();
    while let Err(error) = client.request(to.clone(), encode(&request).into()).await {
        // The leader ignores a tenant that has just flooded it, and drops its pending messages.
        let silenced = [RequestErrorKind::NoResponders, RequestErrorKind::TimedOut];
        assert!(silenced.contains(&error.kind()), "{error}");
        assert!(began.elapsed() < TIMEOUT, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn what_was_staged_beyond_credit_is_given_back_when_the_session_ends() {
    let mut loaded = LoadedCluster::idle(1, 1, &[], &[("worker.device", "cpu")]).await;
    loaded.guest("guest", &TenantSettings::default()).await;
    let (client, subjects, opened) = loaded.join("guest").await;
    let tenant: Tenant = "guest".parse().expect("a tenant");
    let worker = loaded.demo.cluster.workers[0].pid();
    let before = resident(worker);
    let to = subjects.to_worker(&tenant, opened.incarnation, opened.session, ToWorker::Data);
    let bytes = vec![7; 256 << 10];
    // Transfers of one part each, which no op will name. If a busy worker is too slow, its broker
    // drops the messages and the connection. So transfers are sent until the worker has taken
    // enough, in place of lost ones, too.
    let began = Instant::now();
    let mut transfer = 0_u64;
    let staged = || resident(worker).saturating_sub(before);
    while staged() < 150 * MIB {
        assert!(began.elapsed() < TIMEOUT, "{} bytes are staged", staged());
        let (from, sent) = (staged(), Instant::now());
        for _ in 0..16 {
            transfer += 1;
            let whole = part(transfer, bytes.len() as u64, &bytes);
            client.publish(to.clone(), whole).await.expect("sent");
        }
        client.flush().await.expect("flushed");
        while staged() < from + 3 * MIB && sent.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    close(&client, &subjects, &tenant, &opened).await;
    loaded
        .wait("they are given back", TIMEOUT, |_| {
            (resident(worker).saturating_sub(before) < 40 * MIB).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_flood_of_signs_of_life_leaves_no_memory_behind_at_the_leader() {
    let mut loaded = LoadedCluster::idle(1, 1, &[], &[("worker.device", "cpu")]).await;
    loaded.guest("guest", &TenantSettings::default()).await;
    let (client, subjects, opened) = loaded.join("guest").await;
    let tenant: Tenant = "guest".parse().expect("a tenant");
    let leader = loaded.demo.cluster.leaders[0].1.pid();
    let before = resident(leader);
    // As many sessions as fit in a message.
    let alive = |number: u64| Alive {
        v: WIRE_VERSION,
        connection: "client-guest".into(),
        sessions: (0..900_000)
            .map(|session| SessionId(number << 40 | session))
            .collect(),
        workers: Vec::new(),
        gpus: Vec::new(),
    };
    for number in 1..=40 {
        let to = subjects.to_leader(&tenant, ToLeader::Alive);
        let message = encode(&alive(number)).into();
        client.publish(to, message).await.expect("sent");
        client.flush().await.expect("flushed");
    }
    // The leader has processed all of them when it answers a later message.
    close(&client, &subjects, &tenant, &opened).await;
    loaded
        .wait("the memory is given back", TIMEOUT, |_| {
            (resident(leader).saturating_sub(before) < 100 * MIB).then_some(())
        })
        .await;
}
