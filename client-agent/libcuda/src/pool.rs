//! Pools of a device's memory: which allocations are of which, and how much of it each has. A pool keeps nothing
//! in reserve. What is freed goes back to the session at once, whose bounds and quota hold for it as for all else.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::Handle;
use crate::handle::table;
use crate::lock::{Seldom, lock};
use crate::status::{Result, Status};

/// The value of a pool's attribute: a switch or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Switch(c_int),
    Bytes(u64),
}

/// A pool of memory.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Bytes that it may have at most, 0 for as many as there are.
    limit: u64,
    figures: Mutex<Figures>,
}

#[derive(Debug)]
struct Figures {
    used: u64,
    /// The most that was in use, and reserved, since the program last set them back.
    most_used: u64,
    most_reserved: u64,
    /// What the program said that it is to keep, and how it may use again what was freed.
    threshold: u64,
    reuse: [c_int; 3],
}

/// Which attributes are switches; [`Figures::reuse`] has them in this order.
const SWITCHES: std::ops::RangeInclusive<c_int> = 1..=3;
const THRESHOLD: c_int = 4;
const RESERVED: c_int = 5;
const MOST_RESERVED: c_int = 6;
const USED: c_int = 7;
const MOST_USED: c_int = 8;

impl Pool {
    pub(crate) fn new(limit: u64) -> Self {
        let figures = Figures {
            used: 0,
            most_used: 0,
            most_reserved: 0,
            threshold: 0,
            reuse: [1; 3],
        };
        Self {
            limit,
            figures: Mutex::new(figures),
        }
    }

    /// Counts an allocation that is about to be made, unless that is more than the pool may have.
    fn grow(&self, bytes: u64) -> Result {
        let mut figures = lock(&self.figures);
        let used = figures.used.saturating_add(bytes);
        if self.limit > 0 && used > self.limit {
            return Err(Status::OUT_OF_MEMORY);
        }
        figures.used = used;
        Ok(())
    }

    /// An allocation was made: the most that was ever in use may be more for it.
    fn made(&self) {
        let mut figures = lock(&self.figures);
        let used = figures.used;
        figures.most_used = figures.most_used.max(used);
        figures.most_reserved = figures.most_reserved.max(used);
    }

    fn shrink(&self, bytes: u64) {
        let mut figures = lock(&self.figures);
        figures.used = figures.used.saturating_sub(bytes);
    }

    /// An attribute.
    pub(crate) fn get(&self, attribute: c_int) -> Result<Figure> {
        let figures = lock(&self.figures);
        Ok(match attribute {
            _ if SWITCHES.contains(&attribute) => {
                Figure::Switch(figures.reuse[attribute as usize - 1])
            }
            THRESHOLD => Figure::Bytes(figures.threshold),
            // Nothing is kept in reserve: what is reserved is what is in use.
            RESERVED | USED => Figure::Bytes(figures.used),
            MOST_RESERVED => Figure::Bytes(figures.most_reserved),
            MOST_USED => Figure::Bytes(figures.most_used),
            _ => return Err(Status::INVALID_VALUE),
        })
    }

    /// Sets an attribute. What was most can be set back only, by 0.
    pub(crate) fn set(&self, attribute: c_int, figure: Figure) -> Result {
        let mut figures = lock(&self.figures);
        match (attribute, figure) {
            (_, Figure::Switch(on)) if SWITCHES.contains(&attribute) => {
                figures.reuse[attribute as usize - 1] = c_int::from(on != 0);
            }
            (THRESHOLD, Figure::Bytes(bytes)) => figures.threshold = bytes,
            (MOST_RESERVED, Figure::Bytes(0)) => figures.most_reserved = figures.used,
            (MOST_USED, Figure::Bytes(0)) => figures.most_used = figures.used,
            _ => return Err(Status::INVALID_VALUE),
        }
        Ok(())
    }
}

/// Whether an attribute is a switch, an `int` of the caller's, and not a number of bytes.
pub(crate) fn is_switch(attribute: c_int) -> bool {
    SWITCHES.contains(&attribute)
}

/// A pool that a program made, by its handle, with the number of its device.
pub(crate) struct MadePool(pub(crate) usize, pub(crate) Arc<Pool>);

table!(MadePool, INVALID_VALUE);

/// The pools of a device, as far as it must know them.
pub(crate) struct Pools {
    pub(crate) own: Arc<Pool>,
    current: Mutex<Option<Handle<MadePool>>>,
    /// The allocations of pools, by address: the pool and the bytes.
    of: Seldom<HashMap<u64, (Arc<Pool>, u64)>>,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            own: Arc::new(Pool::new(0)),
            current: Mutex::default(),
            of: Seldom::default(),
        }
    }
}

impl Pools {
    /// The handle of the pool that allocations come from that name none; nothing for its own.
    pub(crate) fn current(&self) -> MutexGuard<'_, Option<Handle<MadePool>>> {
        lock(&self.current)
    }

    /// Makes an allocation of a pool's: so many bytes, by `alloc`.
    pub(crate) fn alloc(
        &self,
        pool: &Arc<Pool>,
        bytes: u64,
        alloc: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        pool.grow(bytes)?;
        let address = alloc().inspect_err(|_| pool.shrink(bytes))?;
        pool.made();
        self.of.lock().insert(address, (Arc::clone(pool), bytes));
        Ok(address)
    }

    /// The pool of an allocation, if it is of one.
    pub(crate) fn of(&self, address: u64) -> Option<Arc<Pool>> {
        let of = self.of.if_used()?;
        of.get(&address).map(|(pool, _)| Arc::clone(pool))
    }

    /// An allocation is about to be freed, whether it is a pool's or not.
    pub(crate) fn free(&self, address: u64) {
        let was = self.of.if_used().and_then(|mut of| of.remove(&address));
        if let Some((pool, bytes)) = was {
            pool.shrink(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pool: &Pool, attribute: c_int) -> u64 {
        match pool.get(attribute) {
            Ok(Figure::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pool_says_what_is_its_own() {
        let pools = Pools::default();
        let other = Arc::new(Pool::new(0));
        let own = Arc::clone(&pools.own);
        pools.alloc(&own, 512, || Ok(4096)).expect("it is made");
        pools.alloc(&other, 1024, || Ok(8192)).expect("it is made");
        assert_eq!((bytes(&own, USED), bytes(&other, USED)), (512, 1024));
        pools.free(8192);
        // Memory of no pool.
        pools.free(12288);
        assert_eq!((bytes(&own, USED), bytes(&other, USED)), (512, 0));
        assert_eq!(
            (bytes(&other, RESERVED), bytes(&other, MOST_USED)),
            (0, 1024)
        );
    }

    #[test]
    fn what_was_most_is_set_back_to_what_is() {
        let pools = Pools::default();
        let pool = Arc::clone(&pools.own);
        for address in [256, 1024] {
            pools.alloc(&pool, 768, || Ok(address)).expect("it is made");
        }
        pools.free(256);
        assert_eq!(
            pool.set(MOST_USED, Figure::Bytes(1)),
            Err(Status::INVALID_VALUE)
        );
        pool.set(MOST_USED, Figure::Bytes(0)).expect("it can be");
        assert_eq!(
            (bytes(&pool, MOST_USED), bytes(&pool, MOST_RESERVED)),
            (768, 1536)
        );
        assert_eq!(pool.set(USED, Figure::Bytes(0)), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn what_is_not_made_is_not_counted() {
        let pools = Pools::default();
        let small = Arc::new(Pool::new(1000));
        let none = || Err(Status::OUT_OF_MEMORY);
        assert_eq!(pools.alloc(&small, 512, none), Err(Status::OUT_OF_MEMORY));
        assert_eq!(
            pools.alloc(&small, 1024, || Ok(256)),
            Err(Status::OUT_OF_MEMORY)
        );
        assert_eq!((bytes(&small, USED), bytes(&small, MOST_USED)), (0, 0));
    }

    #[test]
    fn switches_are_kept() {
        let pool = Pool::new(0);
        assert_eq!(pool.get(2), Ok(Figure::Switch(1)));
        pool.set(2, Figure::Switch(0)).expect("it can be");
        assert_eq!(
            (pool.get(1), pool.get(2)),
            (Ok(Figure::Switch(1)), Ok(Figure::Switch(0)))
        );
        assert_eq!(pool.set(2, Figure::Bytes(0)), Err(Status::INVALID_VALUE));
    }
}
