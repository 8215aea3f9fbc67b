//! The client's decisions: outbox, credit, resend, addresses; pure.
//!
//! An [`Outbox`] is one session's program order on its way to the worker and the leader. Its caller
//! pushes ops, passes it every message received and every timer that fired, and carries out the
//! [`Action`]s that it returns:
//!
//! ```
//! use bus_schemas::{KernelKey, LeaderId, Op, SessionId};
//! use client_agent_core::{Action, Event, Outbox, OutboxSettings};
//!
//! let mut outbox = Outbox::new(OutboxSettings::new(SessionId(7), 1, LeaderId(9)));
//! let mut actions = Vec::new();
//! let op = outbox.push(&Op::Sync, 0, &[], KernelKey(0))?;
//! if outbox.wants_flush() {
//!     outbox.handle(0, Event::Flush, &mut actions);
//! }
//! assert_eq!(op, 1);
//! assert!(matches!(actions[0], Action::PublishIntent { .. }));
//! assert!(matches!(actions[1], Action::PublishBatch { .. }));
//! # Ok::<(), client_agent_core::PushError>(())
//! ```
//!
//! [`Addresses`] picks the device addresses of a session's allocations, so that an allocation
//! needs no round trip.

// A panic here is a panic in the user's program, so each possible place is named, with its reason.
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

mod address;
mod buffer;
mod column;
mod commitment;
mod event;
mod exchange;
mod outbox;
mod requests;
mod result;
mod retry;
mod run;
mod transfer;

pub use address::Addresses;
pub use commitment::{Asked, Commitment, KnownMemory};
pub use event::{Action, Event, Nanos, OutboxSettings, PushError};
pub use exchange::Exchange;
pub use outbox::Outbox;
pub use requests::{Caller, Requests};
