use bus_schemas::{Allowance, ChainEntry, GrantKind, OpNumber, SealedGrant, SealedName, Window};

use super::*;

const WORKER: Incarnation = Incarnation(7);
const SESSION: SessionId = SessionId(3);

fn grant(kind: GrantKind, first: OpNumber, last: OpNumber) -> Grant {
    Grant {
        kind,
        priority: 2,
        global: 1,
        session: SESSION,
        first,
        last,
        cost: 1,
        declared: 0,
        input: 1,
        epoch: 1,
    }
}

/// A session is opened, runs ops 1 to 4, and then its ops as they come.
fn granted() -> Chains {
    let mut chains = Chains::default();
    let open = OpenGrant {
        priority: 2,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
        session: SESSION,
        tenant: "a".parse().unwrap(),
        ordinal: 1,
        window: Window { base: 0, size: 1 },
        quota: 0,
        nonce: 0,
    };
    let grants = [
        (grant(GrantKind::Open, 0, 0), Some(&open)),
        (grant(GrantKind::Run, 1, 4), None),
        (grant(GrantKind::Standing, 5, 0), None),
    ];
    for (position, (grant, open)) in (1..).zip(grants) {
        chains.grant(WORKER, position, Proposed::new(grant, None), open);
    }
    chains
}

fn closed(measured: u64, received: OpNumber) -> DoneReport {
    DoneReport {
        position: 3,
        session: SESSION,
        measured,
        received,
        outcome: Outcome::Closed,
        declared: 0,
    }
}

/// The chain at a position, if the standing grant ended with op 9.
fn chain(position: GpuPosition) -> Chain {
    let mut chains = granted();
    chains.end(WORKER, &closed(5, 9), &Launches::default());
    chains.finish_rest();
    let rows = chains.into_positions();
    let row = rows.iter().find(|row| row.position == position);
    row.and_then(|row| row.chain).expect("it is there")
}

fn recorded(chains: &Chains) -> GpuPosition {
    chains.tails()[0].recorded
}

#[test]
fn last_words_are_compared_where_they_were_said() {
    for position in 1..=2 {
        let mut chains = granted();
        chains
            .last_words(WORKER, position, chain(position))
            .unwrap();
        assert_eq!(recorded(&chains), position);
        let other = chain(3 - position);
        let refused = chains.last_words(WORKER, position, other).unwrap_err();
        assert!(refused.to_string().contains("when it was lost"));
    }
    let refused = granted().last_words(WORKER, 4, chain(2));
    assert!(refused.is_ok(), "the third is not known to have ended");
    let mut chains = granted();
    chains.end(WORKER, &closed(5, 9), &Launches::default());
    let refused = chains.last_words(WORKER, 4, chain(2)).unwrap_err();
    assert!(refused.to_string().contains("does not lead there"));
}

#[test]
fn where_nobody_told_how_a_standing_grant_ended_there_is_nothing_to_compare() {
    let mut chains = granted();
    chains.last_words(WORKER, 3, chain(3)).unwrap();
    assert_eq!(recorded(&chains), 0);
    assert_eq!(chains.tails()[0].tail.position, 2);
    // Once the worker has reported it, it is compared.
    chains.end(WORKER, &closed(5, 9), &Launches::default());
    chains.last_words(WORKER, 3, chain(3)).unwrap();
    assert_eq!(recorded(&chains), 3);
}

#[test]
fn of_a_worker_that_left_all_counts_that_it_reported_whoever_heard_that_it_left() {
    let ended = |position| DoneReport {
        position,
        measured: 5,
        received: 0,
        outcome: Outcome::Ran,
        ..closed(0, 0)
    };
    // The position that its leader knew to be accepted, its reports, and the position that counts.
    let cases: [(GpuPosition, &[DoneReport], GpuPosition); 5] = [
        (0, &[], 0),
        (2, &[], 2),
        (0, &[ended(1), ended(2)], 2),
        (0, &[ended(2), closed(5, 9)], 3),
        (3, &[ended(1), closed(5, 9)], 3),
    ];
    for (accepted, reports, counts) in cases {
        let mut chains = granted();
        for report in reports {
            chains.end(WORKER, report, &Launches::default());
        }
        chains.lost(WORKER, true, accepted);
        chains.finish_rest();
        assert_eq!(chains.tails()[0].fate, Fate::Left);
        assert_eq!(chains.tails()[0].tail.position, counts, "{reports:?}");
    }
}

#[test]
fn a_worker_that_is_sealed_was_not_lost() {
    let (mut chains, answer) = sealed(0, true);
    chains.lost(WORKER, false, 2);
    assert_eq!(chains.tails()[0].fate, Fate::Lost);
    let tail = answer.tail.clone();
    chains
        .seal(WORKER, &answer, &tail, &Launches::default())
        .unwrap();
    assert_eq!(chains.tails()[0].fate, Fate::Here);
}

/// The seal answer of a worker behind `granted()`, with a third grant that ended with op 9, and
/// behind a session that came, ran two ops and went. `inputs` of epoch 1 are recorded.
fn sealed(inputs: InputNumber, named: bool) -> (Chains, SealAnswer) {
    let mut chains = granted();
    chains.record_reaches((1, LeaderId(1)), inputs);
    chains.end(WORKER, &closed(5, 9), &Launches::default());
    let short = SessionId(4);
    let kinds = [
        (GrantKind::Open, 0, 0),
        (GrantKind::Run, 1, 2),
        (GrantKind::Close, 0, 0),
    ];
    let mut at = chain(3);
    let mut tail = Vec::new();
    for (position, (kind, first, last)) in (4..).zip(kinds) {
        at = at.then(&ChainEntry {
            position,
            tenant: &"b".parse().unwrap(),
            ordinal: 7,
            kind,
            first,
            last,
        });
        let grant = Grant {
            session: short,
            input: 5,
            ..grant(kind, first, last)
        };
        tail.push(SealedGrant { position, grant });
    }
    let name = SealedName {
        tenant: "b".parse().unwrap(),
        session: short,
        ordinal: 7,
    };
    let answer = SealAnswer {
        v: 1,
        epoch: 2,
        leader: LeaderId(2),
        gpu: 0,
        capacity: 0,
        position: 6,
        chain: at,
        global: 6,
        reports: 0,
        sessions: Vec::new(),
        outstanding: Vec::new(),
        tail_epoch: 1,
        tail_recorded: 1,
        tail,
        ordinals: Vec::new(),
        faults: Vec::new(),
        named: if named { vec![name] } else { Vec::new() },
        forgotten: None,
    };
    (chains, answer)
}

#[test]
fn a_session_that_came_and_went_with_the_record_is_adopted_by_name() {
    let (mut chains, answer) = sealed(4, true);
    chains
        .seal(WORKER, &answer, &answer.tail, &Launches::default())
        .unwrap();
    assert_eq!((chains.adopted, chains.holes.len()), (3, 0));
    assert_eq!(recorded(&chains), 6);
    let rows = chains.into_positions();
    let adopted: Vec<_> = rows.iter().filter(|row| row.adopted).collect();
    assert_eq!(adopted.len(), 3);
    for row in adopted {
        assert_eq!((row.tenant.as_str(), row.ordinal), ("b", 7));
    }
}

#[test]
fn a_return_that_ends_behind_its_sessions_close_is_told_and_passed() {
    let mut chains = granted();
    chains.forgets = true;
    let grants = [GrantKind::Close, GrantKind::Return];
    for (position, kind) in (3..).zip(grants) {
        let proposed = Proposed::new(grant(kind, 0, 0), None);
        chains.grant(WORKER, position, proposed, None);
    }
    let ended = |position, outcome| DoneReport {
        position,
        outcome,
        ..closed(0, 0)
    };
    let outcomes = [Outcome::Ran, Outcome::Ran, Outcome::Ran, Outcome::Gone];
    for (position, outcome) in (1..).zip(outcomes) {
        let report = ended(position, outcome);
        let row = chains.end(WORKER, &report, &Launches::default());
        assert_eq!(
            row.and_then(|row| row.end).map(|end| end.outcome),
            Some(outcome)
        );
    }
    assert_eq!(chains.tails()[0].tail.position, 4);
    assert_eq!(chains.kept(), 0, "nor is its name kept");
}

#[test]
fn what_no_tail_names_is_a_hole() {
    let (mut chains, answer) = sealed(4, false);
    chains
        .seal(WORKER, &answer, &answer.tail, &Launches::default())
        .unwrap();
    let hole = Hole {
        gpu: 0,
        incarnation: WORKER,
        first: 4,
        last: 6,
    };
    assert_eq!(chains.holes, [hole]);
    assert_eq!(hole.positions(), 3);
    assert!(recorded(&chains) < 6, "nothing was compared there");
    // A position that a tail leaves out is a hole too, and no other position is.
    let (mut chains, mut answer) = sealed(4, true);
    answer.tail.remove(1);
    chains
        .seal(WORKER, &answer, &answer.tail, &Launches::default())
        .unwrap();
    assert_eq!(holes(&chains), [(5, 5)]);
    assert_eq!((chains.adopted, chains.skipped()), (2, 1));
    assert!(recorded(&chains) < 6);
    let rows = chains.into_positions();
    let behind: Vec<_> = rows.iter().filter(|row| row.position > 4).collect();
    assert_eq!(behind.len(), 1);
    assert_eq!(
        (behind[0].position, behind[0].chain),
        (6, Some(answer.chain))
    );
}

fn holes(chains: &Chains) -> Vec<(GpuPosition, GpuPosition)> {
    let holes = chains.holes.iter();
    holes.map(|hole| (hole.first, hole.last)).collect()
}

fn gap(incarnation: Incarnation, first: GpuPosition, last: GpuPosition) -> Gap {
    Gap {
        incarnation,
        first,
        last,
        reason: "a test".into(),
    }
}

#[test]
fn what_is_missing_is_named_position_by_position() {
    let other = Incarnation(8);
    // Positions 4 to 6 are missing, except those that the tail still has.
    let cases = [
        (
            vec![gap(WORKER, 4, 4), gap(WORKER, 5, 9)],
            vec![],
            (3, vec![]),
        ),
        (vec![gap(WORKER, 1, 5)], vec![6], (2, vec![])),
        (vec![gap(WORKER, 4, 4)], vec![6], (1, vec![(5, 5)])),
        (vec![gap(WORKER, 5, 5)], vec![], (1, vec![(4, 4), (6, 6)])),
        (vec![gap(other, 4, 6)], vec![4], (0, vec![(5, 6)])),
        (
            vec![gap(WORKER, 4, 6), gap(WORKER, 4, 6)],
            vec![5],
            (2, vec![]),
        ),
    ];
    for (gaps, told, (named, left)) in cases {
        let (mut chains, mut answer) = sealed(4, true);
        answer.tail.retain(|it| told.contains(&it.position));
        chains.gaps = gaps;
        chains
            .seal(WORKER, &answer, &answer.tail, &Launches::default())
            .unwrap();
        assert_eq!(chains.gap_positions, named, "{told:?}");
        assert_eq!(holes(&chains), left, "{told:?}");
        assert_eq!(chains.adopted, told.len() as u64);
        let tail = chains.tails()[0].tail;
        assert_eq!((tail.position, tail.chain), (6, answer.chain));
        let rows = chains.into_positions();
        assert_eq!(rows.len(), 3 + told.len());
    }
}

#[test]
fn what_was_only_recomputed_behind_a_hole_may_be_another_leaders() {
    let (mut chains, mut answer) = sealed(4, true);
    answer.tail.clear();
    let stale = Proposed::new(grant(GrantKind::Run, 10, 12), None);
    chains.grant(WORKER, 6, stale, None);
    chains
        .seal(WORKER, &answer, &answer.tail, &Launches::default())
        .unwrap();
    assert_eq!(holes(&chains), [(4, 6)]);
}

#[test]
fn another_name_is_noticed() {
    let (mut chains, mut answer) = sealed(4, true);
    answer.named[0].ordinal += 1;
    let refused = chains.seal(WORKER, &answer, &answer.tail, &Launches::default());
    assert!(refused.is_err());
}

#[test]
fn nothing_is_adopted_that_the_record_has_the_input_of() {
    let (mut chains, answer) = sealed(5, true);
    let refused = chains.seal(WORKER, &answer, &answer.tail, &Launches::default());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("position 4"), "{refused}");
    assert!(refused.contains("its leader did not make"), "{refused}");
}

#[test]
fn what_a_worker_kept_no_more_is_named_by_it() {
    let (mut chains, mut answer) = sealed(4, true);
    answer.tail.drain(..2);
    answer.forgotten = Some((2, 5));
    for _ in 0..2 {
        chains
            .seal(WORKER, &answer, &answer.tail, &Launches::default())
            .unwrap();
    }
    assert_eq!((chains.gap_positions, holes(&chains)), (2, vec![]));
    assert_eq!(chains.gaps.len(), 1, "each leader is told it, it is one");
    assert!(chains.gaps[0].reason.contains("kept no more"));
}

#[test]
fn pages_in_any_size_are_one_tail() {
    let (_, answer) = sealed(4, true);
    for cut in 0..=answer.tail.len() {
        let (mut chains, _) = sealed(4, true);
        chains.name(&answer.named);
        // A page that was sent again overlaps the previous one.
        let tail = [&answer.tail[..cut], &answer.tail[..]].concat();
        let rest = SealAnswer {
            tail: Vec::new(),
            named: Vec::new(),
            ..answer.clone()
        };
        chains
            .seal(WORKER, &rest, &tail, &Launches::default())
            .unwrap();
        assert_eq!((chains.adopted, chains.holes.len()), (3, 0));
        assert_eq!(recorded(&chains), 6);
    }
}
