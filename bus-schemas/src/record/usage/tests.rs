use super::*;

pub(super) fn block(number: u64, launches: u64, before: u64) -> UsageBlock {
    let tenant: Tenant = "chat".parse().unwrap();
    let row = KernelUse {
        tenant: tenant.clone(),
        key: KernelKey(1),
        launches,
        device_ns: 10 * launches,
        sm_ns: 20 * launches,
        least_ns: 10,
        most_ns: 10,
    };
    let sum = before + launches;
    UsageBlock {
        v: crate::WIRE_VERSION,
        incarnation: Incarnation(9),
        gpu: 1,
        sms: 2,
        number,
        first: None,
        at_ms: 0,
        elapsed_ns: 0,
        active_ns: 0,
        starved_ns: 0,
        last: false,
        totals: UseTotals {
            launches: sum,
            device_ns: 10 * sum,
            sm_ns: 20 * sum,
            byte_ms: 5 * sum,
        },
        reports: Some(sum),
        kernels: vec![row],
        memory: vec![MemoryUse {
            tenant,
            byte_ms: 5 * launches,
        }],
        names: Vec::new(),
    }
}

fn only(usage: &ClusterUsage) -> &WorkerUsage {
    usage.workers().next().unwrap().1
}

#[test]
fn blocks_count_once_and_what_is_missing_is_known() {
    let mut usage = ClusterUsage::default();
    assert!(usage.take(&block(1, 3, 0)));
    assert!(!usage.take(&block(1, 3, 0)), "it came before");
    assert!(usage.take(&block(4, 2, 10)));
    let missing = only(&usage).missing(true).unwrap();
    assert_eq!((missing.launches, missing.byte_ms), (7, 35));
    assert!(usage.take(&block(2, 6, 3)) && usage.take(&block(3, 1, 9)));
    assert_eq!(only(&usage).missing(true), Ok(UseTotals::default()));
    assert_eq!(only(&usage).totals().launches, 12);
    // Of an interval that begins later, what was before is no gap.
    let mut later = ClusterUsage::default();
    later.take(&block(3, 1, 9));
    assert_eq!(only(&later).missing(false), Ok(UseTotals::default()));
    assert_eq!(only(&later).missing(true).map(|it| it.launches), Ok(9));
}

#[test]
fn rows_of_the_highest_numbers_are_noticed() {
    let mut block = block(u64::MAX, 1, 0);
    let row = KernelUse {
        launches: u64::MAX,
        device_ns: u64::MAX,
        sm_ns: u64::MAX,
        ..block.kernels[0].clone()
    };
    block.kernels.push(row);
    let row = MemoryUse {
        byte_ms: u64::MAX,
        ..block.memory[0].clone()
    };
    block.memory.push(row);
    let mut usage = ClusterUsage::default();
    assert!(usage.take(&block));
    assert_eq!(only(&usage).missing(true), Err(u64::MAX));
    let mut fold = Fold::default();
    let next = UsageBlock {
        number: 8,
        ..block.clone()
    };
    fold.add(UsageBlock { number: 7, ..block });
    fold.add(next);
    let folded = fold.finish();
    let [one] = folded.as_slice() else {
        panic!("{folded:?}");
    };
    assert_eq!(
        (one.kernels[1].launches, one.memory[0].byte_ms),
        (u64::MAX, u64::MAX)
    );
    usage.take(one);
    assert_eq!(only(&usage).missing(true), Err(8));
}

#[test]
fn rows_that_do_not_add_up_are_noticed() {
    for (launches, before) in [(2, 4), (2, 2), (9, 0)] {
        let mut usage = ClusterUsage::default();
        usage.take(&block(1, 3, 0));
        usage.take(&block(2, launches, before));
        assert_eq!(only(&usage).missing(true), Err(2));
    }
}
