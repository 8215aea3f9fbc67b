//! Folding usage blocks to days changes no sum, for any blocks, and at any time of the folder's
//! death.

use std::collections::BTreeMap;

use bus_schemas::*;
use proptest::prelude::*;

/// A block of one of two workers: the worker, its use (tenant, key, launches), and the time since
/// its previous cut. Then flags for more of the same cut and for a lost block, and the number of
/// times that it comes.
type Step = (u64, (usize, u64, u64), u64, bool, bool, usize);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = (0..3_usize, 0..4_u64, 0..5_u64);
    let lost = prop::bool::weighted(0.1);
    let goes_on = prop::bool::weighted(0.2);
    prop::collection::vec(
        (1..3_u64, row, 0..50_000_000_u64, goes_on, lost, 1..3_usize),
        1..60,
    )
}

fn blocks(steps: &[Step], long: bool) -> Vec<UsageBlock> {
    let mut workers = BTreeMap::<u64, (u64, u64, UseTotals)>::new();
    let mut blocks = Vec::new();
    for &(worker, (name, key, launches), later, goes_on, lost, times) in steps {
        let (number, at_ms, totals) = workers.entry(worker).or_default();
        let tenant: Tenant = ["a", "b", "c"][name].parse().unwrap();
        (*number, *at_ms) = (*number + 1, *at_ms + later);
        let kernel = KernelKey(key);
        // Long enough that the names of a day do not all fit in one block.
        let function = "k".repeat(if long {
            limits::RECORD_BLOCK_BYTES / 3
        } else {
            4
        });
        let mut block = UsageBlock {
            v: WIRE_VERSION,
            incarnation: Incarnation(worker),
            gpu: worker as GpuId,
            sms: 2,
            number: *number,
            first: None,
            at_ms: *at_ms,
            elapsed_ns: *number,
            active_ns: 0,
            starved_ns: 0,
            last: false,
            totals: *totals,
            reports: (!goes_on).then_some(10 * *number),
            kernels: vec![KernelUse {
                tenant: tenant.clone(),
                key: kernel,
                launches,
                device_ns: launches * 10 + 1,
                sm_ns: launches * 20,
                least_ns: launches * 3,
                most_ns: launches * 4,
            }],
            memory: vec![MemoryUse {
                tenant: tenant.clone(),
                byte_ms: later,
            }],
            moves: (launches > 1)
                .then(|| TenantMoves {
                    tenant,
                    moves: MoveTotals {
                        outs: launches,
                        out_bytes: later,
                        saved_byte_ms: key,
                        ..MoveTotals::default()
                    },
                })
                .into_iter()
                .collect(),
            names: vec![KernelName {
                kernel,
                function,
                grid_dim: [1, 1, 1],
                block_dim: [1, 1, 1],
                shared_bytes: 0,
                module: None,
            }],
        };
        block.totals.add(&block.sum());
        *totals = block.totals;
        if !lost {
            blocks.extend(vec![block; times]);
        }
    }
    blocks
}

/// Sums by worker, day, tenant and key, with the shortest and the longest launch.
type Sums = BTreeMap<(Incarnation, u64, Tenant, KernelKey), (UseTotals, Option<(u64, u64)>)>;

/// The end of a worker's blocks: its time, its last report, and the usage in blocks beyond it.
type End = (Incarnation, u64, Option<u64>, BTreeMap<Tenant, UseTotals>);

/// A reader's result from blocks.
#[derive(Debug, PartialEq)]
struct Read {
    sums: Sums,
    missing: Vec<Result<UseTotals, u64>>,
    ends: Vec<End>,
    names: BTreeMap<KernelKey, String>,
}

fn read<'a>(blocks: impl IntoIterator<Item = &'a UsageBlock>) -> Read {
    let (mut usage, mut ends) = (ClusterUsage::default(), UsageEnds::default());
    let (mut sums, mut names) = (Sums::new(), BTreeMap::new());
    for block in blocks {
        ends.take(block);
        if !usage.take(block) {
            continue;
        }
        let (worker, day) = (block.incarnation, usage_day(block.at_ms));
        for row in &block.kernels {
            let key = (worker, day, row.tenant.clone(), row.key);
            let (sum, bounds) = sums.entry(key).or_default();
            sum.add_kernel(row);
            if row.launches > 0 {
                let (least, most) = bounds.unwrap_or((row.least_ns, row.most_ns));
                *bounds = Some((least.min(row.least_ns), most.max(row.most_ns)));
            }
        }
        for row in &block.memory {
            let key = (worker, day, row.tenant.clone(), KernelKey(0));
            sums.entry(key).or_default().0.byte_ms += row.byte_ms;
        }
        for row in &block.moves {
            let key = (worker, day, row.tenant.clone(), KernelKey(0));
            sums.entry(key).or_default().0.moves.add(&row.moves);
        }
        for name in &block.names {
            names.insert(name.kernel, name.function.clone());
        }
    }
    let missing = usage.workers().map(|(_, worker)| worker.missing(true));
    let end = |(id, end): (&Incarnation, &UsageEnd)| (*id, end.at_ms, end.reports(), end.beyond());
    Read {
        missing: missing.collect(),
        ends: ends.workers().map(end).collect(),
        sums,
        names,
    }
}

fn fold(blocks: &[UsageBlock]) -> Vec<UsageBlock> {
    let mut fold = Fold::default();
    blocks.iter().cloned().for_each(|block| fold.add(block));
    fold.finish()
}

/// Reads folded blocks together with those that were not removed yet.
fn read_both(folded: &[UsageBlock], left: &[UsageBlock]) -> Read {
    let mut known = Folded::default();
    folded.iter().cloned().for_each(|block| known.take(block));
    let left = left.iter().filter(|block| !known.covers(block));
    read(known.blocks().chain(left))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn folding_changes_no_sum(
        steps in steps(),
        long in prop::bool::weighted(0.1),
        old in 0..60_usize,
        removed in 0..60_usize,
        written in 0..60_usize,
    ) {
        let blocks = blocks(&steps, long);
        let mut by_worker = BTreeMap::<Incarnation, Vec<UsageBlock>>::new();
        for block in &blocks {
            by_worker.entry(block.incarnation).or_default().push(block.clone());
        }
        let before = read(&blocks);
        let (mut folded, mut left) = (Vec::new(), Vec::new());
        for of_worker in by_worker.values() {
            let (aged, young) = of_worker.split_at(old.min(of_worker.len()));
            let days = fold(aged);
            prop_assert_eq!(&fold(&days), &days, "folding twice changes nothing");
            prop_assert!(days.iter().all(|day| encode(day).len() <= limits::RECORD_BLOCK_BYTES));
            // Death while the folded blocks are written: nothing is removed.
            let some = &days[..written.min(days.len())];
            prop_assert_eq!(read_both(some, of_worker), read(of_worker));
            // Death while the replaced blocks are removed.
            let rest = &of_worker[removed.min(aged.len())..];
            prop_assert_eq!(read_both(&days, rest), read(of_worker));
            // The pass after a death during writing folds the rest.
            let mut again = days.clone();
            let mut known = Folded::default();
            some.iter().cloned().for_each(|block| known.take(block));
            again.truncate(some.len());
            let unknown = aged.iter().filter(|block| !known.covers(block));
            again.extend(fold(&unknown.cloned().collect::<Vec<_>>()));
            prop_assert_eq!(read_both(&again, young), read(of_worker));
            folded.extend(days);
            left.extend_from_slice(young);
        }
        prop_assert_eq!(read_both(&folded, &left), before);
    }
}

#[test]
fn a_day_of_blocks_is_one() {
    let step = |later| (1, (0, 1, 2), later, false, false, 1);
    let steps: Vec<Step> = (0..100)
        .map(|_| step(1_000))
        .chain([step(86_400_000)])
        .collect();
    let folded = fold(&blocks(&steps, false));
    let spans: Vec<_> = folded.iter().map(|it| (it.begins(), it.number)).collect();
    assert_eq!(spans, [(1, 100), (101, 101)]);
    let row = &folded[0].kernels[0];
    assert_eq!((folded[0].kernels.len(), row.launches), (1, 200));
}
