//! The kinds of programs that there are in a run.

use bus_schemas::{Tenant, TenantSettings};

/// Sessions of the idle program: enough for some on each worker.
const IDLE: usize = 4;

/// What a program is.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// Its tenant.
    pub(super) tenant: Tenant,
    /// The tenant's priority.
    pub(super) priority: u8,
    /// Whether it keeps one session, rather than one of about 10 ms after the other.
    pub(super) long: bool,
    /// Bytes that a session of it holds beside what it works on.
    pub(super) holds: u64,
    /// Sessions on which it makes no call; it works where this is 0.
    pub(super) idle: usize,
    /// It sends requests, beside the secret of this seed.
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

/// The programs of a run: short and long sessions, above, below and beside each other.
///
/// Where they are to be swapped, all but the urgent one hold so much and are beside each other: whoever has
/// work keeps the memory of a device from those below.
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

/// The programs of one tenant beside a hostile one: one that sends requests, one that computes, one that
/// waits for nothing.
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

/// How many of them are hit: all but the last, which is there to hear of what happens to workers.
pub(super) fn struck() -> usize {
    kinds(None).len() - 1
}
