//! The pager's side: claims that wait for memory are asked again.

use bus_schemas::{OpNumber, SessionId};
use gpu_worker_core::Pager;
use gpu_worker_core::dispatch::{Claim, ClaimAnswer, Claims};
use gpu_worker_core::pager::Need;

fn question(session: u64, first: OpNumber, needs: &[Need]) -> Claim {
    Claim {
        session: SessionId(session),
        first,
        needs: needs.to_vec(),
    }
}

fn alloc(op: OpNumber, bytes: u64) -> Need {
    let address = op * (1 << 20);
    Need::Alloc { op, address, bytes }
}

fn pager(capacity: u64) -> Pager {
    let mut pager = Pager::new(capacity);
    for (session, tenant) in [(1, "a"), (2, "b")] {
        pager.open(0, SessionId(session), &tenant.parse().unwrap(), 0);
    }
    pager
}

/// The session's memory is full and about to be free.
fn freeing(pager: &mut Pager, claims: &mut Claims) {
    let full = claims.ask(pager, question(1, 1, &[alloc(1, 4_096)]));
    assert!(full.is_some_and(|answer| answer.refused.is_none()));
    pager.completed(1, (1, 1), SessionId(1), 4_096, false);
    let address = 1 << 20;
    let free = claims.ask(pager, question(1, 2, &[Need::Free { address }]));
    assert!(free.is_some());
}

#[test]
fn what_waits_is_answered_once_there_is_room() {
    let (mut pager, mut claims) = (pager(4_096), Claims::new(256));
    freeing(&mut pager, &mut claims);
    let waits = claims.ask(&mut pager, question(2, 1, &[alloc(1, 4_096)]));
    assert_eq!((waits, claims.is_waiting()), (None, true));
    assert_eq!(claims.ask_again(&mut pager), None, "nothing has changed");
    assert!(claims.is_waiting());
    pager.completed(2, (2, 2), SessionId(1), 0, false);
    let answer = claims.ask_again(&mut pager);
    let fits = ClaimAnswer {
        session: SessionId(2),
        first: 1,
        refused: None,
        launch_bytes: Vec::new(),
        later: false,
    };
    assert_eq!(answer, Some(fits));
    assert!(!claims.is_waiting());
    assert_eq!(claims.ask_again(&mut pager), None, "once");
}

#[test]
fn a_session_withdraws_its_own_question_only() {
    let (mut pager, mut claims) = (pager(4_096), Claims::new(256));
    freeing(&mut pager, &mut claims);
    assert_eq!(
        claims.ask(&mut pager, question(2, 1, &[alloc(1, 4_096)])),
        None
    );
    claims.withdraw(SessionId(1));
    assert!(claims.is_waiting());
    claims.withdraw(SessionId(2));
    assert!(!claims.is_waiting());
}

#[test]
fn no_launch_is_given_less_than_what_needs_no_asking() {
    let (mut pager, mut claims) = (pager(1 << 20), Claims::new(256));
    let launch = |op, least, most| Need::Launch { op, least, most };
    let needs = [launch(1, 512, 1_024), launch(2, 0, 0)];
    let answer = claims.ask(&mut pager, question(1, 1, &needs)).unwrap();
    assert_eq!(answer.launch_bytes, [(1, 1_024), (2, 256)]);
    let refused = claims.ask(&mut pager, question(1, 3, &[alloc(4, 2 << 20)]));
    assert_eq!(refused.unwrap().refused.map(|(op, _)| op), Some(4));
}
