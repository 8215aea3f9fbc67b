//! The worker's decisions, pure: what starts when ([`sequencer`]), when the device gets it
//! ([`dispatch`]), who has which images of modules ([`images`]), who may hold how much memory
//! ([`pager`]), what of it other sessions may use ([`exports`]),
//! what of it are weights that others may have too ([`weights`]), who used what
//! ([`meter`], and in blocks for the record [`ledger`]). Pager, meter and the claim that waits are
//! one for the shells: [`resources`], which also says what each tenant has ([`memory_report`]).
//!
//! Each is a state machine that takes events and answers with actions. None reads a
//! clock, draws a random number, iterates a hash map or does I/O: `now` is handed in.

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
pub mod resources;
mod send_on_change;
pub mod sequencer;
mod times;
pub mod weights;

pub use answer_rate::AnswerRate;
pub use dispatch::Dispatch;
pub use exports::Exports;
pub use images::ImageTable;
pub use meter::Meter;
pub use pager::Pager;
pub use quota_list::QuotaList;
pub use resources::Resources;
pub use send_on_change::SendOnChange;
pub use sequencer::Sequencer;
pub use weights::WeightTable;

/// Nanoseconds on the shell's monotonic clock.
pub type Nanos = u64;
