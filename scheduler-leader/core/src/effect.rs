//! The decisions of the order.

use bus_schemas::{
    CloseReason, Code, GpuId, GpuPosition, Grant, Incarnation, OpNumber, OpenGrant, SessionId,
    Tenant, Window,
};

/// The reason why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// Its close grant was carried out.
    Closed(CloseReason),
    /// Its worker is lost.
    Lost,
}

/// A session on its worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The nonce of the request that opened it; for a further device, one of the numbers after it.
    pub nonce: u64,
    /// Its index among the request's devices, from 0.
    pub device: u32,
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among all sessions that the tenant ever had, from 1.
    pub ordinal: u64,
    /// The worker.
    pub incarnation: Incarnation,
    /// The device of that worker.
    pub gpu: GpuId,
    /// The session's addresses.
    pub window: Window,
    /// Memory the tenant may hold there, bytes.
    pub quota: u64,
}

/// A tenant's share of a limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShare {
    /// Amount that the tenant has.
    pub used: u64,
    /// Amount that the request would add.
    pub wanted: u64,
    /// Maximum that the tenant may have.
    pub limit: u64,
}

/// One decision of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A grant at a worker's next position.
    Grant {
        /// The worker.
        incarnation: Incarnation,
        /// The gpu position.
        position: GpuPosition,
        /// The grant.
        grant: Grant,
        /// For an open grant, what the worker needs to know of the session.
        open: Option<Box<OpenGrant>>,
    },
    /// A session was placed; its open grant is the `Grant` effect before this one.
    Opened {
        /// The session.
        placed: Placed,
        /// The open grant's position.
        position: GpuPosition,
    },
    /// A session cannot be opened.
    Refused {
        /// The request.
        nonce: u64,
        /// Its tenant.
        tenant: Tenant,
        /// The reason.
        code: Code,
        /// The tenant's use of its limit, if a limit of the tenant is the reason.
        share: Option<TenantShare>,
    },
    /// A sealed worker's session goes on: its client must send intents above `queued`.
    Resumed {
        /// The session.
        placed: Placed,
        /// Ops that need no intent any more.
        queued: OpNumber,
    },
    /// The ops that a session ran differ from those that its client announced: the session is
    /// closed.
    Lied {
        /// The session.
        session: SessionId,
    },
    /// The session's close grant was decided: nothing more of it will be granted.
    Closing {
        /// The session.
        session: SessionId,
        /// The reason.
        reason: CloseReason,
    },
    /// The session has ended.
    Ended {
        /// The session.
        session: SessionId,
        /// Its tenant.
        tenant: Tenant,
        /// The cause.
        cause: EndCause,
    },
}
