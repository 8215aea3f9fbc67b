//! The worker's decisions, as pure state machines. [`worker`] owns the others, and is what a shell drives:
//! - [`sequencer`]: the order in which slices start,
//! - [`dispatch`]: the time at which the device gets them,
//! - [`images`]: the images of modules that each session has,
//! - [`pager`]: the memory that each session may hold,
//! - [`exports`]: the memory that other sessions may use,
//! - [`weights`]: the memory that holds weights which other tenants may have too,
//! - [`meter`]: usage, and in blocks for the record [`ledger`].
//!
//! Pager, meter and the waiting claim are one part of the worker: [`resources`], which also reports each
//! tenant's memory ([`memory_report`]).
//!
//! The state machines take events and return actions. None reads a clock, draws a random number, iterates a
//! hash map or does I/O: `now` is handed in.

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

pub mod answer_rate;
pub mod busy;
pub mod content;
pub mod dispatch;
pub mod exports;
pub mod images;
pub mod kept_keys;
pub mod ledger;
pub mod memory_report;
pub mod meter;
pub mod pager;
pub mod quota_list;
pub mod rejection_rate;
pub mod resources;
mod send_on_change;
pub mod sequencer;
pub mod sharing_domains;
mod times;
pub mod weights;
pub mod worker;

pub use answer_rate::AnswerRate;
pub use dispatch::Dispatch;
pub use exports::Exports;
pub use images::ImageTable;
pub use meter::Meter;
pub use pager::Pager;
pub use quota_list::QuotaList;
pub use rejection_rate::RejectionRate;
pub use resources::Resources;
pub use send_on_change::SendOnChange;
pub use sequencer::Sequencer;
pub use weights::WeightTable;
pub use worker::Worker;

/// Nanoseconds on the shell's monotonic clock.
pub type Nanos = u64;
