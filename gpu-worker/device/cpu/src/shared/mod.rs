//! Equal bytes of several sessions, stored once.
//!
//! A large copy from the host is handled in **units** of [`UNIT`] bytes. Units with equal bytes are
//! in one **slot** of the [`Store`]. Every session that holds one maps the slot's pages at its own
//! address; the kernel copies a page for a session that writes to it. The [`Book`] records the
//! sharers of each slot and their charges. The [`Index`] remembers places where the bytes of a copy
//! may already be. The [`Pagemap`] tells which pages were written since.

mod book;
mod index;
mod looks;
mod parted;
mod store;
mod unit;
mod written;

pub(crate) use book::{Book, Unit};
pub(crate) use index::{Index, Key, Place};
pub(crate) use looks::Looks;
pub(crate) use parted::Parted;
pub(crate) use store::{Slot, Store, StoreKeeper};
pub(crate) use unit::{LEAST, UNIT, mappings};
pub(crate) use written::Pagemap;
