//! Bytes that several sessions hold alike, stored once.
//!
//! A large copy from the host is looked at in **units** of [`UNIT`] bytes. Units with equal bytes
//! lie in one **slot** of the [`Store`], and every session that holds one has the slot's pages at
//! its own address, copied by the kernel for whoever writes to them. The [`Book`] says who shares
//! what and who is charged how much; the [`Index`] remembers where bytes like those that come may
//! lie already; the [`Pagemap`] says which pages were written since.

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
