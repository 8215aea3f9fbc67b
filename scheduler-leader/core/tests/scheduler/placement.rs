//! Placement of sessions, by the scheduler's facts about the workers.

use bus_schemas::{
    CloseReason, ClusterSettings, Groups, Incarnation, SessionId, Tenant, TenantSettings,
    WeightSample,
};
use scheduler_leader_core::{Effect, Input, Rows, WorkerReport};

use crate::model::{Model, launches, tenant};

const GIB: u64 = 1 << 30;

fn name(text: &str) -> Tenant {
    text.parse().unwrap()
}

fn worker(gpu: u64) -> Incarnation {
    Incarnation(100 + gpu)
}

fn model(tenants: usize, workers: u32) -> Model {
    let tenants = vec![TenantSettings::default(); tenants];
    Model::new(ClusterSettings::default(), tenants, workers)
}

fn report(model: &mut Model, gpu: u64, report: WorkerReport) {
    let incarnation = worker(gpu);
    model.apply(Input::Report {
        incarnation,
        report,
    });
}

fn grouped(group: &str, exclusive: bool) -> WorkerReport {
    WorkerReport {
        group: name(group),
        exclusive,
        ..WorkerReport::default()
    }
}

fn bind(model: &mut Model, index: usize, groups: &[&str]) {
    model.tenants[index].groups = Groups::new(groups.iter().map(|it| name(it))).unwrap();
    let settings = Some(model.tenants[index].clone());
    let tenant = tenant(index);
    model.apply(Input::TenantSet { tenant, settings });
}

/// Opens sessions on this many devices: returns their workers, or the refusal's code.
fn open(model: &mut Model, index: usize, devices: u32) -> Result<Vec<u64>, &'static str> {
    model.nonce += 100;
    let (tenant, nonce) = (tenant(index), model.nonce);
    let effects = model.apply(Input::SessionOpen {
        tenant,
        nonce,
        devices,
        wide: false,
    });
    let mut placed = Vec::new();
    for effect in effects {
        match effect {
            Effect::Refused { code, .. } => return Err(code.name()),
            Effect::Opened { placed: one, .. } => {
                assert_eq!(one.device as usize, placed.len());
                assert_eq!(one.nonce, nonce + placed.len() as u64);
                placed.push(one.incarnation.0 - 100);
            }
            _ => {}
        }
    }
    Ok(placed)
}

fn close(model: &mut Model, session: SessionId) {
    let (after, reason) = (0, CloseReason::Asked);
    model.apply(Input::SessionClose {
        session,
        after,
        reason,
    });
    for gpu in 0..3 {
        if model.workers.contains_key(&worker(gpu)) {
            while model.run(worker(gpu), 8) > 0 {}
        }
    }
}

#[test]
fn the_emptier_worker_first_then_the_lower_number() {
    let mut model = model(1, 3);
    let placed: Vec<_> = (0..6).map(|_| open(&mut model, 0, 1).unwrap()[0]).collect();
    assert_eq!(placed, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn several_devices_are_several_workers_or_none() {
    let mut model = model(1, 3);
    assert_eq!(open(&mut model, 0, 2), Ok(vec![0, 1]));
    let windows: Vec<_> = model.sessions.values().map(|it| it.window).collect();
    assert!(windows[0].end() <= windows[1].base, "one program uses both");
    assert_eq!(open(&mut model, 0, 3), Ok(vec![2, 0, 1]));
    assert_eq!(open(&mut model, 0, 4), Err("E-CLUSTER-DEVICES"));
    assert_eq!(model.sessions.len(), 5, "nothing of what was refused");
    model.tenants[0].sessions = 7;
    let settings = Some(model.tenants[0].clone());
    let tenant = tenant(0);
    model.apply(Input::TenantSet { tenant, settings });
    assert_eq!(open(&mut model, 0, 3), Err("E-TENANT-SESSIONS"));
    assert!(open(&mut model, 0, 2).is_ok());
}

#[test]
fn tenants_bound_to_groups_go_there_and_others_not_into_exclusive_ones() {
    let mut model = model(3, 3);
    report(&mut model, 0, grouped("batch", true));
    report(&mut model, 1, grouped("batch", true));
    bind(&mut model, 0, &["batch"]);
    bind(&mut model, 1, &["other", "batch"]);
    assert_eq!(open(&mut model, 0, 1), Ok(vec![0]));
    // One tenant at a time; its own further sessions spread as usual.
    assert_eq!(open(&mut model, 1, 1), Ok(vec![1]));
    assert_eq!(open(&mut model, 0, 1), Ok(vec![0]));
    assert_eq!(open(&mut model, 0, 2), Err("E-CLUSTER-DEVICES"));
    assert_eq!(open(&mut model, 2, 1), Ok(vec![2]), "bound to no group");
    bind(&mut model, 2, &["batch"]);
    assert_eq!(open(&mut model, 2, 1), Err("E-CLUSTER-OCCUPIED"));
    bind(&mut model, 2, &["none"]);
    assert_eq!(open(&mut model, 2, 1), Err("E-CLUSTER-GROUP"));
    // Once that tenant is gone, another one may have the worker.
    bind(&mut model, 2, &["batch"]);
    let second = *model.sessions.keys().nth(1).unwrap();
    close(&mut model, second);
    assert_eq!(open(&mut model, 2, 1), Ok(vec![1]));
}

#[test]
fn memory_counts_as_it_was_reported() {
    let mut model = model(2, 2);
    let held = |held| WorkerReport {
        held,
        ..WorkerReport::default()
    };
    report(&mut model, 0, held(6 * GIB));
    assert_eq!(open(&mut model, 0, 1), Ok(vec![1]), "more is free");
    // The quota fits on neither by now, except where less is held.
    report(&mut model, 1, held(2 * GIB));
    report(&mut model, 0, held(GIB));
    model.tenants[1].quota = 7 * GIB;
    let settings = Some(model.tenants[1].clone());
    let tenant = tenant(1);
    model.apply(Input::TenantSet { tenant, settings });
    assert_eq!(open(&mut model, 1, 1), Ok(vec![0]));
    report(&mut model, 0, held(8 * GIB));
    report(&mut model, 1, held(8 * GIB));
    assert_eq!(open(&mut model, 0, 1), Err("E-CLUSTER-MEMORY"));
}

#[test]
fn images_that_a_tenant_uses_draw_it_whoever_brought_them() {
    let mut model = model(2, 3);
    let images = |tenants: &[(usize, u64)]| WorkerReport {
        images: Rows(
            tenants
                .iter()
                .map(|(of, image)| (tenant(*of), *image))
                .collect(),
        ),
        ..WorkerReport::default()
    };
    report(&mut model, 0, images(&[(0, 7)]));
    report(&mut model, 2, images(&[(1, 7), (1, 7), (1, 8)]));
    // Tenant 0 uses image 7, which device 2 has from another tenant.
    assert_eq!(open(&mut model, 0, 2), Ok(vec![0, 2]));
    assert_eq!(open(&mut model, 0, 1), Ok(vec![1]), "load counts for more");
    report(&mut model, 2, images(&[(1, 8)]));
    assert_eq!(
        open(&mut model, 0, 3),
        Ok(vec![0, 1, 2]),
        "it has it no more"
    );
}

#[test]
fn weights_that_a_tenant_uses_draw_it_where_most_of_them_are() {
    let mut model = model(3, 3);
    let weights = |rows: &[(usize, u64, u64)]| WorkerReport {
        weights: Rows(
            rows.iter()
                .map(|(of, fingerprint, mib)| WeightSample {
                    tenant: tenant(*of),
                    fingerprint: *fingerprint,
                    bytes: mib << 20,
                })
                .collect(),
        ),
        ..WorkerReport::default()
    };
    // Tenant 0 used weights 7 and 8, which are there no more; others hold them elsewhere.
    report(&mut model, 0, weights(&[(0, 7, 0), (0, 8, 0), (2, 9, 99)]));
    report(
        &mut model,
        1,
        weights(&[(1, 7, 64), (1, 7, 64), (2, 7, 64)]),
    );
    report(
        &mut model,
        2,
        weights(&[(1, 7, 64), (1, 8, 64), (1, 9, 64)]),
    );
    assert_eq!(open(&mut model, 0, 3), Ok(vec![2, 1, 0]));
    assert_eq!(open(&mut model, 2, 2), Ok(vec![2, 0]), "128 MiB and 99");
    assert_eq!(open(&mut model, 2, 1), Ok(vec![1]), "load counts for more");
    assert_eq!(model.sessions.len(), 6);
    report(&mut model, 1, WorkerReport::default());
    report(&mut model, 2, WorkerReport::default());
    assert_eq!(open(&mut model, 0, 2), Ok(vec![0, 1]), "nobody has them");
}

#[test]
fn work_of_late_counts_as_sessions_do_until_it_is_long_ago() {
    let mut model = model(2, 2);
    assert_eq!(open(&mut model, 0, 1), Ok(vec![0]));
    assert_eq!(open(&mut model, 0, 1), Ok(vec![1]));
    let busy = *model.sessions.keys().next().unwrap();
    // 300 ms of a second: as much as one more session.
    model.submit(busy, &[launches(5, 250)], true);
    while model.sessions[&busy].done < 250 {
        model.announce(busy, 50);
        model.run(worker(0), 8);
    }
    assert_eq!(model.scheduler.worker(worker(0)).unwrap().busy, 30);
    assert_eq!(open(&mut model, 1, 1), Ok(vec![1]));
    let late = *model.sessions.keys().last().unwrap();
    close(&mut model, late);
    assert!(model.scheduler.has_recent());
    (0..200).for_each(|_| {
        model.apply(Input::Tick);
    });
    assert_eq!(model.scheduler.worker(worker(0)).unwrap().busy, 0);
    assert!(!model.scheduler.has_recent(), "time may stand still again");
    assert_eq!(open(&mut model, 1, 1), Ok(vec![0]));
}

#[test]
fn who_joins_gets_sessions_at_once_and_who_drains_or_is_lost_none() {
    let mut model = model(1, 2);
    (0..4).for_each(|_| {
        open(&mut model, 0, 1).unwrap();
    });
    let mut new: crate::model::Worker = model.workers[&worker(1)].clone();
    (new.gpu, new.position, new.global) = (2, 0, 0);
    (new.chain, new.reports) = (bus_schemas::Chain::default(), 0);
    new.queue.clear();
    (new.open, new.told) = (false, Vec::new());
    model.workers.insert(worker(2), new);
    let (incarnation, answer) = (worker(2), Box::new(model.seal(worker(2))));
    model.apply(Input::WorkerSealed {
        incarnation,
        answer,
    });
    assert_eq!(open(&mut model, 0, 1), Ok(vec![2]));
    model.apply(Input::Draining {
        incarnation,
        draining: true,
    });
    assert_eq!(open(&mut model, 0, 1), Ok(vec![0]));
    assert_eq!(open(&mut model, 0, 3), Err("E-CLUSTER-DEVICES"));
    model.apply(Input::Draining {
        incarnation,
        draining: false,
    });
    assert_eq!(open(&mut model, 0, 1), Ok(vec![2]));
    // The same holds for a worker that an administrator drains.
    let cordon = |cordoned| Input::Cordon {
        incarnation,
        cordoned,
    };
    let effects = model.apply(cordon(true));
    assert!(effects.is_empty(), "what is there goes on");
    assert_eq!(open(&mut model, 0, 1), Ok(vec![1]));
    assert_eq!(open(&mut model, 0, 3), Err("E-CLUSTER-DEVICES"));
    let view = model.scheduler.worker(incarnation).unwrap();
    assert!(view.cordoned && !view.draining);
    model.apply(cordon(false));
    assert_eq!(open(&mut model, 0, 1), Ok(vec![2]));
    // A report of a lost worker changes nothing.
    let (left, accepted) = (false, 0);
    model.scheduler.apply(
        &Input::WorkerLost {
            incarnation,
            left,
            accepted,
            chain: None,
        },
        &mut Vec::new(),
    );
    model.twin = scheduler_leader_core::Scheduler::new();
    let mut effects = Vec::new();
    model.scheduler.apply(
        &Input::Report {
            incarnation,
            report: grouped("x", true),
        },
        &mut effects,
    );
    assert!(
        effects.is_empty()
            && model
                .scheduler
                .worker(incarnation)
                .is_some_and(|it| it.report.group == name("default"))
    );
}

#[test]
fn memory_that_is_overcommitted_has_room_beyond_the_device() {
    let mut model = model(2, 2);
    let held = |held| WorkerReport {
        held,
        ..WorkerReport::default()
    };
    for gpu in 0..2 {
        report(&mut model, gpu, held(8 * GIB));
    }
    assert_eq!(open(&mut model, 0, 1), Err("E-CLUSTER-MEMORY"));
    // Sessions may hold 16 GiB there.
    model.tell_memory(worker(1), 0, Vec::new());
    assert_eq!(open(&mut model, 0, 1), Ok(vec![1]));
    let session = model.sessions.values().next().unwrap();
    let view = model.scheduler.worker(session.worker).unwrap();
    assert_eq!((view.capacity, view.free), (16 * GIB, 8 * GIB));
    let opened = model.scheduler.devices(&tenant(0)).unwrap();
    let quotas = opened.iter().map(|it| it.quota);
    assert_eq!(
        quotas.collect::<Vec<_>>(),
        [8 * GIB; 2],
        "one session's is the device's"
    );
}
