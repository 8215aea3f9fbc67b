use bus_schemas::{Incarnation, KernelUse, MemoryUse, MoveTotals, TenantMoves, WIRE_VERSION};
use proptest::prelude::*;

use super::*;

pub(super) fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

/// A block of a worker: rows of tenant, key, launches and nanoseconds of each.
pub(super) fn block(
    worker: u64,
    number: u64,
    at_ms: u64,
    before: UseTotals,
    rows: &[(&str, u64, u64, u64)],
) -> UsageBlock {
    let row = |&(name, key, launches, each): &(&str, u64, u64, u64)| KernelUse {
        tenant: tenant(name),
        key: KernelKey(key),
        launches,
        device_ns: launches * each,
        sm_ns: 2 * launches * each,
        least_ns: each,
        most_ns: each,
    };
    let mut block = UsageBlock {
        v: WIRE_VERSION,
        incarnation: Incarnation(worker),
        gpu: worker as u32,
        sms: 2,
        number,
        first: None,
        at_ms,
        elapsed_ns: 0,
        active_ns: 0,
        starved_ns: 0,
        last: false,
        totals: before,
        reports: Some(number),
        kernels: rows.iter().map(row).collect(),
        memory: vec![MemoryUse {
            tenant: tenant("a"),
            byte_ms: 1_000 << 30,
        }],
        moves: vec![TenantMoves {
            tenant: tenant("b"),
            moves: MoveTotals {
                outs: 1,
                out_bytes: 5 << 20,
                waited_ns: 2_000_000,
                saved_byte_ms: 3_000 << 30,
                ..MoveTotals::default()
            },
        }],
        names: Vec::new(),
    };
    block.totals.add(&block.sum());
    block
}

fn two_days() -> Vec<UsageBlock> {
    let first = block(
        1,
        1,
        DAY_MS - 1,
        UseTotals::default(),
        &[("a", 7, 2, 500), ("b", 7, 1, 100)],
    );
    let second = block(
        1,
        2,
        DAY_MS,
        first.totals,
        &[("a", 7, 1, 900), ("a", 8, 1, 50)],
    );
    let other = block(2, 1, DAY_MS + 5, UseTotals::default(), &[("b", 9, 4, 10)]);
    vec![first, second.clone(), other, second]
}

pub(super) fn books(query: Query, blocks: &[UsageBlock]) -> Books {
    let mut books = Books::new(query);
    blocks.iter().for_each(|block| books.take(block));
    books
}

#[test]
fn rows_are_told_apart_as_asked() {
    let by = vec![By::Day, By::Tenant];
    let found = books(
        Query {
            by,
            ..Query::default()
        },
        &two_days(),
    );
    let launches: Vec<_> = found
        .rows
        .values()
        .map(|used| used.totals.launches)
        .collect();
    // Memory moves are in a row of their tenant, even if nothing ran.
    assert_eq!(launches, [2, 1, 2, 4]);
    let b = [Label::Day(1), Label::Tenant(tenant("b"))];
    let moves = found.rows[&b[..]].totals.moves;
    assert_eq!((moves.outs, moves.saved_byte_ms), (2, 6_000 << 30));
    assert_eq!(found.sum().totals.moves.outs, 3);
    let a = [Label::Day(1), Label::Tenant(tenant("a"))];
    let used = found.rows[&a[..]];
    assert_eq!((used.least_ns, used.most_ns), (50, 900));
    assert!(
        (used.vram_credits() - 2.0).abs() < 1e-9,
        "{}",
        used.vram_credits()
    );
    assert_eq!(found.missing().unwrap(), UseTotals::default());
    let by = vec![By::Kernel];
    let found = books(
        Query {
            by,
            ..Query::default()
        },
        &two_days(),
    );
    let keys: Vec<_> = found.rows.keys().map(|labels| labels[0].clone()).collect();
    assert_eq!(keys, [0, 7, 8, 9].map(|key| Label::Kernel(KernelKey(key))));
}

#[test]
fn an_interval_and_a_tenant_are_all_that_count() {
    let query = Query {
        by: vec![By::Tenant],
        since: Some(DAY_MS),
        until: Some(DAY_MS + 5),
        tenant: Some(tenant("a")),
    };
    let found = books(query, &two_days());
    assert_eq!(found.sum().totals.launches, 2);
    assert_eq!(found.all.launches, 2);
    // Usage before the interval is not reported as missing.
    assert_eq!(found.missing().unwrap(), UseTotals::default());
}

#[test]
fn what_the_stream_lacks_is_known() {
    let blocks = two_days();
    let found = books(Query::default(), &blocks[1..]);
    assert_eq!(found.missing().unwrap().launches, 3);
    let mut wrong = blocks[1].clone();
    wrong.kernels[0].launches += 1;
    let found = books(Query::default(), &[blocks[0].clone(), wrong]);
    let error = found.missing().unwrap_err().to_string();
    assert!(error.contains("block 2"), "{error}");
}

proptest! {
    /// I10: with any grouping, rows add up to the workers' totals.
    #[test]
    fn every_table_adds_up(
        rows in prop::collection::vec((0..3_usize, 1..5_u64, 1..4_u64, 0..900_u64, 0..4_u64), 1..40),
        by in prop::collection::vec(0..4_usize, 0..4),
    ) {
        let all = [By::Tenant, By::Day, By::Kernel, By::Gpu];
        let by = by.into_iter().map(|at| all[at]).collect();
        let mut books = Books::new(Query { by, ..Query::default() });
        let mut totals = BTreeMap::<u64, (u64, UseTotals)>::new();
        for (name, key, launches, each, worker) in rows {
            let (number, before) = totals.entry(worker).or_default();
            *number += 1;
            let row = (["a", "b", "c"][name], key, launches, each);
            let block = block(worker, *number, *number * DAY_MS / 3, *before, &[row]);
            *before = block.totals;
            books.take(&block);
            books.take(&block);
        }
        let mut sum = UseTotals::default();
        totals.values().for_each(|(_, totals)| sum.add(totals));
        prop_assert_eq!(books.sum().totals, sum);
        prop_assert_eq!(books.all, sum);
        prop_assert_eq!(books.missing().unwrap(), UseTotals::default());
    }
}
