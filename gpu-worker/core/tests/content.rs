//! A worker's kept chunks answer only the tenants that sent them or to which they were published. Kept bytes
//! are bounded, a tenant that sends much displaces its own chunks, and no offer waits for ever.

use std::collections::BTreeSet;
use std::sync::Arc;

use bus_schemas::{ContentHash, SessionId, Tenant};
use gpu_worker_core::content::{
    Asker, Audience, ChunkId, Content, ContentTable, Offered, Pool, PublishedTensor,
};
use proptest::prelude::*;

const PAGE: u64 = 4_096;
const SECOND: u64 = 1_000_000_000;

fn tenant(n: u8) -> Tenant {
    format!("t{n}").parse().expect("a name")
}

fn id(of: u8, bytes: u64) -> ChunkId {
    let hash = ContentHash::of([&[of][..]]);
    ChunkId { hash, bytes }
}

#[test]
fn a_hash_alone_opens_nothing() {
    let mut table = ContentTable::default();
    let [a, b] = [tenant(1), tenant(2)];
    let chunk = id(1, 9);
    table.keep(Pool::All, chunk, "bytes", Some(&a));
    assert_eq!(table.given(&Pool::All, &a, chunk), Some("bytes"));
    assert_eq!(table.given(&Pool::All, &b, chunk), None, "not sent by b");
    assert_eq!(table.given(&Pool::Tenant(a.clone()), &a, chunk), None);
    assert_eq!(table.given(&Pool::All, &a, id(1, 8)), None, "fewer bytes");
    assert_eq!(table.published(chunk), None);
    let candidate = table.candidate(&Pool::All, chunk);
    assert_eq!(candidate, Some("bytes"), "to compare");
    // B has sent it too, and it is kept once.
    table.keep(Pool::All, chunk, "its own", Some(&b));
    assert_eq!(table.given(&Pool::All, &b, chunk), Some("bytes"));
    assert_eq!(table.bytes(), PAGE);
}

#[test]
fn what_nothing_uses_or_wants_for_long_goes() {
    let mut table = ContentTable::default();
    let (owner, pool) = (tenant(1), Pool::Tenant(tenant(1)));
    for of in 0..3 {
        table.keep(pool.clone(), id(of, PAGE), of, Some(&owner));
    }
    assert_eq!(table.idle(|of| *of == 0), []);
    assert_eq!(table.given(&pool, &owner, id(1, PAGE)), Some(1));
    // One chunk is used, and one was wanted meanwhile.
    assert_eq!(table.idle(|of| *of == 0), [2]);
    // After the end of its use, a chunk stays as long as after a copy.
    assert_eq!(table.idle(|_| false), [1]);
    assert_eq!(table.bytes(), PAGE);
    assert_eq!(table.idle(|_| false), [0]);
    assert_eq!((table.bytes(), table.idle(|_| false)), (0, vec![]));
    // Chunks used at the same look are told apart if there are too many.
    for of in 0..3 {
        table.keep(pool.clone(), id(of, PAGE), of, Some(&owner));
    }
    assert_eq!(table.idle(|_| true), []);
    assert_eq!(table.surplus(PAGE, |_| false).len(), 2);
    assert_eq!(table.bytes(), PAGE);
}

#[test]
fn who_fills_the_memory_displaces_its_own() {
    let mut table = ContentTable::default();
    let [small, large] = [tenant(1), tenant(2)].map(|it| (Pool::Tenant(it.clone()), it));
    table.keep(small.0.clone(), id(0, PAGE), 0, Some(&small.1));
    for of in 1..100 {
        table.keep(large.0.clone(), id(of, PAGE), of, Some(&large.1));
        let gone = table.surplus(8 * PAGE, |_| false);
        assert!(!gone.contains(&0));
    }
    assert_eq!(table.bytes(), 8 * PAGE);
    assert_eq!(table.given(&small.0, &small.1, id(0, PAGE)), Some(0));
    let newest = table.given(&large.0, &large.1, id(99, PAGE));
    assert_eq!(newest, Some(99), "the newest");
    assert_eq!(table.given(&large.0, &large.1, id(92, PAGE)), None);
}

/// A tenant's offers and their outcomes.
struct World {
    now: u64,
    content: Content<u8, u8>,
}

impl World {
    /// Tensors of one chunk each, published to tenant 1.
    fn new(tensors: u8) -> Self {
        let mut content = Content::default();
        let published = (0..tensors).map(|of| PublishedTensor {
            object: format!("w/{of}").into(),
            hashes: vec![id(of, PAGE).hash],
        });
        let audience = Audience::Tenants([tenant(1)].into());
        assert!(
            content
                .published
                .publish("w", audience, published.collect())
        );
        Self { now: 0, content }
    }

    fn offer(&mut self, by: u8, session: u64, of: u8) -> Offered<u8> {
        let (tenant, session) = (tenant(by), (session > 0).then_some(SessionId(session)));
        let pool = Pool::Tenant(tenant.clone());
        let asker = Asker {
            tenant: &tenant,
            pool: &pool,
            session,
        };
        self.content.offered(self.now, asker, &of, &[id(of, PAGE)])
    }

    fn fetched(&mut self, of: u8, is_here: bool) -> Vec<(Tenant, SessionId, u8)> {
        let tensor: Arc<str> = format!("w/{of}").into();
        if is_here {
            let table = &mut self.content.table;
            table.keep(Pool::Published, id(of, PAGE), of, None);
        }
        self.content.fetched(self.now, &tensor, is_here)
    }
}

fn wait(tensors: &[&str]) -> Offered<u8> {
    Offered::Wait(tensors.iter().map(|it| Arc::from(*it)).collect())
}

fn answer(chunk: Option<u8>) -> Offered<u8> {
    Offered::Answer(vec![chunk])
}

#[test]
fn a_published_tensor_is_fetched_once_and_answers_all_who_wait_for_it() {
    let mut world = World::new(2);
    assert_eq!(world.offer(2, 9, 0), answer(None), "not published to it");
    assert_eq!(world.offer(1, 0, 0), answer(None), "it has no session");
    assert_eq!(world.offer(1, 1, 0), wait(&["w/0"]));
    assert_eq!(world.offer(1, 1, 0), wait(&[]), "asked again");
    assert_eq!(world.offer(1, 2, 0), wait(&[]), "it is on its way");
    assert_eq!(world.offer(1, 3, 1), wait(&["w/1"]));
    world.content.closed(SessionId(2));
    assert_eq!(world.fetched(0, true), [(tenant(1), SessionId(1), 0)]);
    assert_eq!(world.offer(1, 4, 0), answer(Some(0)));
    // The removed publication answers no tenant: none of them has sent the chunk.
    world.content.published.withdraw("w");
    assert_eq!(world.offer(1, 4, 0), answer(None));
}

#[test]
fn what_cannot_be_had_or_not_in_time_its_client_sends() {
    let mut world = World::new(2);
    assert_eq!(world.offer(1, 1, 0), wait(&["w/0"]));
    assert_eq!(world.fetched(0, false), [(tenant(1), SessionId(1), 0)]);
    assert_eq!(world.offer(1, 1, 0), answer(None), "it failed just now");
    world.now += 31 * SECOND;
    assert_eq!(world.offer(1, 1, 0), wait(&["w/0"]), "another try");
    world.now += 11 * SECOND;
    assert_eq!(world.offer(1, 1, 0), answer(None), "it takes too long");
    // The tensor comes later, and counts for tenants that ask then.
    let _ = world.fetched(0, true);
    assert_eq!(world.offer(1, 1, 0), answer(Some(0)));
}

#[test]
fn a_tenant_that_offers_without_end_leaves_the_others_room_to_wait() {
    let mut world = World::new(2);
    let mut waiting = 0;
    for session in 1..1_000 {
        match world.offer(1, session, 0) {
            Offered::Wait(_) => waiting += 1,
            Offered::Answer(here) => assert_eq!(here, [None]),
        }
    }
    assert_eq!(waiting, 64);
}

proptest! {
    #[test]
    fn what_is_not_used_is_bounded_and_what_is_used_stays(
        steps in prop::collection::vec((0..4_u8, 0..3_u8, any::<u8>(), 1..5_u64), 1..200),
        used in prop::collection::btree_set(any::<u8>(), 0..20),
        most in 0..40_u64,
    ) {
        let mut table = ContentTable::default();
        let mut sent = BTreeSet::new();
        let pools = [Pool::All, Pool::Published, Pool::Tenant(tenant(0)), Pool::Tenant(tenant(1))];
        for (pool, by, of, pages) in steps {
            let pool = &pools[usize::from(pool)];
            let by = tenant(by);
            let chunk = id(of, pages * PAGE);
            sent.insert((pool.clone(), by.clone(), chunk));
            table.keep(pool.clone(), chunk, of, Some(&by));
            for gone in table.surplus(most * PAGE, |of| used.contains(of)) {
                prop_assert!(!used.contains(&gone));
            }
            if used.contains(&of) {
                prop_assert_eq!(table.given(pool, &by, chunk), Some(of));
            }
            for other in (0..3).map(tenant) {
                if !sent.contains(&(pool.clone(), other.clone(), chunk)) {
                    prop_assert_eq!(table.given(pool, &other, chunk), None);
                }
            }
        }
        let _ = table.surplus(0, |_| false);
        prop_assert_eq!(table.bytes(), 0);
    }
}
