//! The pager: quotas, capacity, waits and refusals (I8), and metered memory.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use bus_schemas::{Code, GpuPosition, OpNumber, SessionId, Tenant};
use device::Recharged;
use gpu_worker_core::Pager;
use gpu_worker_core::pager::{GRANULE, MemoryDecision, Need, VariableHolder};

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

fn alloc(op: OpNumber, address: u64, bytes: u64) -> Need {
    Need::Alloc { op, address, bytes }
}

#[test]
fn quota_is_the_tenants_over_all_its_sessions() {
    let mut pager = Pager::new(1 << 20);
    let a = tenant("a");
    for session in [1, 2] {
        pager.open(0, SessionId(session), &a, 4_096);
    }
    assert_eq!(
        pager.admit(1, SessionId(1), &[alloc(1, 0, 2_000)]),
        MemoryDecision::Fits
    );
    assert_eq!(pager.charged_to(&a), 2_048);
    let decision = pager.admit(2, SessionId(2), &[alloc(1, 0, 2_048), alloc(2, 4_096, 1)]);
    assert!(
        matches!(decision, MemoryDecision::Refused(2, ref f) if f.code == Code::Quota),
        "{decision:?}"
    );
    pager.close(0, SessionId(1));
    assert_eq!(pager.charged_to(&a), 2_048);
}

#[test]
fn a_launch_finds_room_for_a_first_block_where_all_is_allocated() {
    let launch = |op, least, most| Need::Launch { op, least, most };
    let mut pager = Pager::new(10_240).with_first_block(1_024, 1_024);
    let a = tenant("a");
    pager.open(0, SessionId(1), &a, 4_096);
    let needs = [
        alloc(1, 0, 4_096),
        launch(2, 1_000, 9_000),
        launch(3, 1_024, 9_000),
    ];
    assert_eq!(pager.admit(1, SessionId(1), &needs), MemoryDecision::Fits);
    assert_eq!(pager.take_granted(), [(2, 1_000), (3, 1_024)]);
    assert_eq!(pager.charged_to(&a), 4_096, "it is not counted");
    let decision = pager.admit(4, SessionId(1), &[launch(4, 1_025, 9_000)]);
    assert!(matches!(decision, MemoryDecision::Refused(4, _)));
    pager.completed(1, (1, 3), SessionId(1), 4_096, false);
    pager.completed(1, (4, 4), SessionId(1), 4_096, false);
    let needs = [Need::Free { address: 0 }, launch(6, 1_000, 9_000)];
    assert_eq!(pager.admit(5, SessionId(1), &needs), MemoryDecision::Fits);
    // Beside it, more blocks take the memory that is left.
    assert_eq!(pager.take_granted(), [(6, 5_096)]);
}

#[test]
fn first_blocks_of_many_have_an_end_and_are_waited_for() {
    let launch = |op| {
        [Need::Launch {
            op,
            least: 1_000,
            most: 1_000,
        }]
    };
    let mut pager = Pager::new(4_096).with_first_block(1_024, 2_000);
    for (id, bytes) in [(1, 1_024), (2, 1_024), (3, 2_048)] {
        pager.open(0, SessionId(id), &tenant("a"), 0);
        let needs = [alloc(1, 0, bytes)];
        assert_eq!(pager.admit(1, SessionId(id), &needs), MemoryDecision::Fits);
        pager.completed(1, (1, 1), SessionId(id), bytes, false);
    }
    for id in [1, 2] {
        let fits = pager.admit(2, SessionId(id), &launch(2));
        assert_eq!(fits, MemoryDecision::Fits);
    }
    // All memory is allocated, and first blocks of other sessions run: the slice waits, and is not refused.
    let third = |pager: &mut Pager| pager.admit(2, SessionId(3), &launch(2));
    assert_eq!(third(&mut pager), MemoryDecision::Wait);
    pager.completed(2, (2, 2), SessionId(1), 1_024, false);
    assert_eq!(third(&mut pager), MemoryDecision::Fits);
    // Another slice of the same session takes no more, because they run one by one.
    assert_eq!(
        pager.admit(3, SessionId(3), &launch(3)),
        MemoryDecision::Fits
    );
    assert_eq!(
        pager.admit(3, SessionId(1), &launch(3)),
        MemoryDecision::Wait
    );
    pager.close(3, SessionId(2));
    assert_eq!(
        pager.admit(3, SessionId(1), &launch(3)),
        MemoryDecision::Fits
    );
}

#[test]
fn the_blocks_of_a_launch_count_while_it_runs_and_take_more_where_there_is_room() {
    let launch = |op, least, most| Need::Launch { op, least, most };
    let mut pager = Pager::new(10_240);
    let (a, b) = (tenant("a"), tenant("b"));
    pager.open(0, SessionId(1), &a, 4_096);
    pager.open(0, SessionId(2), &b, 0);
    let needs = [alloc(1, 0, 1_024), launch(2, 1_000, 9_000)];
    assert_eq!(pager.admit(1, SessionId(1), &needs), MemoryDecision::Fits);
    assert_eq!(pager.take_granted(), [(2, 3_072)], "what the quota leaves");
    assert_eq!(pager.charged_to(&a), 4_096);
    // Beside the running launch, another takes the memory that is left, and at least one block.
    let needs = [
        launch(1, 1_000, 9_000),
        launch(2, 0, 0),
        launch(3, 8_000, 9_000),
    ];
    assert_eq!(pager.admit(2, SessionId(2), &needs), MemoryDecision::Wait);
    assert_eq!(
        pager.admit(2, SessionId(2), &needs[..2]),
        MemoryDecision::Fits
    );
    assert_eq!(pager.take_granted(), [(1, 6_144), (2, 0)]);
    pager.completed(1, (2, 2), SessionId(2), 0, false);
    pager.completed(1, (1, 1), SessionId(1), 1_024, false);
    assert_eq!(pager.charged_to(&a), 1_024, "given back");
    let decision = pager.admit(
        3,
        SessionId(1),
        &[alloc(3, 4_096, 1), launch(4, 3_000, 3_000)],
    );
    assert!(
        matches!(decision, MemoryDecision::Refused(4, ref f) if f.code == Code::Quota),
        "{decision:?}"
    );
    let decision = pager.admit(3, SessionId(2), &[launch(3, 9_000, 9_000)]);
    assert!(
        matches!(decision, MemoryDecision::Refused(3, ref f) if f.code == Code::OutOfMemory),
        "{decision:?}"
    );
    pager.close(2, SessionId(1));
    pager.close(2, SessionId(2));
    assert_eq!(pager.charged(), 0);
}

#[test]
fn memory_being_freed_is_waited_for_and_memory_held_is_not() {
    let mut pager = Pager::new(4_096);
    for (session, name) in [(1, "a"), (2, "b")] {
        pager.open(0, SessionId(session), &tenant(name), 0);
    }
    assert_eq!(
        pager.admit(1, SessionId(1), &[alloc(1, 0, 4_096)]),
        MemoryDecision::Fits
    );
    pager.completed(1, (1, 1), SessionId(1), 4_096, false);
    let late = pager.admit(2, SessionId(2), &[alloc(1, 0, 1)]);
    assert!(matches!(late, MemoryDecision::Refused(1, ref f) if f.code == Code::OutOfMemory));
    pager.completed(1, (2, 2), SessionId(2), 0, false);
    assert_eq!(
        pager.admit(3, SessionId(1), &[Need::Free { address: 0 }]),
        MemoryDecision::Fits
    );
    assert_eq!(
        pager.admit(4, SessionId(2), &[alloc(2, 0, 4_096)]),
        MemoryDecision::Wait
    );
    assert_eq!(
        pager.admit(4, SessionId(2), &[alloc(2, 0, 4_096)]),
        MemoryDecision::Wait
    );
    pager.completed(2, (3, 3), SessionId(1), 0, false);
    assert_eq!(
        pager.admit(4, SessionId(2), &[alloc(2, 0, 4_096)]),
        MemoryDecision::Fits
    );
    assert_eq!(pager.charged(), 4_096);
}

#[test]
fn a_session_may_reuse_what_it_frees_in_the_same_slice() {
    let mut pager = Pager::new(4_096);
    pager.open(0, SessionId(1), &tenant("a"), 0);
    let slice = [
        alloc(1, 0, 4_096),
        Need::Free { address: 0 },
        alloc(3, 8_192, 4_096),
    ];
    assert_eq!(pager.admit(1, SessionId(1), &slice), MemoryDecision::Fits);
    assert_eq!(
        pager.admit(2, SessionId(1), &[Need::Free { address: 8_192 }]),
        MemoryDecision::Fits
    );
    assert_eq!(
        pager.admit(3, SessionId(1), &[alloc(5, 0, 4_096)]),
        MemoryDecision::Fits
    );
    assert_eq!(pager.charged(), 4_096);
}

#[test]
fn a_charge_goes_with_what_is_moved_and_is_taken_back_with_a_slice_that_waits() {
    let mut pager = Pager::new(8_192);
    for session in 1..=2 {
        pager.open(0, SessionId(session), &tenant("a"), 0);
    }
    let moved = |to, from| Need::Move { to, from };
    let fits = MemoryDecision::Fits;
    let needs = [alloc(1, 0, 4_096), moved(4_096, 0), moved(0, 8_192)];
    assert_eq!(pager.admit(1, SessionId(1), &needs), fits);
    assert_eq!(pager.charged(), 4_096);
    // The device refuses a move to an address that is taken, and a move from a free one.
    let needs = [alloc(2, 0, 2_048), moved(0, 4_096)];
    assert_eq!(pager.admit(2, SessionId(1), &needs), fits);
    assert_eq!(pager.charged(), 6_144);
    assert_eq!(pager.admit(3, SessionId(2), &[alloc(1, 0, 2_048)]), fits);
    // Its free is in vain: it has to wait for the other session, and everything is as before.
    let waits = [moved(8_192, 4_096), alloc(3, 4_096, 2_048)];
    let free = Need::Free { address: 0 };
    assert_eq!(pager.admit(4, SessionId(2), &[free]), fits);
    assert_eq!(pager.admit(5, SessionId(1), &waits), MemoryDecision::Wait);
    let free = Need::Free { address: 4_096 };
    assert_eq!(pager.admit(6, SessionId(1), &[free]), fits);
    for (session, ops) in [(1, &[1, 2, 6][..]), (2, &[3, 4])] {
        for op in ops {
            pager.completed(0, (*op, *op), SessionId(session), 0, false);
        }
    }
    assert_eq!(pager.charged(), 2_048);
}

/// Addresses at which the model keeps the variables of slots.
const VARIABLES: u64 = 1 << 32;

/// Memory held on a device that runs slices in order within a session, op by op.
#[derive(Default)]
struct Holder {
    held: BTreeMap<u64, u64>,
    slices: VecDeque<(GpuPosition, Vec<Need>)>,
    failed: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Admit(u64, Vec<(u8, u64, u64)>),
    Run(u64),
    /// As `Run`, but fails behind this many ops; nothing of the session runs after it.
    Fail(u64, usize),
    Close(u64),
    /// Other sessions come and go, and the device reports the memory that sessions hold now.
    Recharge(Vec<(u64, u64)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let needs = prop::collection::vec((0..6_u8, 0..6_u64, 1..3_000_u64), 1..5);
    let step = prop_oneof![
        4 => (0..4_u64, needs).prop_map(|(session, needs)| Step::Admit(session, needs)),
        4 => (0..4_u64).prop_map(Step::Run),
        1 => (0..4_u64, 0..5_usize).prop_map(|(session, ops)| Step::Fail(session, ops)),
        1 => (0..4_u64).prop_map(Step::Close),
        2 => prop::collection::vec((0..4_u64, 0..6_000_u64), 1..4).prop_map(Step::Recharge),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// I8, and byte-milliseconds are conserved (I10).
    #[test]
    fn nobody_holds_more_than_quota_or_capacity(steps in steps(), first_block in 0..2_048_u64, first_blocks in 2_048..6_000_u64) {
        const CAPACITY: u64 = 8_192;
        const QUOTA: u64 = 5_120;
        let tenants = [tenant("a"), tenant("a"), tenant("b"), tenant("c")];
        let mut pager = Pager::new(CAPACITY).with_first_block(first_block, first_blocks);
        let mut holders: BTreeMap<u64, Holder> = BTreeMap::new();
        let (mut now, mut position, mut op) = (0, 0, 0);
        let mut closed_ms = 0;
        for step in steps {
            now += 1_000_000;
            match step {
                Step::Admit(session, needs) => {
                    pager.open(now, SessionId(session), &tenants[session as usize], QUOTA);
                    let holder = holders.entry(session).or_default();
                    if holder.failed {
                        continue;
                    }
                    let mut known = holder.held.clone();
                    for (_, slice) in &holder.slices {
                        for need in slice {
                            match need {
                                Need::Alloc { address, bytes, .. } => known.insert(*address, *bytes),
                                Need::Free { address } => known.remove(address),
                                Need::Move { to, from } => known.remove(from).and_then(|it| known.insert(*to, it)),
                                Need::Load { .. } | Need::Unload { .. } | Need::Launch { .. } => None,
                            };
                        }
                    }
                    let mut slice = Vec::new();
                    for (kind, address, bytes) in needs {
                        op += 1;
                        // Programs are sane: addresses are free when taken, and taken when freed.
                        if kind == 3 {
                            let holder = VariableHolder::Slot(address as u32);
                            slice.push(Need::Load { op, holder, bytes });
                        } else if kind == 4 {
                            slice.push(Need::Unload { slot: address as u32 });
                        } else if kind == 2 {
                            slice.push(Need::Launch { op, least: bytes / 2, most: bytes });
                        } else if kind == 1 && known.insert(address, bytes).is_none() {
                            slice.push(alloc(op, address, bytes));
                        } else if kind == 0 && known.remove(&address).is_some() {
                            slice.push(Need::Free { address });
                        } else if kind == 5 && !known.contains_key(&(bytes % 6))
                            && let Some(moved) = known.remove(&address)
                        {
                            let to = bytes % 6;
                            known.insert(to, moved);
                            slice.push(Need::Move { to, from: address });
                        }
                    }
                    position += 1;
                    let decision = pager.admit(position, SessionId(session), &slice);
                    for (at, granted) in pager.take_granted() {
                        for need in &mut slice {
                            if let Need::Launch { op, least, most } = need && *op == at {
                                prop_assert!((*least..=*most).contains(&granted));
                                // The uncounted part of the first block is beside the memory that all others
                                // hold.
                                *most = granted - (*least).min(first_block);
                            }
                        }
                    }
                    match decision {
                        MemoryDecision::Fits => holder.slices.push_back((position, slice)),
                        MemoryDecision::Wait | MemoryDecision::Later => {
                            let busy = holders.values().any(|h| !h.slices.is_empty());
                            prop_assert!(busy, "nothing to wait for");
                        }
                        MemoryDecision::Refused(at, _) => {
                            let ran = slice.iter().take_while(
                                |need| !matches!(need,
                                    Need::Alloc { op, .. } | Need::Launch { op, .. }
                                        | Need::Load { op, .. } if *op == at));
                            let ran = ran.copied().collect();
                            holder.slices.push_back((position, ran));
                        }
                    }
                }
                Step::Run(session) | Step::Fail(session, _) => {
                    let Some(holder) = holders.get_mut(&session) else { continue };
                    let Some((position, slice)) = holder.slices.pop_front() else { continue };
                    let ops = match step {
                        _ if holder.failed => 0,
                        Step::Fail(_, ops) => ops,
                        _ => usize::MAX,
                    };
                    holder.failed |= matches!(step, Step::Fail(..));
                    let faulted = holder.failed;
                    for need in slice.into_iter().take(ops) {
                        let Some(holder) = holders.get_mut(&session) else { break };
                        match need {
                            Need::Alloc { address, bytes, .. } => holder
                                .held
                                .insert(address, bytes.next_multiple_of(GRANULE)),
                            Need::Free { address } => holder.held.remove(&address),
                            Need::Move { to, from } => {
                                let moved = holder.held.remove(&from);
                                moved.and_then(|it| holder.held.insert(to, it))
                            }
                            Need::Launch { most, .. } => holder.held.insert(u64::MAX, most),
                            Need::Load { holder: VariableHolder::Slot(slot), bytes, .. } => holder
                                .held
                                .insert(VARIABLES + u64::from(slot), bytes.next_multiple_of(GRANULE)),
                            Need::Load { .. } => None,
                            Need::Unload { slot } => holder.held.remove(&(VARIABLES + u64::from(slot))),
                        };
                        check(&holders, &tenants, QUOTA, CAPACITY)?;
                        if let Some(holder) = holders.get_mut(&session) {
                            holder.held.remove(&u64::MAX);
                        }
                    }
                    let resident = holders[&session].held.values().sum();
                    pager.completed(now, (position, position), SessionId(session), resident, faulted);
                }
                Step::Recharge(changed) => {
                    let changed: Vec<_> = changed
                        .into_iter()
                        .map(|(session, resident)| (SessionId(session), resident))
                        .collect();
                    let charge = |(session, charged): &(SessionId, u64)| Recharged {
                        session: *session,
                        charged: *charged,
                        saved: 0,
                    };
                    pager.recharged(now, &changed.iter().map(charge).collect::<Vec<_>>());
                    for (session, _) in &changed {
                        let said = changed.iter().rfind(|(other, _)| other == session);
                        let held = pager.residency(*session).map(|it| it.resident);
                        prop_assert!(held.is_none() || held == said.map(|(_, it)| *it));
                    }
                }
                Step::Close(session) => {
                    if holders.remove(&session).is_some() {
                        closed_ms += pager.close(now, SessionId(session));
                    }
                }
            }
            let held = (0..4).filter_map(|s| pager.residency(SessionId(s)));
            let held: u64 = held.map(|it| it.resident).sum();
            prop_assert_eq!(held, pager.device().resident);
            prop_assert!(pager.charged() <= CAPACITY);
            for name in ["a", "b", "c"] {
                prop_assert!(pager.charged_to(&tenant(name)) <= QUOTA);
            }
        }
        let open: u64 = (0..4).filter_map(|s| pager.residency(SessionId(s)))
            .map(|r| r.byte_ms(now)).sum();
        prop_assert_eq!(open + closed_ms, pager.device().byte_ms(now));
    }
}

fn check(
    holders: &BTreeMap<u64, Holder>,
    tenants: &[Tenant; 4],
    quota: u64,
    capacity: u64,
) -> Result<(), TestCaseError> {
    let held = |h: &Holder| h.held.values().sum::<u64>();
    prop_assert!(holders.values().map(held).sum::<u64>() <= capacity);
    for tenant in tenants {
        let own = holders
            .iter()
            .filter(|(s, _)| tenants[**s as usize] == *tenant);
        prop_assert!(own.map(|(_, h)| held(h)).sum::<u64>() <= quota);
    }
    Ok(())
}
