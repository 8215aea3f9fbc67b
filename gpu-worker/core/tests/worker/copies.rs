//! Offered copies, by the messages of clients and the answers to them.

use std::rc::Rc;

use bus_schemas::subject::{ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    ContentHash, CopyOffer, DataChunk, SessionId, Tenant, WIRE_VERSION, WorkerAck, decode, encode,
};
use gpu_worker_core::content::{Audience, ChunkId, PublishedTensor};
use gpu_worker_core::worker::{Action, ArrivedChunks, CheckedChunks, Event, PublishedNews, To};

use crate::bench::{Bench, CHUNK_IDLE, CHUNK_MEMORY, Kept, MIB, tenant};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const OTHER: SessionId = SessionId(3);

fn other() -> Tenant {
    "b".parse().unwrap()
}

/// A worker with two sessions of a tenant and one of another.
fn bench() -> Bench {
    let mut bench = Bench::new(100 * MIB, 100 * MIB);
    bench.open(A);
    bench.open(B);
    bench.open_of(other(), OTHER);
    bench
}

fn whose(session: SessionId) -> Tenant {
    if session == OTHER { other() } else { tenant() }
}

fn content(of: u8, bytes: u64) -> Vec<u8> {
    vec![of; bytes as usize]
}

fn say(bench: &mut Bench, session: SessionId, what: ToWorker, bytes: Vec<u8>) -> Vec<Action<Kept>> {
    bench.hear(&WorkerSubject::Tenant(whose(session), session, what), bytes)
}

/// Offers a copy in one transfer.
fn offer(
    bench: &mut Bench,
    session: SessionId,
    transfer: u64,
    content: &[u8],
) -> Vec<Action<Kept>> {
    let hashes = content.chunks(1 << 20).map(|it| ContentHash::of([it]).0);
    let hashes: Vec<u8> = hashes.flatten().collect();
    let offer = CopyOffer {
        v: WIRE_VERSION,
        transfer,
        total: content.len() as u64,
        hashes: &hashes,
    };
    say(bench, session, ToWorker::Offer, encode(&offer))
}

/// Sends bytes of a transfer of `total` bytes.
fn send(
    bench: &mut Bench,
    session: SessionId,
    (transfer, total): (u64, u64),
    (offset, bytes): (u64, &[u8]),
) -> Vec<Action<Kept>> {
    let mut all = Vec::new();
    for (index, bytes) in bytes.chunks(256 << 10).enumerate() {
        let chunk = DataChunk {
            v: WIRE_VERSION,
            transfer,
            total,
            offset: offset + (index << 18) as u64,
            hash: &[],
            bytes,
        };
        all.extend(say(bench, session, ToWorker::Data, encode(&chunk)));
    }
    all
}

/// The chunks that the worker says it has of a transfer, once it has answered.
fn held(
    bench: &mut Bench,
    session: SessionId,
    transfer: u64,
    mut actions: Vec<Action<Kept>>,
) -> Option<u64> {
    let to = To::Client(whose(session), session, ToClient::Worker);
    for _ in 0..3 {
        let acks = actions.iter().filter_map(|action| match action {
            Action::Publish(at, message) if *at == to => Some(message),
            _ => None,
        });
        for message in acks {
            let ack: WorkerAck<'_> = decode(message).unwrap();
            if let Some(row) = ack.held.iter().find(|row| row.transfer == transfer) {
                return Some(row.chunks);
            }
        }
        bench.now = bench.worker.next_wakeup()?;
        actions = bench.tell(Event::Timer);
    }
    None
}

fn arrived(actions: Vec<Action<Kept>>) -> Option<ArrivedChunks<Rc<[u8]>>> {
    actions.into_iter().find_map(|action| match action {
        Action::Check(arrived) => Some(*arrived),
        _ => None,
    })
}

fn dropped(actions: &[Action<Kept>]) -> Vec<u8> {
    let dropped = actions.iter().filter_map(|action| match action {
        Action::Drop(chunks) => Some(chunks.iter().map(|chunk| chunk[0])),
        _ => None,
    });
    dropped.flatten().collect()
}

/// The answer of a stager that has found the bytes right.
fn checked(arrived: &ArrivedChunks<Rc<[u8]>>, content: &[u8]) -> Event<'static, Kept> {
    let chunks = content.chunks(1 << 20).map(Rc::<[u8]>::from);
    let chunks: Vec<_> = chunks.collect();
    let rows = arrived.chunks.ids.iter().zip(&arrived.chunks.here);
    let sent = rows.zip(&chunks).filter(|((_, here), _)| here.is_none());
    let sent = sent.map(|((id, _), chunk)| (*id, Rc::clone(chunk)));
    Event::Chunks(CheckedChunks {
        session: arrived.session,
        transfer: arrived.transfer,
        sent: sent.collect(),
        chunks: Some(chunks),
    })
}

/// Offers content of one chunk and sends it.
fn give(bench: &mut Bench, session: SessionId, transfer: u64, content: &[u8]) -> Vec<Action<Kept>> {
    let actions = offer(bench, session, transfer, content);
    assert_eq!(held(bench, session, transfer, actions), Some(0));
    let whole = (transfer, content.len() as u64);
    let actions = send(bench, session, whole, (0, content));
    let arrived = arrived(actions).expect("all bytes are there");
    bench.tell(checked(&arrived, content))
}

#[test]
fn a_chunk_that_a_tenant_has_sent_is_not_asked_for_again_and_answers_that_tenant_only() {
    let mut bench = bench();
    let model = content(7, MIB);
    give(&mut bench, A, 1, &model);
    let actions = offer(&mut bench, B, 1, &model);
    assert_eq!(held(&mut bench, B, 1, actions), Some(1), "its tenant's");
    let actions = offer(&mut bench, OTHER, 1, &model);
    assert_eq!(held(&mut bench, OTHER, 1, actions), Some(0), "a stranger's");
    // Half of a copy is there: the other half comes, and both are checked as one transfer.
    let mut longer = model.clone();
    longer.extend(content(8, MIB));
    let actions = offer(&mut bench, B, 2, &longer);
    assert_eq!(held(&mut bench, B, 2, actions), Some(0b01));
    let actions = send(&mut bench, B, (2, 2 * MIB), (MIB, &longer[MIB as usize..]));
    let arrived = arrived(actions).expect("the rest was there");
    let here = arrived.chunks.here.iter().map(Option::is_some);
    assert_eq!(here.collect::<Vec<_>>(), [true, false]);
    bench.tell(checked(&arrived, &longer));
    let actions = offer(&mut bench, A, 2, &longer);
    assert_eq!(held(&mut bench, A, 2, actions), Some(0b11));
}

#[test]
fn bytes_that_do_not_match_their_hash_fail_the_session_and_are_not_kept() {
    let mut bench = bench();
    let model = content(7, MIB);
    let actions = offer(&mut bench, A, 1, &model);
    assert_eq!(held(&mut bench, A, 1, actions), Some(0));
    let actions = send(&mut bench, A, (1, MIB), (0, &content(9, MIB)));
    let arrived = arrived(actions).expect("all bytes are there");
    bench.tell(Event::Chunks(CheckedChunks {
        session: arrived.session,
        transfer: arrived.transfer,
        chunks: None,
        sent: Vec::new(),
    }));
    let actions = offer(&mut bench, A, 2, &content(1, MIB));
    assert_eq!(held(&mut bench, A, 2, actions), None, "it has failed");
    let actions = offer(&mut bench, B, 1, &model);
    assert_eq!(held(&mut bench, B, 1, actions), Some(0));
}

/// Sends a transfer's only bytes under another length than it was offered with.
fn lie(offered: u64, sent: u64) {
    let mut bench = bench();
    let actions = offer(&mut bench, A, 1, &content(7, offered));
    assert_eq!(held(&mut bench, A, 1, actions), Some(0));
    let actions = send(&mut bench, A, (1, sent), (0, &content(7, sent)));
    assert!(arrived(actions).is_none(), "{offered} offered, {sent} sent");
    let actions = offer(&mut bench, A, 2, &content(1, MIB));
    assert_eq!(held(&mut bench, A, 2, actions), None, "it has failed");
    let actions = offer(&mut bench, B, 1, &content(1, MIB));
    assert_eq!(held(&mut bench, B, 1, actions), Some(0), "B is served");
}

#[test]
fn a_transfer_of_another_length_than_offered_is_never_checked() {
    lie(2 * MIB, 1);
    lie(MIB, MIB - 1);
    lie(1, 2);
    lie(MIB, MIB + 1);
}

#[test]
fn unused_chunks_beyond_the_limit_go_and_idle_ones_go_by_time_alone() {
    let mut bench = bench();
    for of in 1..=3 {
        let actions = give(&mut bench, A, u64::from(of), &content(of, MIB));
        let most = CHUNK_MEMORY / MIB;
        assert_eq!(dropped(&actions).len(), usize::from(u64::from(of) > most));
    }
    let began = bench.now;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        bench.now = bench.worker.next_wakeup().expect("it looks again");
        gone.extend(dropped(&bench.tell(Event::Timer)));
        assert!(bench.now <= began + 3 * CHUNK_IDLE, "{gone:?}");
    }
    assert!(bench.now >= began + CHUNK_IDLE);
    gone.sort_unstable();
    assert_eq!(gone, [2, 3]);
    let model = content(3, MIB);
    let actions = offer(&mut bench, B, 1, &model);
    assert_eq!(held(&mut bench, B, 1, actions), Some(0));
}

#[test]
fn an_offer_of_published_weights_waits_for_their_tensor() {
    let mut bench = bench();
    let weights = content(5, MIB);
    let hash = ContentHash::of([&weights[..]]);
    let news = PublishedNews {
        audience: Audience::Tenants([other()].into()),
        tensors: vec![PublishedTensor {
            object: "tensor".into(),
            hashes: vec![hash],
        }],
    };
    bench.tell(Event::Published("model", Some(news)));
    let actions = offer(&mut bench, A, 1, &weights);
    assert_eq!(
        held(&mut bench, A, 1, actions),
        Some(0),
        "published to others"
    );
    let actions = offer(&mut bench, OTHER, 1, &weights);
    let fetched = actions.iter().find_map(|action| match action {
        Action::Fetch(tensor) => Some(tensor.clone()),
        _ => None,
    });
    let tensor = fetched.expect("it is fetched");
    assert_eq!(held(&mut bench, OTHER, 1, actions), None, "not yet");
    let id = ChunkId { hash, bytes: MIB };
    let chunks = vec![(id, Rc::from(weights.as_slice()))];
    let actions = bench.tell(Event::Tensor(&tensor, Some(chunks)));
    assert_eq!(held(&mut bench, OTHER, 1, actions), Some(1));
    bench.tell(Event::Published("model", None));
    let actions = offer(&mut bench, OTHER, 2, &weights);
    assert_eq!(held(&mut bench, OTHER, 2, actions), Some(0), "withdrawn");
}
