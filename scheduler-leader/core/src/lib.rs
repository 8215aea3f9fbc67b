//! The scheduler, a pure core that weaves all tenants' ops into one deterministic order, and the
//! protocol core of the leader around it. No clock, no randomness, no I/O.
//!
//! * [`Scheduler`]: `apply(input) -> effects`, the decisions. Its policy is in `policy/`.
//! * [`Leader`]: election, term, sealing, grant streams, the record; takes events, gives actions.
//! * [`KernelQueue`]: one session's intents in op order and its credit.
//! * [`LeaderNode`]: a `Leader` with its queues behind one `message`/`handle`, as simulation and
//!   tests drive it; the actix shell runs the same two cores as actors.
//! * [`Unstored`]: the record's blocks that the broker has not stored, with every candidate.
//! * [`replay`]: recomputes the order from recorded blocks.
//! * [`why`]: the causes of launches' waits and of devices' idle time, from the same blocks.

// A panic ends the leader of a whole cluster: each place that can panic is named, with its reason.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod by_priority;
mod effect;
mod ids;
mod input;
mod leader;
mod node;
mod policy;
mod queue;
pub mod replay;
mod scheduler;
mod slots;
mod time;
mod unstored;
pub mod why;

pub use effect::{Effect, EndCause, TenantShare};
pub use input::{Input, Profile, Rows, Takeover, WorkerReport};
pub use leader::{
    Action, Event, Leader, LeaderConfig, Lease, Missed, Placement, Servers, StateSnapshot, TermEnd,
};
pub use node::LeaderNode;
pub use policy::{ORDER_VERSION, TICK_NS};
pub use queue::{KernelQueue, QueueAction, QueueEvent, QueueOpening, QueueProgress};
pub use scheduler::{
    FlowInspection, FlowView, Inspection, Scheduler, SessionInspection, SessionView,
    TenantInspection, TenantPlace, TenantView, WorkerInspection, WorkerView,
};
pub use time::Nanos;
pub use unstored::{HandedOver, Handover, TermId, Unstored, UnstoredBlock};
