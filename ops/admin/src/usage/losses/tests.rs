use super::super::Query;
use super::super::tests::{block, books, tenant};
use super::*;

const DEAD: Incarnation = Incarnation(1);

fn told(device_ns: u64, launches: u64) -> ReportedWork {
    ReportedWork {
        device_ns,
        launches,
        unknown: 0,
    }
}

/// After its blocks, the worker reported this much for a and for b, and 2 of its reports are lost.
fn reported() -> Option<BTreeMap<Incarnation, UnrecordedUse>> {
    let tenants = [("a", told(500, 4)), ("b", told(70, 1))];
    let tenants = tenants.map(|(name, told)| (Some(tenant(name)), told));
    let told = UnrecordedUse {
        tenants: tenants.into(),
        unrecorded: 2,
    };
    Some(BTreeMap::from([(DEAD, told)]))
}

fn losses(query: Query, begun: bool) -> Vec<Unsaid> {
    let first = block(
        1,
        1,
        1_000,
        bus_schemas::UseTotals::default(),
        &[("a", 7, 1, 10)],
    );
    let mut second = block(1, 2, 2_000, first.totals, &[("a", 7, 2, 50)]);
    if begun {
        // The block that was cut together with it is lost.
        second.reports = None;
    }
    let mut left = block(2, 1, 2_000, bus_schemas::UseTotals::default(), &[]);
    left.last = true;
    let books = books(query, &[first, second, left]);
    let open = books.open();
    books.losses(&open, reported())
}

#[test]
fn a_loss_is_what_was_reported_and_is_in_no_block() {
    let found = losses(Query::default(), false);
    let [unsaid] = &found[..] else {
        panic!("the other one left in order: {found:?}");
    };
    assert_eq!((unsaid.incarnation, unsaid.gpu), (DEAD, 1));
    let loss = unsaid.loss.as_ref().expect("it is known");
    assert_eq!((loss.sum(), loss.unrecorded), (told(570, 5), 2));
    // Of two blocks cut together, one arrived.
    let found = losses(Query::default(), true);
    let loss = found[0].loss.as_ref().expect("it is known");
    assert_eq!(loss.tenants[&Some(tenant("a"))], told(400, 2));
    assert_eq!(loss.sum(), told(470, 3));
}

#[test]
fn a_loss_counts_for_the_tenant_and_the_interval_that_are_asked_for() {
    let query = Query {
        tenant: Some(tenant("b")),
        ..Query::default()
    };
    let found = losses(query, false);
    let loss = found[0].loss.as_ref().expect("it is known");
    assert_eq!(loss.sum(), told(70, 1));
    // The time of the last block is within the interval, or the loss belongs to another interval.
    for (since, until, within) in [
        (Some(2_000), None, true),
        (Some(2_001), None, false),
        (None, Some(2_001), true),
        (None, Some(2_000), false),
    ] {
        let query = Query {
            since,
            until,
            ..Query::default()
        };
        assert_eq!(
            !losses(query, false).is_empty(),
            within,
            "{since:?} {until:?}"
        );
    }
}
