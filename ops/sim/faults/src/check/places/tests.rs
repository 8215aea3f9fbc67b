//! Each rule of placement, violated.

use bus_schemas::Allowance;

use super::*;

const A: Incarnation = Incarnation(7);
const B: Incarnation = Incarnation(8);

fn name(text: &str) -> Tenant {
    text.parse().unwrap()
}

fn client() -> (NodeId, u64) {
    (NodeId(9), 100)
}

/// Worker 0 is exclusive and in `batch`; worker 1 has the defaults. `one` and `two` may use both; `free` is
/// bound to no group.
fn places() -> Places {
    let machine = |number, group: Option<&str>| Machine {
        number,
        start: 0,
        group: group.map(name),
        exclusive: group.is_some(),
    };
    let bound = |names: &[&str]| TenantSettings {
        groups: Groups::new(names.iter().map(|it| name(it))).unwrap(),
        ..TenantSettings::default()
    };
    let both = bound(&["batch", "default"]);
    let tenants = [
        (name("one"), both.clone()),
        (name("two"), both),
        (name("free"), bound(&[])),
    ];
    let machines = [machine(0, Some("batch")), machine(1, None)];
    let mut places = Places::new(&machines, &tenants, 1 << 30);
    places.exact = true;
    for (incarnation, gpu) in [(A, 0), (B, 1)] {
        places.began(incarnation, gpu);
        places.sealed(0, incarnation);
    }
    places
}

fn open(tenant: &str, session: u64, nonce: u64) -> OpenGrant {
    OpenGrant {
        tenant: name(tenant),
        session: SessionId(session),
        ordinal: session,
        window: Window {
            base: session << 40,
            size: 1 << 40,
        },
        quota: 0,
        nonce,
        priority: 2,
        modules: Allowance::NONE,
        staged: Allowance::NONE,
    }
}

fn had(open: &OpenGrant, incarnation: Incarnation) -> Opened {
    Opened {
        session: open.session,
        ordinal: open.ordinal,
        incarnation,
        gpu: 0,
        window: open.window,
        quota: open.quota,
        epoch: 1,
        leader: bus_schemas::LeaderId(1),
        properties: None,
        traced: false,
    }
}

fn why(result: CheckResult) -> String {
    result.expect_err("it does not hold").what
}

#[test]
fn an_exclusive_worker_is_for_bound_tenants_one_at_a_time() {
    let mut places = places();
    let refused = places.granted(A, &open("free", 1, 1));
    assert!(why(refused).contains("of group batch"));
    for (session, tenant) in [(2, "one"), (3, "one"), (4, "two")] {
        assert_eq!(places.granted(A, &open(tenant, session, session)), Ok(()));
    }
    let mut device = |session, open| places.device(0, A, SessionId(session), open);
    assert_eq!(device(2, true), Ok(()));
    assert_eq!(device(3, true), Ok(()), "its own are no others");
    assert_eq!(device(2, false), Ok(()));
    assert!(why(device(4, true)).contains("exclusive worker 0"));
    assert_eq!(device(3, false), Ok(()));
    assert_eq!(device(4, true), Ok(()));
}

#[test]
fn several_devices_are_those_granted_and_apart() {
    let granted = [open("one", 1, 100), open("one", 2, 101)];
    let judged = |change: &dyn Fn(&mut Vec<Opened>)| {
        let mut places = places();
        places.asked(0, client(), name("one"), 2);
        places.granted(A, &granted[0]).unwrap();
        places.granted(B, &granted[1]).unwrap();
        let mut devices = vec![had(&granted[0], A), had(&granted[1], B)];
        change(&mut devices);
        places.had(client().0, client().1, &devices)
    };
    assert_eq!(judged(&|_| ()), Ok(()));
    assert!(why(judged(&|all| drop(all.pop()))).contains("had 1"));
    assert!(why(judged(&|all| all.swap(0, 1))).contains("and granted"));
    assert!(why(judged(&|all| all[1].incarnation = A)).contains("and granted"));
    assert!(why(judged(&|all| all[1] = all[0].clone())).contains("and granted"));
    // Such as a leader might grant them.
    let mut places = places();
    places.asked(0, client(), name("one"), 2);
    for grant in &granted {
        places.granted(B, grant).unwrap();
    }
    let devices = granted.each_ref().map(|grant| had(grant, B));
    let one = places.had(client().0, client().1, &devices);
    assert!(why(one).contains("not apart"));
}

#[test]
fn who_is_refused_or_waits_could_not_have_had_a_place() {
    let mut places = places();
    places.asked(0, client(), name("free"), 2);
    assert_eq!(places.declined(NEWS, client(), Code::TooFewWorkers), Ok(()));
    assert_eq!(places.finish(), Ok(()), "there is one worker for it");
    places.asked(NEWS, (NodeId(9), 300), name("two"), 2);
    let soon = places.declined(NEWS + 1, (NodeId(9), 300), Code::NoWorker);
    assert_eq!(soon, Ok(()), "nobody knows everything at once");
    let late = places.declined(2 * NEWS, (NodeId(9), 300), Code::NoWorker);
    assert!(why(late).contains("2 workers could"));
    assert_eq!(places.finish().unwrap_err().invariant, "liveness");
    // Another tenant has the exclusive worker.
    places.granted(A, &open("one", 1, 1)).unwrap();
    places.device(NEWS, A, SessionId(1), true).unwrap();
    let late = places.declined(9 * NEWS, (NodeId(9), 300), Code::Occupied);
    assert_eq!((late, places.finish()), (Ok(()), Ok(())));
    places.worker_died(9 * NEWS, A);
    assert_eq!(places.finish(), Ok(()));
}

#[test]
fn a_device_is_lost_where_it_died_or_a_leader_said_so() {
    let mut places = places();
    places.granted(A, &open("one", 1, 1)).unwrap();
    assert_eq!(places.failed(SessionId(1), Code::Expired), Ok(()));
    assert!(why(places.failed(SessionId(1), Code::DeviceLost)).contains("lost"));
    places.lost(Incarnation(99));
    assert!(places.failed(SessionId(1), Code::DeviceLost).is_err());
    places.lost(A);
    assert_eq!(places.failed(SessionId(1), Code::DeviceLost), Ok(()));
    places.granted(B, &open("one", 2, 1)).unwrap();
    places.worker_died(1, B);
    assert_eq!(places.failed(SessionId(2), Code::DeviceLost), Ok(()));
}
