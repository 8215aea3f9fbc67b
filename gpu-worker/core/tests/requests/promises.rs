//! Random clients: committed memory is available, and a refusal is justified.

use std::collections::BTreeMap;

use bus_schemas::Code;
use proptest::prelude::*;

use crate::world::{CAPACITY, MS, PAGE, QUOTA, World};

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64, u64, u64),
    Ahead(u64, u64),
    Free(u64),
    Admit(u64),
    Run(u64),
    Deliver(u64),
    Wait(u64),
    Quota(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 1..5_u64;
    let step = prop_oneof![
        4 => (id(), 1..90_u64, 0..60_u64).prop_map(|(id, need, more)| Step::Allocate(id, need, more)),
        1 => (id(), 1..60_u64).prop_map(|(id, more)| Step::Ahead(id, more)),
        3 => id().prop_map(Step::Free),
        4 => id().prop_map(Step::Admit),
        4 => id().prop_map(Step::Run),
        3 => id().prop_map(Step::Deliver),
        1 => (0..400_u64).prop_map(Step::Wait),
        1 => (1..QUOTA / PAGE).prop_map(Step::Quota),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    /// Committed memory keeps I8, allocations within it are always admitted, and a refusal is justified.
    #[test]
    fn what_is_committed_is_there_and_a_refusal_is_true(steps in steps(), takes_time: bool) {
        let owners = ["a", "a", "b", "c"];
        let mut world = World::new(&owners);
        world.on_the_way = takes_time.then(BTreeMap::new);
        let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut quota, mut before) = (QUOTA, [0; 3]);
        for step in steps {
            world.now += 1;
            match step {
                Step::Allocate(id, need, more) => {
                    if waiting.contains_key(&id) {
                        continue;
                    }
                    let bytes = need * PAGE;
                    let least = world.session(id).held + bytes;
                    if least > world.session(id).ceiling {
                        waiting.insert(id, least);
                        world.session(id).wants = bytes;
                        world.ask(id, least, least + more * PAGE);
                    } else {
                        world.allocate(id, bytes);
                    }
                }
                // A client has one request under way, and obeys a recall first.
                Step::Ahead(id, more) if !world.waits(id) => {
                    let ceiling = world.session(id).ceiling;
                    let answer = world.ahead(id, ceiling + more * PAGE);
                    prop_assert!(matches!(answer, Some(Ok(it)) if it >= ceiling), "{answer:?}");
                }
                Step::Ahead(..) => {}
                Step::Free(id) if !waiting.contains_key(&id) => world.free(id),
                Step::Free(_) => {}
                Step::Admit(id) => world.admit(id),
                Step::Run(id) => world.run(id),
                Step::Deliver(id) => world.deliver(id),
                Step::Wait(ms) => world.now += ms * MS,
                Step::Quota(pages) => {
                    quota = pages * PAGE;
                    world.set_quotas(&[("a", quota), ("b", quota), ("c", quota)]);
                }
            }
            world.settle(0);
            for (id, answer) in std::mem::take(&mut world.answers) {
                let Some(least) = waiting.remove(&id) else { continue };
                match answer {
                    Ok(committed) => prop_assert!(committed >= least, "{committed} of {least}"),
                    Err(code) => {
                        // Every client that has memory to give back was asked for it.
                        let own = owners[id as usize - 1];
                        let ceilings = |of: &dyn Fn(&str) -> bool| -> u64 {
                            let others = world.sessions.iter().filter(|(other, _)| **other != id);
                            others
                                .filter(|(other, _)| of(owners[**other as usize - 1]))
                                .map(|(_, session)| session.held)
                                .sum()
                        };
                        let lacks = match code {
                            Code::Quota => ceilings(&|owner| owner == own) + least > quota,
                            _ => ceilings(&|_| true) + least > CAPACITY,
                        };
                        let pending = world.sessions.values().any(|it| {
                            !it.sent.is_empty() || !it.admitted.is_empty()
                        });
                        let late = |(_, at): &(u64, u64)| world.now - at >= 2_000 * MS;
                        let silent = world.on_the_way.iter().any(|it| it.values().any(late));
                        prop_assert!(lacks || pending || silent, "{code:?}: {least} would fit");
                    }
                }
            }
            let all: u64 = world.sessions.values().map(|session| session.ceiling).sum();
            prop_assert!(all <= CAPACITY, "{all} of {CAPACITY} are committed");
            for (own, before) in ["a", "b", "c"].into_iter().zip(&mut before) {
                let sessions = world.sessions.iter().filter(|(id, _)| owners[**id as usize - 1] == own);
                let has = sessions.map(|(_, it)| it.ceiling).sum::<u64>();
                // Above a lowered quota no tenant grows.
                prop_assert!(has <= quota.max(*before), "{has} of {quota}, before {before}");
                *before = has;
            }
        }
    }
}
