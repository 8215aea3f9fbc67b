//! No tenant takes all sessions or addresses: the rest is for the other tenants.

use bus_schemas::{CloseReason, ClusterSettings, SessionId, TenantSettings, Window, limits};
use proptest::prelude::*;
use scheduler_leader_core::{Effect, Input, TenantShare};

use crate::model::{Model, tenant};

const TIB: u64 = 1 << 40;

fn set(model: &mut Model, index: usize, settings: TenantSettings) {
    model.tenants[index] = settings.clone();
    model.apply(Input::TenantSet {
        tenant: tenant(index),
        settings: Some(settings),
    });
}

/// Sessions and their windows.
type Placed = Vec<(SessionId, Window)>;
/// A code, and the use of the limit if that is the tenant's.
type Refusal = (&'static str, Option<TenantShare>);

/// Opens a session on each of this many devices: returns its id and window, or the refusal's code
/// and the used share.
fn open(model: &mut Model, index: usize, devices: u32) -> Result<Placed, Refusal> {
    model.nonce += 100;
    let effects = model.apply(Input::SessionOpen {
        tenant: tenant(index),
        nonce: model.nonce,
        devices,
        wide: false,
    });
    let mut placed = Vec::new();
    for effect in effects {
        match effect {
            Effect::Refused { code, share, .. } => return Err((code.name(), share)),
            Effect::Opened { placed: one, .. } => placed.push((one.session, one.window)),
            _ => {}
        }
    }
    Ok(placed)
}

/// Opens sessions of a tenant until it is refused: returns their number, and the refusal.
fn open_all(model: &mut Model, index: usize) -> (u64, &'static str, TenantShare) {
    let mut opened = 0;
    loop {
        match open(model, index, 1) {
            Ok(_) => opened += 1,
            Err((code, share)) => return (opened, code, share.expect("a limit of the tenant")),
        }
    }
}

fn model(settings: ClusterSettings, tenants: usize, workers: u32) -> Model {
    Model::new(settings, vec![TenantSettings::default(); tenants], workers)
}

#[test]
fn by_default_no_tenant_shuts_out_another() {
    // Workers of 8 GiB: windows of 16 GiB, 512 of which are an eighth of the addresses.
    let mut model = model(ClusterSettings::default(), 5, 1);
    for index in 0..4 {
        let (opened, code, share) = open_all(&mut model, index);
        assert_eq!((opened, code), (512, "E-TENANT-ADDRESSES"));
        let whole = TenantShare {
            used: 8 * TIB,
            wanted: 16 << 30,
            limit: 8 * TIB,
        };
        assert_eq!(share, whole);
    }
    let (opened, ..) = open_all(&mut model, 4);
    assert_eq!(opened, 512, "as many as whoever came first");
}

#[test]
fn sessions_are_counted_on_all_workers_and_a_request_has_all_or_none() {
    let settings = ClusterSettings {
        tenant_sessions: 5,
        ..ClusterSettings::default()
    };
    let mut model = model(settings, 2, 3);
    let first = open(&mut model, 0, 3).unwrap();
    assert_eq!((first.len(), open(&mut model, 0, 1).unwrap().len()), (3, 1));
    let share = TenantShare {
        used: 4,
        wanted: 2,
        limit: 5,
    };
    assert_eq!(
        open(&mut model, 0, 2),
        Err(("E-TENANT-SESSIONS", Some(share)))
    );
    assert!(open(&mut model, 0, 1).is_ok() && open(&mut model, 0, 1).is_err());
    assert!(open(&mut model, 1, 3).is_ok(), "another has its own");
    // A closed session makes room.
    model.apply(Input::SessionClose {
        session: first[0].0,
        after: 0,
        reason: CloseReason::Asked,
    });
    model.settle();
    assert!(open(&mut model, 0, 1).is_ok());
    // A tenant's own setting goes before the one for all; 0 stands for the one for all.
    let own = |sessions| TenantSettings {
        sessions,
        ..TenantSettings::default()
    };
    set(&mut model, 0, own(6));
    assert!(open(&mut model, 0, 1).is_ok() && open(&mut model, 0, 1).is_err());
    set(&mut model, 0, own(0));
    assert_eq!(open(&mut model, 0, 1).unwrap_err().1.unwrap().limit, 5);
}

#[test]
fn windows_are_as_large_as_the_quota_needs() {
    let settings = ClusterSettings {
        tenant_addresses: 64 << 30,
        ..ClusterSettings::default()
    };
    let mut model = model(settings, 2, 1);
    set(
        &mut model,
        0,
        TenantSettings {
            quota: 1 << 30,
            ..TenantSettings::default()
        },
    );
    let (_, window) = open(&mut model, 0, 1).unwrap()[0];
    assert_eq!(window.size, limits::WINDOW_MIN_BYTES);
    assert_eq!(open_all(&mut model, 0).0, 31, "64 GiB of 2 GiB each");
    assert_eq!(open_all(&mut model, 1).0, 4, "64 GiB of 16 GiB each");
    set(
        &mut model,
        1,
        TenantSettings {
            addresses: 96 << 30,
            ..TenantSettings::default()
        },
    );
    assert_eq!(open_all(&mut model, 1).0, 2);
}

#[test]
fn what_was_recorded_without_limits_is_decided_without() {
    // The values of fields that a record does not have.
    let before = ClusterSettings {
        tenant_sessions: 0,
        tenant_addresses: 0,
        tenant_modules: 0,
        tenant_staged: 0,
        ..ClusterSettings::default()
    };
    let mut old = model(before.clone(), 1, 1);
    for _ in 0..1_100 {
        assert!(open(&mut old, 0, 1).is_ok());
    }
    assert_eq!(before.with_limits(), ClusterSettings::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any opens and closes of greedy tenants, and any quotas and limits: while all limits
    /// together fit, a tenant within its own limits is not refused.
    #[test]
    fn whoever_is_within_its_limits_is_admitted(
        quotas in proptest::collection::vec(0..4_u64, 3),
        steps in proptest::collection::vec((0..3_usize, any::<bool>(), any::<usize>()), 1..120),
    ) {
        let limit = 128 << 30;
        let settings = ClusterSettings { tenant_sessions: 12, tenant_addresses: limit, ..ClusterSettings::default() };
        let mut model = model(settings, 3, 2);
        for (index, quota) in quotas.iter().enumerate() {
            set(&mut model, index, TenantSettings { quota: quota << 30, ..TenantSettings::default() });
        }
        let mut live: [Vec<SessionId>; 3] = Default::default();
        for (index, opens, which) in steps {
            if !opens && !live[index].is_empty() {
                let which = which % live[index].len();
                let session = live[index].swap_remove(which);
                model.apply(Input::SessionClose { session, after: 0, reason: CloseReason::Asked });
                model.settle();
                continue;
            }
            match open(&mut model, index, 1) {
                Ok(placed) => live[index].push(placed[0].0),
                Err((code, share)) => {
                    let share = share.expect("only its own limits refuse it");
                    prop_assert!(share.used + share.wanted > share.limit, "{} {:?}", code, share);
                }
            }
            prop_assert!(live[index].len() <= 12);
        }
    }
}
