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
    /// The request that opened it; of a further device the number behind it.
    pub nonce: u64,
    /// Its index among the request's devices, from 0.
    pub device: u32,
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among all that the tenant ever had, from 1.
    pub ordinal: u64,
    /// The worker.
    pub incarnation: Incarnation,
    /// That worker's device.
    pub gpu: GpuId,
    /// The session's addresses.
    pub window: Window,
    /// Memory the tenant may hold there, bytes.
    pub quota: u64,
}

/// A tenant's share of a limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShare {
    /// What it has.
    pub used: u64,
    /// What the request would add.
    pub wanted: u64,
    /// What it may have.
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
        /// Why.
        code: Code,
        /// Where it is the tenant's limit: what it has of it.
        share: Option<TenantShare>,
    },
    /// A sealed worker's session goes on: its client is to send intents above `queued`.
    Resumed {
        /// The session.
        placed: Placed,
        /// Ops that need no intent any more.
        queued: OpNumber,
    },
    /// The ops that a session ran are not those that its client announced: it is closed.
    Lied {
        /// The session.
        session: SessionId,
    },
    /// The session's close grant was decided: nothing more of it will be granted.
    Closing {
        /// The session.
        session: SessionId,
        /// Why.
        reason: CloseReason,
    },
    /// The session is no more.
    Ended {
        /// The session.
        session: SessionId,
        /// Its tenant.
        tenant: Tenant,
        /// Why.
        cause: EndCause,
    },
}
