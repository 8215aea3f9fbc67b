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
mod written;

pub(crate) use book::{Book, Unit};
pub(crate) use index::{Index, Key, Place};
pub(crate) use looks::Looks;
pub(crate) use parted::Parted;
pub(crate) use store::{Slot, Store, StoreKeeper};
pub(crate) use written::Pagemap;

use std::sync::Arc;

use crate::memory::PAGE;

/// Bytes of a unit. The last one of a copy is its whole pages that are left.
pub(crate) const UNIT: u64 = 1 << 20;
/// Bytes of the smallest last unit: each costs the host a mapping, which has to be worth it.
pub(crate) const LEAST: u64 = 16 * PAGE;

/// The store of a device whose sessions hold `capacity` bytes together; none where the host does not
/// help. There is room for as much again that none of them shows.
pub(crate) fn store(capacity: u64) -> Option<Arc<Store>> {
    let slots = (capacity / UNIT).saturating_mul(2).min(mappings() / 2);
    Store::new(u32::try_from(slots).ok()?)
}

/// Mappings that a process may have on this host.
pub(crate) fn mappings() -> u64 {
    /// What Linux has where nothing else is said.
    const USUAL: u64 = 65_530;
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.unwrap_or(USUAL)
}
