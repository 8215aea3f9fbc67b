//! A virtual device: its session, and the state that is known without a request.

#![expect(unsafe_code, reason = "reserves a range of this process's addresses")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bus_schemas::{Symbol, Window};
use client_session::{ClientError, Module, Session};

use crate::abi::Handle;
use crate::attribute::Properties;
use crate::context::Context;
use crate::held::{Ends, Held, Marked};
use crate::ipc::Ipc;
use crate::lock::lock;
use crate::managed::Managed;
use crate::mirror::Mirrors;
use crate::pool::{Pool, Pools};
use crate::status::{Result, Status, note};

/// Granularity of allocations, equal to a driver's. Some programs access a few bytes past the end,
/// and this keeps them working.
const GRAIN: u64 = 256;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A virtual device.
pub(crate) struct Device {
    pub(crate) ordinal: usize,
    pub(crate) properties: Properties,
    pub(crate) mirrors: Mirrors,
    pub(crate) managed: Managed,
    held: Held,
    pub(crate) pools: Pools,
    pub(crate) ipc: Ipc,
    /// Allocations that the program marked so that copies wait; here copies wait anyway.
    pub(crate) synchronous: Marked,
    session: Arc<Session>,
    /// True if variables of some module lie outside the window.
    elsewhere: AtomicBool,
    /// The pages of these variables, reserved in this process.
    reserved: Mutex<BTreeSet<u64>>,
    /// Number of times that the program had to wait for an answer.
    round_trips: AtomicU64,
}

impl Device {
    /// Makes the device of a session; it has no number yet.
    pub(crate) fn new(session: Session) -> Result<Self> {
        let properties = Properties::of(session.opened()).ok_or_else(|| {
            let why =
                "the cluster is older than this library: it does not say what its devices are";
            note(Status::SYSTEM_DRIVER_MISMATCH, why.into());
            Status::SYSTEM_DRIVER_MISMATCH
        })?;
        Ok(Self {
            ordinal: 0,
            properties,
            mirrors: Mirrors::default(),
            managed: Managed::default(),
            held: Held::default(),
            pools: Pools::default(),
            ipc: Ipc::default(),
            synchronous: Marked::default(),
            session: Arc::new(session),
            elsewhere: AtomicBool::new(false),
            reserved: Mutex::default(),
            round_trips: AtomicU64::new(0),
        })
    }

    /// Fails if the session has failed: it runs no more work.
    pub(crate) fn alive(&self) -> Result {
        match self.with(Session::failure) {
            Some(failure) => Err((&failure).into()),
            None => Ok(()),
        }
    }

    /// Notes an error that a call met, for the traces. The session goes on.
    pub(crate) fn note_error(&self, error: &ClientError) {
        self.with(|session| session.channel().note_error(error));
    }

    /// Says whether an address may belong to a module's variable.
    pub(crate) fn is_of_modules(&self, address: u64) -> bool {
        self.with(|session| session.channel().may_be_variable(address))
    }

    /// The variables of a module. A GPU's driver puts them outside the window. Their pages are
    /// reserved in this process too, so that no host pointer can be mistaken for one.
    pub(crate) fn symbols(&self, module: &Module) -> Result<Vec<Symbol>> {
        self.round_trip(true);
        let session = self.session();
        let symbols = session.symbols(module)?;
        let window = session.opened().window;
        for symbol in symbols.iter().filter(|symbol| symbol.address != 0) {
            if (window.base..window.end()).contains(&symbol.address) {
                continue;
            }
            self.elsewhere.store(true, Ordering::Release);
            self.reserve_pages(symbol)?;
        }
        Ok(symbols)
    }

    fn reserve_pages(&self, symbol: &Symbol) -> Result {
        let (first, end) = (symbol.address / PAGE, symbol.address + symbol.bytes.max(1));
        let mut reserved = lock(&self.reserved);
        for page in first..end.div_ceil(PAGE) {
            if reserved.contains(&page) {
                continue;
            }
            let window = Window {
                base: page * PAGE,
                size: PAGE,
            };
            let Some(made) = Reservation::of(window) else {
                let why = format!(
                    "a variable of a module lies at {:#x} on the GPU, where this process has other memory",
                    symbol.address
                );
                note(Status::MAP_FAILED, why);
                return Err(Status::MAP_FAILED);
            };
            made.keep();
            reserved.insert(page);
        }
        Ok(())
    }

    /// True if all pages of a range are reserved for variables outside the window.
    pub(crate) fn has_reserved(&self, address: u64, bytes: u64) -> bool {
        let reserved = lock(&self.reserved);
        let mut pages = address / PAGE..address.saturating_add(bytes.max(1)).div_ceil(PAGE);
        pages.all(|page| reserved.contains(&page))
    }

    /// Counts a wait for an answer if `waited` is true.
    pub(crate) fn round_trip(&self, waited: bool) {
        self.round_trips
            .fetch_add(u64::from(waited), Ordering::Relaxed);
    }

    /// Number of times that the program had to wait for an answer.
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Bytes that the program may still allocate, and the tenant's total bytes.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let known = self.with(|session| session.channel().tenant_memory())?;
        Ok(known.map_or_else(
            || {
                let held = self.with(|session| session.channel().held());
                let all = self.properties.memory;
                (all.saturating_sub(held), all)
            },
            |known| (known.free, known.total),
        ))
    }

    /// Allocates memory that belongs to the current context.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<u64> {
        self.alloc_until(bytes, Ends::WithContext)
    }

    /// Allocates the device twin of host memory.
    pub(crate) fn alloc_twin(&self, bytes: usize) -> Result<u64> {
        self.alloc_until(bytes, Ends::AtReset)
    }

    fn alloc_until(&self, bytes: usize, ends: Ends) -> Result<u64> {
        let whole = whole(bytes)?;
        let address = self.with(|session| session.alloc(whole))?;
        self.held.add(address, ends);
        Ok(address)
    }

    /// Allocates memory from one of the device's pools.
    pub(crate) fn alloc_from(&self, pool: &Arc<Pool>, bytes: usize) -> Result<u64> {
        let alloc = || self.alloc_until(bytes, Ends::AtReset);
        self.pools.alloc(pool, whole(bytes)?, alloc)
    }

    /// Allocates managed memory.
    pub(crate) fn alloc_managed(&self, bytes: usize) -> Result<u64> {
        let address = self.managed.alloc(&self.session(), &self.mirrors, bytes)?;
        self.held.add(address, Ends::WithContext);
        Ok(address)
    }

    /// Frees an allocation, managed or not.
    pub(crate) fn free(&self, address: u64) -> Result {
        // Before the memory is freed, because another thread may get the address then.
        self.held.remove(address);
        self.synchronous.set(address, false);
        if let Some(mut exported) = self.ipc.exported.if_used() {
            exported.remove(&address);
        }
        self.pools.free(address);
        self.with(|session| {
            if self.managed.free(session, &self.mirrors, address)? {
                return Ok(());
            }
            session.free(address).map_err(Status::from)
        })
    }

    /// Frees the remaining allocations of a context that end now, and returns their addresses.
    pub(crate) fn free_all(&self, context: Handle<Context>, now: Ends) -> Result<Vec<u64>> {
        let left = self.held.take(context, now);
        for address in &left {
            self.mirrors.remove_twin(*address);
            self.free(*address)?;
        }
        Ok(left)
    }

    /// True if an address lies in the session's window.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.with(|session| {
            let window = session.opened().window;
            (window.base..window.end()).contains(&address)
                || (self.elsewhere.load(Ordering::Acquire)
                    && session.channel().variable(address).is_some())
        })
    }

    /// The session.
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// Uses the session without keeping it.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&Session) -> R) -> R {
        body(&self.session)
    }
}

/// The size of an allocation, rounded up to [`GRAIN`].
fn whole(bytes: usize) -> Result<u64> {
    let whole = (bytes as u64).checked_next_multiple_of(GRAIN);
    whole.ok_or(Status::OUT_OF_MEMORY)
}

/// A session's addresses, reserved in this process so that no host pointer can be mistaken for a
/// device address. The range is released when this is dropped.
pub(crate) struct Reservation {
    base: *mut libc::c_void,
    size: usize,
}

impl Reservation {
    /// Reserves a window; `None` if the addresses are taken.
    pub(crate) fn of(window: Window) -> Option<Self> {
        let base = std::ptr::without_provenance_mut(usize::try_from(window.base).ok()?);
        let size = usize::try_from(window.size).ok()?;
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: this reserves unmapped addresses without access, so no memory in use changes.
        let got = unsafe { libc::mmap(base, size, libc::PROT_NONE, flags, -1, 0) };
        if got == libc::MAP_FAILED {
            return None;
        }
        // An old kernel treats the flag as a hint; a range at another address is dropped.
        let made = Self { base: got, size };
        (got == base).then_some(made)
    }

    /// Keeps the addresses until the process ends, because a session uses them.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: we mapped the whole range, and while no session used it, nothing else was put
        // there.
        unsafe { libc::munmap(self.base, self.size) };
    }
}
