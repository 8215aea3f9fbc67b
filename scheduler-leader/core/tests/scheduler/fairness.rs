//! Shares in measured time: for kernels that differ from their estimates, and under caps.

use bus_schemas::{ClusterSettings, Grant, GrantKind, Incarnation, SessionId, TenantSettings};
use scheduler_leader_core::{Input, TICK_NS};

use crate::model::{Model, launches};

const WORKER: Incarnation = Incarnation(100);

/// Two tenants with endless work: the first launches `kernels[0]`, the second `kernels[1]`.
fn rivals(tenants: [TenantSettings; 2], kernels: [usize; 2]) -> (Model, [SessionId; 2]) {
    let mut model = Model::new(ClusterSettings::default(), tenants.to_vec(), 1);
    let sessions = [0, 1].map(|index| model.open(index).unwrap());
    for (session, kernel) in sessions.iter().zip(kernels) {
        more(&mut model, *session, kernel);
    }
    (model, sessions)
}

/// A hundred thousand further launches.
fn more(model: &mut Model, session: SessionId, kernel: usize) {
    model.submit(session, &[launches(kernel, 100_000)], true);
    model.announce(session, 100_000);
}

/// Work of this session takes forty times its charge.
fn lying(session: SessionId) -> Box<dyn Fn(&Grant) -> u64> {
    Box::new(move |grant| match grant.session == session {
        true => grant.cost * 40,
        false => grant.cost,
    })
}

fn weighted(weights: [u32; 2]) -> [TenantSettings; 2] {
    weights.map(|weight| TenantSettings {
        weight,
        ..TenantSettings::default()
    })
}

/// Measured time of each session until this much time has passed.
fn served(
    model: &mut Model,
    sessions: &[SessionId; 2],
    kernels: [usize; 2],
    until: u64,
) -> [u64; 2] {
    let mut served = [0; 2];
    while served.iter().sum::<u64>() < until {
        let head = model.workers[&WORKER].queue.front().copied();
        let (_, grant) = head.expect("there is always work");
        if let Some(of) = sessions.iter().position(|id| *id == grant.session)
            && grant.kind == GrantKind::Run
        {
            served[of] += (model.measure)(&grant);
            let view = model.scheduler.session(grant.session).expect("it lives");
            if view.queued - view.granted < 1_000 {
                more(model, grant.session, kernels[of]);
            }
        }
        model.run(WORKER, 1);
    }
    served
}

fn share(served: [u64; 2]) -> f64 {
    served[0] as f64 / (served[0] + served[1]) as f64
}

/// Two seconds, nanoseconds.
const LONG: u64 = 2_000_000_000;

#[test]
fn whoever_takes_longer_than_estimated_gets_its_share_and_no_more() {
    let (mut model, sessions) = rivals(weighted([1, 1]), [1, 2]);
    // Estimated 7 microseconds, takes 280.
    model.measure = lying(sessions[0]);
    let share = share(served(&mut model, &sessions, [1, 2], LONG));
    assert!((share - 0.5).abs() < 0.025, "{share}");
}

#[test]
fn a_kernel_that_varies_a_thousandfold_gets_its_share() {
    let (mut model, sessions) = rivals(weighted([3, 1]), [3, 2]);
    // The profile has the mean; single launches take a thousandth of it or many times it.
    let varied = sessions[0];
    model.measure = Box::new(move |grant| {
        let drawn = grant.first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        match (grant.session == varied, drawn) {
            (true, 0..64) => grant.cost * 4 - grant.cost * 3 / 250,
            (true, _) => grant.cost / 250,
            (false, _) => grant.cost,
        }
    });
    let share = share(served(&mut model, &sessions, [3, 2], LONG));
    assert!((share - 0.75).abs() < 0.75 * 0.05, "{share}");
}

#[test]
fn without_settling_lies_pay() {
    let (mut model, sessions) = rivals(weighted([1, 1]), [1, 2]);
    let settings = ClusterSettings {
        settle: false,
        ..ClusterSettings::default()
    };
    model.apply(Input::Settings(settings));
    model.measure = lying(sessions[0]);
    let share = share(served(&mut model, &sessions, [1, 2], LONG));
    assert!(share > 0.9, "what settling is there for: {share}");
}

#[test]
fn well_estimated_work_is_ordered_as_without_settling() {
    let grants = |settle| {
        let (mut model, sessions) = rivals(weighted([2, 5]), [1, 3]);
        let settings = ClusterSettings {
            settle,
            ..ClusterSettings::default()
        };
        model.apply(Input::Settings(settings));
        // Noise of a tenth, both ways.
        model.measure = Box::new(|grant| match grant.first % 3 {
            0 => grant.cost * 9 / 10,
            1 => grant.cost * 11 / 10,
            _ => grant.cost,
        });
        served(&mut model, &sessions, [1, 3], LONG / 4);
        let of = |(_, position, grant): &(Incarnation, u64, Grant)| {
            (*position, grant.session, grant.first, grant.last)
        };
        model.grants.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(grants(true), grants(false));
}

#[test]
fn a_cap_is_kept_alone_and_among_others() {
    for other in [false, true] {
        let capped = TenantSettings {
            cap: 30,
            priority: 1,
            ..TenantSettings::default()
        };
        let (mut model, sessions) = rivals([capped, TenantSettings::default()], [2, 2]);
        if !other {
            let close = Input::SessionClose {
                session: sessions[1],
                after: 0,
                reason: bus_schemas::CloseReason::Killed,
            };
            model.apply(close);
        }
        let (mut served, mut clock, mut tick) = ([0u64; 2], 0u64, TICK_NS);
        while clock < LONG {
            // The device runs the granted work; without work, time passes until the tick.
            match model.workers[&WORKER].queue.front().copied() {
                Some((_, grant)) => {
                    let of = usize::from(grant.session == sessions[1]);
                    served[of] += grant.cost;
                    clock += grant.cost;
                    model.run(WORKER, 1);
                    let view = model.scheduler.session(grant.session);
                    if view.is_some_and(|view| !view.closing && view.queued - view.granted < 1_000)
                    {
                        more(&mut model, grant.session, 2);
                    }
                }
                None => clock = tick,
            }
            while clock >= tick {
                model.apply(Input::Tick);
                tick += TICK_NS;
            }
        }
        let share = served[0] as f64 / clock as f64;
        assert!((0.29..0.31).contains(&share), "{share} of the device");
        assert!(!other || served[1] as f64 / clock as f64 > 0.68);
    }
}
