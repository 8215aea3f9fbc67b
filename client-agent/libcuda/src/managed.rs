//! Managed memory: the same address in the program and on the device. The program's side lies in
//! the range that was reserved for the session's window.

#![expect(unsafe_code, reason = "opens pages of a range that we reserved")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use client_session::Session;

use crate::advised::{Advice, Advised};
use crate::lock::{Seldom, lock};
use crate::mirror::Mirrors;
use crate::status::{Result, Status};

const PAGE: u64 = 4096;

/// Whole pages in a session's window, which this process reserves for nothing else.
struct Pages {
    first: *mut libc::c_void,
    bytes: usize,
}

impl Pages {
    /// The pages of a range; `None` if it is outside the window.
    fn of(session: &Session, address: u64, bytes: u64) -> Option<Self> {
        let window = session.opened().window;
        let pages = Self::around(address, bytes)?;
        let first = pages.first as u64;
        let lies_there = window.base <= first && first + pages.bytes as u64 <= window.end();
        lies_there.then_some(pages)
    }

    /// The pages of a range that is reserved.
    fn around(address: u64, bytes: u64) -> Option<Self> {
        let first = address / PAGE * PAGE;
        let end = address.checked_add(bytes)?.checked_next_multiple_of(PAGE)?;
        Some(Self {
            first: first as *mut libc::c_void,
            bytes: (end - first) as usize,
        })
    }

    /// Lets the program read and write the pages; false if the system refuses.
    fn open(&self) -> bool {
        self.protect(libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Takes the pages from the program, and discards their contents.
    ///
    /// # Safety
    /// The pages are no longer used.
    unsafe fn close(&self) {
        // SAFETY: the caller promises that the discarded contents are not needed.
        unsafe { libc::madvise(self.first, self.bytes, libc::MADV_DONTNEED) };
        self.protect(libc::PROT_NONE);
    }

    fn protect(&self, access: i32) -> bool {
        // SAFETY: the pages lie in a range that is ours; an access that is too strict faults and
        // corrupts nothing.
        unsafe { libc::mprotect(self.first, self.bytes, access) == 0 }
    }
}

/// The size of a managed range, and the allocation that contains it.
#[derive(Clone, Copy, Debug)]
struct Range {
    bytes: u64,
    /// Bytes that the program asked for.
    asked: u64,
    base: u64,
}

/// A device's managed allocations, by address.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    table: Seldom<BTreeMap<u64, Range>>,
    advised: Mutex<Advised>,
}

impl Managed {
    /// True if an address is of managed memory.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.range(address).is_some()
    }

    /// The begin of the managed memory that contains an address, and the bytes that were asked for.
    pub(crate) fn range(&self, address: u64) -> Option<(u64, u64)> {
        let table = self.table.if_used()?;
        let (start, range) = table.range(..=address).next_back()?;
        (address - start < range.bytes).then_some((*start, range.asked))
    }

    /// The pages of a range within one managed allocation; `None` if it is not within one.
    fn pages(&self, address: u64, bytes: u64) -> Option<std::ops::Range<u64>> {
        let table = self.table.if_used()?;
        let (start, range) = table.range(..=address).next_back()?;
        let end = address.checked_add(bytes).filter(|_| bytes > 0)?;
        let inside = end <= start + range.bytes;
        inside.then(|| address / PAGE * PAGE..end.next_multiple_of(PAGE))
    }

    /// Notes advice about a range; false if it is not managed memory.
    pub(crate) fn advise(&self, address: u64, bytes: u64, change: impl Fn(&mut Advice)) -> bool {
        let pages = self.pages(address, bytes);
        if let Some(pages) = pages.clone() {
            lock(&self.advised).change(pages, change);
        }
        pages.is_some()
    }

    /// The advice for a range; `None` if it is not managed memory.
    pub(crate) fn advice(&self, address: u64, bytes: u64) -> Option<Advice> {
        let pages = self.pages(address, bytes)?;
        Some(lock(&self.advised).of(pages))
    }

    /// Allocates on the device and here.
    pub(crate) fn alloc(&self, session: &Session, mirrors: &Mirrors, bytes: usize) -> Result<u64> {
        // Whole pages: a range with one page more always contains aligned pages.
        let asked = bytes as u64;
        let bytes = asked
            .checked_next_multiple_of(PAGE)
            .ok_or(Status::OUT_OF_MEMORY)?;
        let base = session.alloc(bytes.checked_add(PAGE).ok_or(Status::OUT_OF_MEMORY)?)?;
        let address = base.next_multiple_of(PAGE);
        if !Pages::of(session, address, bytes).is_some_and(|pages| pages.open()) {
            session.free(base)?;
            return Err(Status::OUT_OF_MEMORY);
        }
        // SAFETY: the pages are fresh, and open until they are freed, which removes the mirror
        // first.
        unsafe { mirrors.add_zeroed(session, address as usize, address, bytes as usize)? };
        self.table
            .lock()
            .insert(address, Range { bytes, asked, base });
        Ok(address)
    }

    /// Makes a module variable managed: the program has the same bytes at the same address. That
    /// address is in the session's window, or `reserved` beside it.
    pub(crate) fn adopt(
        &self,
        session: &Session,
        mirrors: &Mirrors,
        (address, bytes): (u64, u64),
        reserved: bool,
    ) -> Result {
        if self.holds(address) {
            return Ok(());
        }
        let pages = match reserved {
            true => Pages::around(address, bytes),
            false => Pages::of(session, address, bytes),
        };
        if !pages.is_some_and(|pages| pages.open()) {
            return Err(Status::OUT_OF_MEMORY);
        }
        let mut now = vec![0; bytes as usize];
        session.copy_out(address, &mut now)?;
        // SAFETY: the pages were just opened, stay open with the session, and the range has no
        // other user.
        unsafe {
            std::ptr::copy_nonoverlapping(now.as_ptr(), address as *mut u8, now.len());
            mirrors.add(session, address as usize, address, now.len())?;
        }
        let (asked, base) = (bytes, address);
        self.table
            .lock()
            .insert(address, Range { bytes, asked, base });
        Ok(())
    }

    /// Ends the management of variables of an unloaded module. The program can still read their
    /// values. They are not written to the device, where other data will lie.
    pub(crate) fn disown(&self, mirrors: &Mirrors, address: u64) {
        if self.taken(address).is_some() {
            mirrors.remove(address as usize);
        }
    }

    fn taken(&self, address: u64) -> Option<Range> {
        self.table.if_used()?.remove(&address)
    }

    /// Frees an allocation if it is managed; returns true if it was.
    pub(crate) fn free(&self, session: &Session, mirrors: &Mirrors, address: u64) -> Result<bool> {
        let Some(range) = self.taken(address) else {
            return Ok(false);
        };
        lock(&self.advised).forget(address..address + range.bytes.next_multiple_of(PAGE));
        mirrors.remove(address as usize);
        // Before the addresses are free, because another thread may get them then.
        if let Some(pages) = Pages::of(session, address, range.bytes) {
            // SAFETY: by this call the program states that it no longer uses them.
            unsafe { pages.close() };
        }
        session.free(range.base)?;
        Ok(true)
    }
}
