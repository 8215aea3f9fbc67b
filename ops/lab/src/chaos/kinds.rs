//! The kinds of programs in a run.

use bus_schemas::{Tenant, TenantSettings};

/// Sessions of the idle program: enough to have some on each worker.
const IDLE: usize = 4;

/// A kind of program.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// Its tenant.
    pub(super) tenant: Tenant,
    /// The tenant's priority.
    pub(super) priority: u8,
    /// True if it keeps one session, false if it opens sessions of about 10 ms one after the other.
    pub(super) long: bool,
    /// Bytes that each of its sessions holds beside its working memory.
    pub(super) holds: u64,
    /// Number of sessions on which it makes no call; 0 if it works.
    pub(super) idle: usize,
    /// Seed of its secret, if it sends requests.
    pub(super) requests: Option<u64>,
}

impl Kind {
    /// The tenant's settings.
    pub(super) fn settings(&self) -> TenantSettings {
        TenantSettings {
            priority: self.priority,
            ..TenantSettings::default()
        }
    }
}

/// The programs of a run: short and long sessions, of higher, lower and equal priorities.
///
/// If memory is to be swapped, all but the urgent program hold `held` bytes and share one priority.
/// Otherwise programs with work would keep a device's memory from those of lower priority.
pub(super) fn kinds(held: Option<u64>) -> Vec<Kind> {
    let kind = |tenant: &str, priority, long| Kind {
        tenant: tenant.parse().expect("a tenant's name"),
        priority: match (held, priority) {
            (None, priority) | (Some(_), priority @ 0) => priority,
            (Some(_), _) => 2,
        },
        long,
        holds: held.filter(|_| priority > 0).unwrap_or(0),
        idle: 0,
        requests: None,
    };
    let idle = Kind {
        holds: 0,
        idle: IDLE,
        ..kind("idle", 2, true)
    };
    vec![
        kind("brief", 2, false),
        kind("burst", 1, false),
        kind("steady", 2, true),
        kind("urgent", 0, true),
        kind("batch", 4, true),
        idle,
    ]
}

/// The programs of a hostile tenant's neighbour: one sends requests, one computes, and one waits for
/// nothing.
pub(super) fn neighbours(tenant: &Tenant, secret: u64) -> Vec<Kind> {
    let kind = |requests, idle| Kind {
        tenant: tenant.clone(),
        priority: 2,
        long: true,
        holds: 0,
        idle,
        requests,
    };
    vec![kind(Some(secret), 0), kind(None, 0), kind(None, IDLE)]
}

/// Number of programs that are struck: all but the last, which reports what happens to workers.
pub(super) fn struck() -> usize {
    kinds(None).len() - 1
}
