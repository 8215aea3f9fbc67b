use super::*;

fn moves(launches: u64) -> MoveTotals {
    MoveTotals {
        outs: launches,
        out_bytes: 100 * launches,
        saved_byte_ms: 7 * launches,
        ..MoveTotals::default()
    }
}

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
            moves: moves(sum),
        },
        reports: Some(sum),
        kernels: vec![row],
        memory: vec![MemoryUse {
            tenant: tenant.clone(),
            byte_ms: 5 * launches,
        }],
        moves: vec![TenantMoves {
            tenant,
            moves: moves(launches),
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
    assert_eq!(missing.moves, moves(7));
    assert!(usage.take(&block(2, 6, 3)) && usage.take(&block(3, 1, 9)));
    assert_eq!(only(&usage).missing(true), Ok(UseTotals::default()));
    assert_eq!(only(&usage).totals().launches, 12);
    // In an interval that begins later, the usage before it is no gap.
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

#[test]
fn moves_that_do_not_add_up_are_noticed() {
    let change: [fn(&mut MoveTotals); 3] = [
        |moves| moves.outs += 1,
        |moves| moves.saved_byte_ms -= 1,
        |moves| moves.unsent_bytes = 1,
    ];
    for change in change {
        let mut second = block(2, 2, 3);
        change(&mut second.moves[0].moves);
        let mut usage = ClusterUsage::default();
        usage.take(&block(1, 3, 0));
        usage.take(&second);
        assert_eq!(only(&usage).missing(true), Err(2));
    }
}

#[test]
fn moves_that_a_leader_of_a_build_before_folded_away_are_missing_and_no_fault() {
    let mut fold = Fold::default();
    fold.add(block(2, 2, 3));
    fold.add(block(3, 4, 5));
    let mut folded = fold.finish().remove(0);
    folded.moves.clear();
    folded.totals.moves = MoveTotals::default();
    let mut usage = ClusterUsage::default();
    for block in [&block(1, 3, 0), &folded, &block(4, 1, 9)] {
        usage.take(block);
    }
    let missing = only(&usage).missing(true).unwrap();
    assert_eq!((missing.launches, missing.moves), (0, moves(6)));
    // Everything else of it is still checked.
    folded.kernels[0].launches += 1;
    let mut usage = ClusterUsage::default();
    usage.take(&block(1, 3, 0));
    usage.take(&folded);
    assert_eq!(only(&usage).missing(true), Err(3));
}

#[test]
fn rows_of_moves_read_as_they_were_written() {
    let row = TenantMoves {
        tenant: "chat".parse().unwrap(),
        moves: MoveTotals {
            outs: 1,
            out_bytes: 2,
            ins: 3,
            in_bytes: 4,
            waited_ns: 5,
            swapped_byte_ms: 6,
            saved_byte_ms: 7,
            unsent_bytes: u64::MAX,
        },
    };
    let mut bytes = Vec::new();
    row.write(&mut bytes);
    assert_eq!(bytes.len(), TenantMoves::SIZE);
    let numbers = bytes[32..].as_chunks().0.iter();
    let numbers: Vec<_> = numbers.map(|it| u64::from_le_bytes(*it)).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, u64::MAX]);
    assert_eq!(TenantMoves::read(&bytes), Some(row));
}
