use bus_schemas::Window;

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

/// A session is opened, runs ops 1 to 4, and then as they come.
fn granted() -> Chains {
    let mut chains = Chains::default();
    let open = OpenGrant {
        priority: 2,
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

/// The chain behind a position, where the standing grant ended with op 9.
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
    // Told, it is.
    chains.end(WORKER, &closed(5, 9), &Launches::default());
    chains.last_words(WORKER, 3, chain(3)).unwrap();
    assert_eq!(recorded(&chains), 3);
}
