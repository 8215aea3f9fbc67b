//! Pools of a device's memory: the pool of each allocation, and the bytes of each pool. A pool
//! keeps no reserve. Freed memory returns to the session at once, under the session's limits and
//! quota.

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
    /// Maximum bytes of the pool; 0 for no limit.
    limit: u64,
    figures: Mutex<Figures>,
}

#[derive(Debug)]
struct Figures {
    used: u64,
    /// Maximum bytes in use, and reserved, since the program last reset them.
    most_used: u64,
    most_reserved: u64,
    /// The release threshold and the reuse policies that the program set.
    threshold: u64,
    reuse: [c_int; 3],
}

/// Numbers of the attributes that are switches; [`Figures::reuse`] has them in this order.
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

    /// Counts an allocation before it is made; refuses it if it exceeds the pool's limit.
    fn grow(&self, bytes: u64) -> Result {
        let mut figures = lock(&self.figures);
        let used = figures.used.saturating_add(bytes);
        if self.limit > 0 && used > self.limit {
            return Err(Status::OUT_OF_MEMORY);
        }
        figures.used = used;
        Ok(())
    }

    /// Updates the maximum in use after an allocation.
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

    /// The value of an attribute.
    pub(crate) fn get(&self, attribute: c_int) -> Result<Figure> {
        let figures = lock(&self.figures);
        Ok(match attribute {
            _ if SWITCHES.contains(&attribute) => {
                Figure::Switch(figures.reuse[attribute as usize - 1])
            }
            THRESHOLD => Figure::Bytes(figures.threshold),
            // The pool keeps no reserve: the bytes reserved are those in use.
            RESERVED | USED => Figure::Bytes(figures.used),
            MOST_RESERVED => Figure::Bytes(figures.most_reserved),
            MOST_USED => Figure::Bytes(figures.most_used),
            _ => return Err(Status::INVALID_VALUE),
        })
    }

    /// Sets an attribute. A maximum can only be reset, by 0.
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

/// True if an attribute is a switch (an `int` of the caller) and not a number of bytes.
pub(crate) fn is_switch(attribute: c_int) -> bool {
    SWITCHES.contains(&attribute)
}

/// A pool that a program created, with the number of its device.
pub(crate) struct MadePool(pub(crate) usize, pub(crate) Arc<Pool>);

table!(MadePool, INVALID_VALUE);

/// The pools of a device, as far as the device must know them.
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
    /// The handle of the pool for allocations that name none; `None` for the device's default pool.
    pub(crate) fn current(&self) -> MutexGuard<'_, Option<Handle<MadePool>>> {
        lock(&self.current)
    }

    /// Makes an allocation of `bytes` bytes in a pool, by calling `alloc`.
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

    /// The pool of an allocation, if it has one.
    pub(crate) fn of(&self, address: u64) -> Option<Arc<Pool>> {
        let of = self.of.if_used()?;
        of.get(&address).map(|(pool, _)| Arc::clone(pool))
    }

    /// Notes that an allocation is about to be freed; it need not be from a pool.
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
        // Memory outside any pool.
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
