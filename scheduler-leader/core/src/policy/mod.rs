//! The choice of the next slice: see `README.md` beside this file.

mod balance;
mod budget;
mod choice;
mod cost;
mod heap;
mod placement;
mod slices;
mod target;
mod turns;

pub(crate) use balance::Balance;
pub(crate) use budget::Budget;
pub use budget::TICK_NS;
pub(crate) use choice::{FETCHED, Lanes, Next};
pub(crate) use cost::{Costs, virtual_time, whole_ns};
pub(crate) use heap::{ABSENT, Entry, TagHeap};
pub(crate) use placement::{Candidate, allowed, choose};
pub(crate) use slices::{Cut, SliceQueue};
pub(crate) use target::{Limits, Peak, Presence, longest_ahead};
pub(crate) use turns::{Activity, Rank, Turns, Work};

/// The version of the rules. A record names the version that made it; replay refuses any other.
/// Rules for a new kind of input need no new version: earlier records have no such input.
pub const ORDER_VERSION: u32 = 3;
