//! Requests for memory: committed memory is available, requests that can be met are, and the others are
//! refused.

mod promises;
mod world;

use bus_schemas::{Code, SessionId};
use gpu_worker_core::Pager;
use gpu_worker_core::pager::{MemoryAction, MemoryDecision, MemoryRequested, Need, TenantMemory};

use world::{CAPACITY, MS, PAGE, QUOTA, World, tenant};

#[test]
fn what_a_tenant_has_is_said_to_the_byte() {
    let mut world = World::new(&["a", "a", "b"]);
    assert_eq!(world.request(1, PAGE, PAGE), Some(Ok(PAGE)));
    world.allocate(1, PAGE);
    assert_eq!(world.request(3, 3 * PAGE, 9 * PAGE), Some(Ok(9 * PAGE)));
    world.allocate(3, 3 * PAGE);
    world.run_all(1);
    world.run_all(3);
    let said = |total, held, free| Some(TenantMemory { total, held, free });
    let pager = &world.pager;
    assert_eq!(
        pager.memory(SessionId(1), PAGE),
        said(QUOTA, PAGE, QUOTA - PAGE)
    );
    assert_eq!(
        pager.memory(SessionId(2), 0),
        said(QUOTA, PAGE, QUOTA - PAGE)
    );
    // Memory that is committed and not used is still free.
    let free = QUOTA - 3 * PAGE;
    assert_eq!(
        pager.memory(SessionId(3), 3 * PAGE),
        said(QUOTA, 3 * PAGE, free)
    );
    assert_eq!(pager.memory(SessionId(9), 0), None);
}

#[test]
fn what_others_do_not_use_is_recalled_and_what_they_use_is_refused() {
    let mut world = World::new(&["a", "a", "b"]);
    assert_eq!(world.request(1, PAGE, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, PAGE);
    // Its own tenant's quota is committed whole, and one page of it is used.
    let rest = QUOTA - PAGE;
    assert_eq!(world.request(2, rest + PAGE, QUOTA), Some(Err(Code::Quota)));
    // The op that took the page has to run before the rest is free.
    assert_eq!(world.request(2, rest, rest), None);
    world.run_all(1);
    assert_eq!(world.settle(2), Some(Ok(rest)));
    world.allocate(2, rest);
    // Another tenant gets the rest of the device.
    let left = CAPACITY - QUOTA;
    assert_eq!(
        world.request(3, left + PAGE, left + PAGE),
        Some(Err(Code::OutOfMemory))
    );
    assert_eq!(world.request(3, left, 2 * left), Some(Ok(left)));
}

#[test]
fn who_may_not_be_swapped_out_is_recalled_from_before_others_are_refused() {
    let mut world = World::new(&["a", "b", "c"]);
    world.pager = Pager::new(CAPACITY).with_swap(4 * CAPACITY, 1_000 * MS);
    for (id, owner) in [(1, "a"), (2, "b"), (3, "c")] {
        world.pager.open(0, SessionId(id), &tenant(owner), CAPACITY);
    }
    world.pager.pin_tenants([tenant("a"), tenant("c")]);
    // Both have much committed, and use a page of it.
    for id in [1, 2] {
        let half = CAPACITY / 2;
        assert_eq!(world.request(id, PAGE, half), Some(Ok(half)));
        world.allocate(id, PAGE);
        world.run_all(id);
    }
    // The memory that is left beside the pages in use, once both have given back the rest.
    let left = CAPACITY - 2 * PAGE;
    assert_eq!(world.request(3, left, left), Some(Ok(left)));
    let too_much = world.request(3, left + PAGE, left + PAGE);
    assert_eq!(too_much, Some(Err(Code::OutOfMemory)));
}

#[test]
fn what_was_freed_and_not_run_is_waited_for_but_not_for_ever() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(1, QUOTA, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, QUOTA);
    world.run_all(1);
    world.free(1);
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.now += 9_900 * MS;
    assert_eq!(world.settle(2), None, "the free is on its way");
    world.now += 100 * MS;
    assert_eq!(world.settle(2), Some(Err(Code::Quota)), "it takes too long");
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.run_all(1);
    assert_eq!(world.settle(2), Some(Ok(QUOTA)));
}

#[test]
fn a_client_that_does_not_answer_keeps_what_it_has() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(1, PAGE, QUOTA), Some(Ok(QUOTA)));
    let session = world.session(2);
    session.number += 1;
    let requested = MemoryRequested {
        session: SessionId(2),
        number: 1,
        held: 0,
        after: 0,
        wanted: QUOTA,
        least: QUOTA,
        recall: 0,
    };
    let mut actions = Vec::new();
    world.pager.request(0, requested, &mut actions);
    let recall = MemoryAction::Recall {
        session: SessionId(1),
        number: 1,
    };
    assert_eq!(actions, std::slice::from_ref(&recall));
    actions.clear();
    world.pager.settle(1_000 * MS, &mut actions);
    assert_eq!(actions, [recall], "it may have been lost");
    actions.clear();
    world.pager.settle(1_199 * MS, &mut actions);
    assert_eq!(actions, [], "it may still answer");
    world.pager.settle(2_000 * MS, &mut actions);
    assert!(
        matches!(
            &actions[..],
            [
                MemoryAction::Recall { .. },
                MemoryAction::Answer {
                    refused: Some(_),
                    ..
                }
            ]
        ),
        "{actions:?}"
    );
    // Repeated with the same number, the request is answered again.
    actions.clear();
    world.pager.request(2_001 * MS, requested, &mut actions);
    assert!(matches!(&actions[..], [MemoryAction::Answer { .. }]));
}

#[test]
fn a_session_that_is_closed_is_waited_for() {
    let mut world = World::new(&["a", "b"]);
    assert_eq!(world.request(1, QUOTA, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, QUOTA);
    world.run_all(1);
    assert_eq!(world.request(2, QUOTA, QUOTA), Some(Err(Code::OutOfMemory)));
    world.pager.closing(SessionId(1));
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.pager.close(1, SessionId(1));
    assert_eq!(world.settle(2), Some(Ok(QUOTA)));
}

#[test]
fn what_is_asked_for_ahead_of_need_is_given_where_it_is_free() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(1, PAGE, 4 * PAGE), Some(Ok(4 * PAGE)));
    world.allocate(1, PAGE);
    assert_eq!(world.ahead(1, 6 * PAGE), Some(Ok(6 * PAGE)));
    let rest = QUOTA - 6 * PAGE;
    assert_eq!(world.request(2, PAGE, rest), Some(Ok(rest)));
    // It keeps its commitment, and the other session, which does not use its own, is not asked.
    world.on_the_way = Some(std::collections::BTreeMap::new());
    assert_eq!(world.ahead(1, 7 * PAGE), Some(Ok(6 * PAGE)));
    // The same holds if its quota is lower by now.
    world.set_quotas(&[("a", 2 * PAGE)]);
    world.on_the_way = Some(std::collections::BTreeMap::new());
    assert_eq!(world.ahead(1, 7 * PAGE), Some(Ok(6 * PAGE)));
    assert_eq!(world.on_the_way.as_ref().map(|it| it.len()), Some(0));
    world.allocate(1, 5 * PAGE);
    world.run_all(1);
}

#[test]
fn a_session_that_asks_ahead_has_not_said_what_it_holds() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(2, PAGE, PAGE), Some(Ok(PAGE)));
    // The other session's unused page is recalled, and the recall takes time.
    world.on_the_way = Some(std::collections::BTreeMap::new());
    assert_eq!(world.request(1, QUOTA, QUOTA), None);
    assert_eq!(world.ahead(2, 2 * PAGE), Some(Ok(PAGE)));
    assert_eq!(world.settle(1), None, "nothing is lacking for good");
    world.deliver(2);
    assert_eq!(world.settle(1), Some(Ok(QUOTA)));
}

#[test]
fn a_tenant_whose_quota_is_used_up_keeps_no_other_from_asking_ahead() {
    let mut world = World::new(&["a", "a", "b"]);
    assert_eq!(world.request(2, PAGE, PAGE), Some(Ok(PAGE)));
    world.on_the_way = Some(std::collections::BTreeMap::new());
    assert_eq!(
        world.request(1, QUOTA, QUOTA),
        None,
        "it waits for its quota"
    );
    assert_eq!(world.ahead(3, 2 * PAGE), Some(Ok(2 * PAGE)));
}

#[test]
fn a_lower_quota_takes_nothing_away_and_lets_nothing_grow() {
    let mut world = World::new(&["a"]);
    assert_eq!(world.request(1, 8 * PAGE, 16 * PAGE), Some(Ok(16 * PAGE)));
    world.allocate(1, 8 * PAGE);
    world.run_all(1);
    world.set_quotas(&[("a", 4 * PAGE)]);
    assert_eq!(world.session(1).ceiling, 8 * PAGE, "recalled");
    assert_eq!(world.request(1, 9 * PAGE, 9 * PAGE), Some(Err(Code::Quota)));
    let memory = world.pager.memory(SessionId(1), 8 * PAGE);
    let said = TenantMemory {
        total: 4 * PAGE,
        held: 8 * PAGE,
        free: 0,
    };
    assert_eq!(memory, Some(said));
    // It keeps running: the blocks of a launch find room, one at a time.
    let launch = |op, least, most| [Need::Launch { op, least, most }];
    let fits = world
        .pager
        .admit(2, SessionId(1), &launch(2, PAGE, 8 * PAGE));
    assert_eq!(fits, MemoryDecision::Fits);
    assert_eq!(world.pager.take_granted(), [(2, PAGE)]);
    world.pager.completed(2, (2, 2), SessionId(1), 0, false);
    world.free(1);
    world.run_all(1);
    world.now += 101 * MS;
    world.settle(1);
    assert_eq!(world.session(1).ceiling, 0, "recalled as it frees");
    assert_eq!(world.request(1, 4 * PAGE, 8 * PAGE), Some(Ok(4 * PAGE)));
    // An open grant that is carried out later does not raise the quota again.
    world.pager.open(2, SessionId(7), &tenant("a"), QUOTA);
    assert_eq!(
        world.pager.memory(SessionId(7), 0).map(|it| it.total),
        Some(4 * PAGE)
    );
    let total = |world: &World, session| {
        let memory = world.pager.memory(SessionId(session), 0);
        memory.map(|it| it.total)
    };
    // A named quota counts for tenants that come later, and a tenant without one has the whole device.
    world.set_quotas(&[("b", 2 * PAGE)]);
    world.pager.open(3, SessionId(8), &tenant("b"), QUOTA);
    assert_eq!(total(&world, 8), Some(2 * PAGE));
    assert_eq!(total(&world, 7), Some(CAPACITY));
}
