//! Copies of bytes that a worker already holds are not sent again. A hash alone gives access to
//! nothing, and kept bytes are bounded. A separate connection counts the bytes on the bus.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::{Client as Bus, ConnectOptions};
use bus_schemas::subject::{ToClient, ToWorker};
use bus_schemas::{
    Code, ContentHash, CopyOffer, DataChunk, WIRE_VERSION, WorkerAck, decode, encode, limits,
};
use client_agent::{Client, Session, Settings};
use futures_util::StreamExt;
use tokio::sync::watch;

use crate::loaded::{LoadedCluster, SOON, plan};
use crate::usage::{number, table};

pub(crate) const MIB: usize = 1 << 20;
/// A multiple of neither the chunk size nor the page size.
const BYTES: usize = 9 * MIB + 300_001;

/// Bytes without two equal pages.
pub(crate) fn weights(seed: u32, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(4) as u32).map(|at| (at ^ seed).wrapping_mul(0x9e37_79b9));
    let mut all: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    all.truncate(bytes);
    all
}

/// A program that has made a copy.
pub(crate) struct Program {
    pub(crate) session: Session,
    at: u64,
    _client: Client,
}

impl Program {
    pub(crate) fn start(settings: Settings, bytes: &[u8]) -> Self {
        let client = Client::connect(settings).expect("a broker");
        let session = client.open().expect("a session");
        let at = session.alloc(bytes.len() as u64).expect("memory");
        session.copy_in(at, bytes).expect("copied");
        session.sync().expect("it is there");
        Self {
            session,
            at,
            _client: client,
        }
    }

    pub(crate) fn read(&self, bytes: usize) -> Vec<u8> {
        let mut there = vec![0; bytes];
        self.session.copy_out(self.at, &mut there).expect("read");
        there
    }
}

/// Bytes of copies that were sent over the bus. A repeated send counts once: on a busy machine a
/// client repeats messages that the worker has not yet acknowledged.
pub(crate) struct Sent {
    bus: Bus,
    /// A subject with no other subscriber, on which the counter hears its own message.
    mark: String,
    marks: watch::Receiver<u64>,
    sum: Arc<AtomicU64>,
}

impl Sent {
    /// Counts from now on.
    pub(crate) async fn count(loaded: &LoadedCluster) -> Self {
        let credentials = loaded.demo.cluster.broker.credentials();
        let login = credentials.cluster_user.clone().expect("a login of roles");
        let options = ConnectOptions::with_user_and_password(login.user, login.password);
        let bus: Bus = options
            .connect(credentials.url.with_login())
            .await
            .expect("a broker");
        let subject = |of| format!("wl.v1.{}.t.{of}.data", credentials.cluster);
        let mark = subject("nobody.up.w.none.none");
        let mut chunks = bus.subscribe(subject("*.up.w.*.*")).await.expect("heard");
        bus.flush().await.expect("it counts");
        let sum = Arc::new(AtomicU64::new(0));
        let (marked, marks) = watch::channel(0);
        let (counted, nobody) = (Arc::clone(&sum), mark.clone());
        tokio::spawn(async move {
            let mut known = HashMap::new();
            while let Some(message) = chunks.next().await {
                if message.subject.as_str() == nobody {
                    marked.send_modify(|marks| *marks += 1);
                    continue;
                }
                let chunk: DataChunk<'_> = decode(&message.payload).expect("a chunk");
                let place = (message.subject.to_string(), chunk.transfer);
                let end = chunk.offset + chunk.bytes.len() as u64;
                let new = covers(known.entry(place).or_default(), chunk.offset..end);
                counted.fetch_add(new, Ordering::Relaxed);
            }
        });
        Self {
            bus,
            mark,
            marks,
            sum,
        }
    }

    /// Bytes sent since the last call: all that precede its own message.
    pub(crate) async fn take(&self) -> usize {
        let mut marks = self.marks.clone();
        let before = *marks.borrow();
        let said = self.bus.publish(self.mark.clone(), "".into()).await;
        said.expect("published");
        let heard = tokio::time::timeout(SOON, marks.wait_for(|marks| *marks > before)).await;
        heard.expect("soon").expect("it counts");
        self.sum.swap(0, Ordering::Relaxed) as usize
    }
}

/// Adds a range to the known ones, which do not overlap; returns the number of new bytes.
fn covers(known: &mut Vec<Range<u64>>, range: Range<u64>) -> u64 {
    let size = |known: &[Range<u64>]| known.iter().map(|it| it.end - it.start).sum::<u64>();
    let before = size(known);
    known.push(range);
    known.sort_by_key(|it| it.start);
    let mut end = 0;
    for one in known.iter_mut() {
        // The part that an earlier range has is removed from it.
        one.start = one.start.max(end).min(one.end);
        end = end.max(one.end);
    }
    size(known) - before
}

#[test]
fn what_goes_again_counts_once() {
    let known = &mut Vec::new();
    for (range, new) in [
        (4..8, 4),
        (4..8, 0),
        (0..6, 4),
        (5..9, 1),
        (1..3, 0),
        (20..30, 10),
        (7..40, 21),
        (0..40, 0),
    ] {
        assert_eq!(covers(known, range.clone()), new, "{range:?} of {known:?}");
    }
}

/// Runs blocking work beside the test's own tasks.
async fn start(loaded: &LoadedCluster, tenant: &str, bytes: &[u8]) -> Program {
    let (settings, bytes) = (loaded.login(tenant), bytes.to_vec());
    let program = tokio::task::spawn_blocking(move || Program::start(settings, &bytes));
    program.await.expect("it ends")
}

/// A cluster of one CPU worker, with the tenants `a` and `b`.
pub(crate) async fn cluster(settings: &[(&str, &str)]) -> LoadedCluster {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let settings = [&[("worker.device", "cpu")], settings].concat();
    LoadedCluster::idle(1, 1, &plans, &settings).await
}

#[tokio::test]
async fn what_a_tenant_has_sent_is_not_sent_again() {
    let loaded = cluster(&[]).await;
    let sent = Sent::count(&loaded).await;
    let all = weights(1, BYTES);
    let first = start(&loaded, "a", &all).await;
    assert!(sent.take().await >= BYTES, "nobody has them");
    // One byte differs: only its chunk is sent.
    let mut changed = all.clone();
    changed[3 * MIB + 77] ^= 1;
    let second = start(&loaded, "a", &changed).await;
    let bytes = sent.take().await;
    assert!((MIB..MIB + 4_096).contains(&bytes), "{bytes} sent");
    assert!(second.read(BYTES) == changed && first.read(BYTES) == all);
    // Writes of one program are not visible to the others, nor to later ones.
    let filled = second.session.set(second.at, 5 * MIB as u64, 7, 1);
    filled.expect("filled");
    second.session.sync().expect("done");
    drop(first);
    let third = start(&loaded, "a", &all).await;
    assert!(sent.take().await < 4_096, "the worker has them");
    changed[..5 * MIB].fill(7);
    assert!(third.read(BYTES) == all && second.read(BYTES) == changed);
    // To the same place again. Batches of data are sent without an offer, and are correct.
    third.session.copy_in(third.at, &changed).expect("copied");
    third.session.sync().expect("done");
    assert!(sent.take().await >= BYTES);
    assert!(third.read(BYTES) == changed);
    // Another tenant's copies are its own.
    let other = start(&loaded, "b", &all).await;
    assert!(
        sent.take().await >= BYTES,
        "answered from what another sent"
    );
    assert!(other.read(BYTES) == all);
    // Also after all of them have ended.
    for program in [second, third, other] {
        program.session.close().expect("closed");
    }
    let last = start(&loaded, "a", &all).await;
    assert!(sent.take().await < 4_096 && last.read(BYTES) == all);
    // The accounts have the exact number of bytes that were not sent, by tenant.
    let until = Instant::now() + SOON;
    loop {
        let (rows, _) = table(&loaded, "tenant");
        let of = |name| rows.iter().find(|row| row["tenant"] == name);
        let [a, b] =
            ["a", "b"].map(|name| of(name).map_or(0, |row| number(row, "unsent_bytes") as usize));
        assert_eq!(b, 0, "{rows:?}");
        if a == 3 * BYTES - MIB {
            break;
        }
        assert!(Instant::now() < until, "{a} of {}", 3 * BYTES - MIB);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn tenants_that_share_send_every_byte_and_it_is_stored_once() {
    let loaded = cluster(&[("worker.share", "all")]).await;
    let sent = Sent::count(&loaded).await;
    let all = weights(2, BYTES);
    let one = start(&loaded, "a", &all).await;
    let other = start(&loaded, "b", &all).await;
    assert!(sent.take().await >= 2 * BYTES, "a hash is no proof");
    let stored = memory(&loaded);
    assert!(
        stored <= BYTES as u64 * 11 / 10,
        "{stored} bytes are stored"
    );
    assert!(one.read(BYTES) == all && other.read(BYTES) == all);
}

/// Bytes of the memory files of the worker's device and its chunks.
fn memory(loaded: &LoadedCluster) -> u64 {
    let worker = loaded.demo.cluster.workers[0].pid();
    let files = std::fs::read_dir(format!("/proc/{worker}/fd")).expect("a process");
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let bytes = paths.filter_map(|file| {
        let target = std::fs::read_link(&file).ok()?;
        let is_its = target.to_string_lossy().contains("memfd:warploom");
        let found = std::fs::metadata(&file).ok().filter(|_| is_its)?;
        Some(found.blocks() * 512)
    });
    bytes.sum()
}

#[tokio::test]
async fn what_no_session_uses_any_more_is_kept_within_its_limit() {
    let loaded = cluster(&[("worker.chunk_memory", "4MiB")]).await;
    let sent = Sent::count(&loaded).await;
    for seed in 0..3 {
        let program = start(&loaded, "a", &weights(seed, BYTES)).await;
        program.session.close().expect("closed");
    }
    // The end of the last copy does not need room, so the limit is checked when another one comes.
    let small = start(&loaded, "a", &weights(9, 300_000)).await;
    let until = Instant::now() + SOON;
    while memory(&loaded) > 5 * MIB as u64 {
        assert!(Instant::now() < until, "{} bytes stay", memory(&loaded));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sent.take().await;
    let again = start(&loaded, "a", &weights(2, BYTES)).await;
    let bytes = sent.take().await;
    let kept = BYTES - bytes.min(BYTES);
    assert!((MIB..=4 * MIB).contains(&kept), "{kept} were kept");
    assert!(again.read(BYTES) == weights(2, BYTES));
    drop(small);
}

/// The answers to an offer of a hand-made session, then the outcome of the bytes that it sends.
async fn offers(
    loaded: &LoadedCluster,
    tenant: &str,
    named: &[u8],
    sends: &[u8],
) -> (u64, Option<Code>) {
    let (client, subjects, opened) = loaded.join(tenant).await;
    let name = tenant.parse().expect("a tenant");
    let to = |what| subjects.to_worker(&name, opened.incarnation, opened.session, what);
    let acks = subjects.to_client(&name, opened.session, ToClient::Worker);
    let mut acks = client.subscribe(acks).await.expect("a subscription");
    let hash = ContentHash::of([named]);
    let offer = CopyOffer {
        v: WIRE_VERSION,
        transfer: 1,
        total: named.len() as u64,
        hashes: &hash.0,
    };
    let (mut held, mut failure, until) = (None, None, Instant::now() + SOON);
    while Instant::now() < until && (held.is_none() || failure.is_none()) {
        if held.is_none() {
            let offer = encode(&offer).into();
            client
                .publish(to(ToWorker::Offer), offer)
                .await
                .expect("sent");
        }
        let pause = Duration::from_millis(500);
        while let Ok(Some(message)) = tokio::time::timeout(pause, acks.next()).await {
            let ack: WorkerAck<'_> = decode(&message.payload).expect("an acknowledgement");
            if let Some(answer) = ack.held.iter().find(|answer| answer.transfer == 1) {
                held = Some(answer.chunks);
            }
            failure = failure.or(ack.failure.map(|failure| failure.code));
            if held.is_some() {
                break;
            }
        }
        if held.is_some() {
            for (index, part) in sends.chunks(limits::CHUNK_BYTES).enumerate() {
                let chunk = DataChunk {
                    v: WIRE_VERSION,
                    transfer: 1,
                    total: sends.len() as u64,
                    offset: (index * limits::CHUNK_BYTES) as u64,
                    hash: &[],
                    bytes: part,
                };
                let chunk = encode(&chunk).into();
                client
                    .publish(to(ToWorker::Data), chunk)
                    .await
                    .expect("sent");
            }
            if sends.is_empty() {
                break;
            }
        }
    }
    (held.expect("an answer"), failure)
}

#[tokio::test]
async fn a_hash_is_no_proof_and_a_lie_about_bytes_ends_its_session() {
    let loaded = cluster(&[("worker.share", "all")]).await;
    let secret = weights(3, MIB);
    let owner = start(&loaded, "a", &secret).await;
    // Another tenant knows the hash but does not have the bytes.
    assert_eq!(offers(&loaded, "b", &secret, &[]).await, (0, None));
    assert_eq!(offers(&loaded, "a", &secret, &[]).await.0, 1, "its own");
    // It sends other bytes under that hash: they are discarded, and its session fails.
    let lie = weights(4, MIB);
    let (held, failure) = offers(&loaded, "b", &secret, &lie).await;
    assert_eq!((held, failure), (0, Some(Code::Protocol)));
    assert_eq!(offers(&loaded, "b", &secret, &[]).await.0, 0);
    // Fewer bytes than it has offered, as a transfer of their own length.
    let (held, failure) = offers(&loaded, "b", &secret, &lie[..1]).await;
    assert_eq!((held, failure), (0, Some(Code::Protocol)));
    assert!(owner.read(MIB) == secret);
    let honest = start(&loaded, "b", &secret).await;
    assert!(honest.read(MIB) == secret);
    assert_eq!(
        offers(&loaded, "b", &secret, &[]).await.0,
        1,
        "it has sent them"
    );
}

#[tokio::test]
async fn an_idle_worker_gives_the_memory_of_copies_back() {
    let loaded = cluster(&[("worker.chunk_idle", "100ms")]).await;
    let sent = Sent::count(&loaded).await;
    let used = start(&loaded, "a", &weights(1, BYTES)).await;
    let program = start(&loaded, "a", &weights(0, BYTES)).await;
    assert!(memory(&loaded) > BYTES as u64);
    program.session.close().expect("closed");
    let until = Instant::now() + SOON;
    while memory(&loaded) > BYTES as u64 * 11 / 10 {
        assert!(Instant::now() < until, "{} bytes stay", memory(&loaded));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The bytes are sent again, but those that a session uses are still kept.
    sent.take().await;
    let again = start(&loaded, "a", &weights(0, BYTES)).await;
    assert!(sent.take().await >= BYTES);
    let other = start(&loaded, "a", &weights(1, BYTES)).await;
    assert!(sent.take().await < BYTES / 10);
    for (program, seed) in [(used, 1), (again, 0), (other, 1)] {
        assert!(program.read(BYTES) == weights(seed, BYTES));
    }
}
