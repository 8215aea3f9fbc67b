//! What a worker keeps of copies: only who sent a chunk is answered from it, what stays is bounded, and
//! who sends much displaces its own.

use std::collections::BTreeSet;

use bus_schemas::{ContentHash, Tenant};
use gpu_worker_core::content::{ContentTable, Pool};
use proptest::prelude::*;

const PAGE: u64 = 4_096;

fn tenant(n: u8) -> Tenant {
    format!("t{n}").parse().expect("a name")
}

fn hash(of: u8) -> ContentHash {
    ContentHash::of([&[of][..]])
}

#[test]
fn a_hash_alone_opens_nothing() {
    let mut table = ContentTable::default();
    let [a, b] = [tenant(1), tenant(2)];
    table.keep(Pool::All, hash(1), ("bytes", 9), Some(&a));
    assert_eq!(table.given(&Pool::All, &a, hash(1)), Some("bytes"));
    assert_eq!(table.given(&Pool::All, &b, hash(1)), None, "not sent by b");
    assert_eq!(table.given(&Pool::Tenant(a.clone()), &a, hash(1)), None);
    assert_eq!(table.published(hash(1)), None);
    assert_eq!(
        table.candidate(&Pool::All, hash(1)),
        Some("bytes"),
        "to compare"
    );
    // B has sent it too, and it is kept once.
    table.keep(Pool::All, hash(1), ("its own", 9), Some(&b));
    assert_eq!(table.given(&Pool::All, &b, hash(1)), Some("bytes"));
    assert_eq!(table.bytes(), PAGE);
}

#[test]
fn who_fills_the_memory_displaces_its_own() {
    let mut table = ContentTable::default();
    let [small, large] = [tenant(1), tenant(2)].map(|it| (Pool::Tenant(it.clone()), it));
    table.keep(small.0.clone(), hash(0), (0, PAGE), Some(&small.1));
    for of in 1..100 {
        table.keep(large.0.clone(), hash(of), (of, PAGE), Some(&large.1));
        let gone = table.surplus(8 * PAGE, |_| false);
        assert!(!gone.contains(&0));
    }
    assert_eq!(table.bytes(), 8 * PAGE);
    assert_eq!(table.given(&small.0, &small.1, hash(0)), Some(0));
    assert_eq!(
        table.given(&large.0, &large.1, hash(99)),
        Some(99),
        "the newest"
    );
    assert_eq!(table.given(&large.0, &large.1, hash(92)), None);
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
            if sent.insert((pool.clone(), by.clone(), of)) {
                table.keep(pool.clone(), hash(of), (of, pages * PAGE), Some(&by));
            }
            for gone in table.surplus(most * PAGE, |of| used.contains(of)) {
                prop_assert!(!used.contains(&gone));
            }
            if used.contains(&of) {
                prop_assert_eq!(table.given(pool, &by, hash(of)), Some(of));
            }
            for other in (0..3).map(tenant) {
                if !sent.contains(&(pool.clone(), other.clone(), of)) {
                    prop_assert_eq!(table.given(pool, &other, hash(of)), None);
                }
            }
        }
        let _ = table.surplus(0, |_| false);
        prop_assert_eq!(table.bytes(), 0);
    }
}
