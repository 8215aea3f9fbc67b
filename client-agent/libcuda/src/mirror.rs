//! Host memory that kernels see: managed allocations, and pinned ones after the program asked for
//! their device address. Each has a twin on the device. The program's changes are copied to the
//! twin before the next work. The kernels' changes are copied back after the next wait. CUDA allows
//! the host to touch such memory only between a wait and the next launch.

#![expect(
    unsafe_code,
    reason = "reads and writes memory that the program was given"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use client_session::Session;

use crate::lock::lock;
use crate::status::{Result, Status};

/// Bytes of the pieces that are compared and copied.
const PIECE: usize = 4096;

/// A mirrored range of host memory.
#[derive(Debug)]
struct Mirror {
    host: usize,
    device: u64,
    /// The contents of the twin, as far as known.
    seen: Vec<u8>,
}

/// All mirrored ranges of a device.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    /// True if there are any: the usual program has none, and pays one load.
    any: AtomicBool,
    /// True if the device has worked since the last wait.
    worked: AtomicBool,
    list: Mutex<Vec<Mirror>>,
}

impl Mirrors {
    /// Adds `bytes` bytes at `host` with their twin at `device`, and copies them there.
    ///
    /// # Safety
    /// The bytes stay readable and writable until [`Mirrors::remove`].
    pub(crate) unsafe fn add(
        &self,
        session: &Session,
        host: usize,
        device: u64,
        bytes: usize,
    ) -> Result {
        // SAFETY: the caller promises that the bytes are readable, and CUDA that the program leaves
        // them meanwhile.
        let now = unsafe { std::slice::from_raw_parts(host as *const u8, bytes) };
        session.copy_in(device, now)?;
        self.push(host, device, now.to_vec());
        Ok(())
    }

    /// Same as [`Mirrors::add`], for untouched pages and an address of whole words. Nothing is
    /// sent, and neither side takes memory before it is used.
    ///
    /// # Safety
    /// Same as there, and the bytes are zero.
    pub(crate) unsafe fn add_zeroed(
        &self,
        session: &Session,
        host: usize,
        device: u64,
        bytes: usize,
    ) -> Result {
        session.set(device, bytes as u64 / 4, 0, 4)?;
        self.push(host, device, vec![0; bytes]);
        Ok(())
    }

    fn push(&self, host: usize, device: u64, seen: Vec<u8>) {
        lock(&self.list).push(Mirror { host, device, seen });
        self.any.store(true, Ordering::Release);
    }

    /// Forgets the memory at `host` and returns its twin's address.
    pub(crate) fn remove(&self, host: usize) -> Option<u64> {
        let mut list = lock(&self.list);
        let at = list.iter().position(|mirror| mirror.host == host)?;
        let mirror = list.swap_remove(at);
        self.any.store(!list.is_empty(), Ordering::Release);
        Some(mirror.device)
    }

    /// Forgets the memory with its twin at `device`, except managed memory, which is its own twin.
    pub(crate) fn remove_twin(&self, device: u64) {
        let mut list = lock(&self.list);
        list.retain(|mirror| mirror.device != device || mirror.host as u64 == device);
        self.any.store(!list.is_empty(), Ordering::Release);
    }

    /// The device address of a host address.
    pub(crate) fn device_of(&self, host: usize) -> Option<u64> {
        let list = lock(&self.list);
        let found = list
            .iter()
            .find(|it| (it.host..it.host + it.seen.len()).contains(&host));
        found.map(|it| it.device + (host - it.host) as u64)
    }

    /// True if an address is of a twin on the device.
    pub(crate) fn covers(&self, device: u64) -> bool {
        self.any.load(Ordering::Acquire)
            && lock(&self.list).iter().any(|it| {
                let end = it.device + it.seen.len() as u64;
                (it.device..end).contains(&device)
            })
    }

    /// Copies the host's changes to the device before its work.
    #[inline]
    pub(crate) fn upload(&self, session: &Session) -> Result {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.upload_changed(session)
    }

    #[cold]
    fn upload_changed(&self, session: &Session) -> Result {
        let mut list = lock(&self.list);
        if self.worked.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        for mirror in list.iter_mut() {
            let len = mirror.seen.len();
            // SAFETY: the caller of `add` vouches for the range until it is removed, under this
            // lock.
            let now = unsafe { std::slice::from_raw_parts(mirror.host as *const u8, len) };
            let mut at = 0;
            while at < len {
                let same = |at: usize| {
                    let end = (at + PIECE).min(len);
                    now[at..end] == mirror.seen[at..end]
                };
                if same(at) {
                    at += PIECE;
                    continue;
                }
                let from = at;
                while at < len && !same(at) {
                    at += PIECE;
                }
                let to = at.min(len);
                session.copy_in(mirror.device + from as u64, &now[from..to])?;
                mirror.seen[from..to].copy_from_slice(&now[from..to]);
            }
        }
        Ok(())
    }

    /// Copies the device's changes to the host after a wait.
    pub(crate) fn download(&self, session: &Session) -> Result {
        if !self.any.load(Ordering::Acquire) || !self.worked.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut list = lock(&self.list);
        for mirror in list.iter_mut() {
            let mut now = vec![0; mirror.seen.len()];
            session
                .copy_out(mirror.device, &mut now)
                .map_err(Status::from)?;
            for at in (0..now.len()).step_by(PIECE) {
                let end = (at + PIECE).min(now.len());
                if now[at..end] == mirror.seen[at..end] {
                    continue;
                }
                // SAFETY: the range stays writable until it is removed, under this lock, and the
                // program leaves it until the wait is over.
                unsafe {
                    let to = (mirror.host + at) as *mut u8;
                    std::ptr::copy_nonoverlapping(now[at..end].as_ptr(), to, end - at);
                }
                mirror.seen[at..end].copy_from_slice(&now[at..end]);
            }
        }
        self.worked.store(false, Ordering::Release);
        Ok(())
    }
}
