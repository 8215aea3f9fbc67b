//! The addresses of a session's memory, and the ops that take and free them.

use bus_schemas::{Code, KernelKey, Op};

use super::outbound::SessionChannel;
use crate::error::{ClientError, refused};

impl SessionChannel {
    /// Picks the addresses of an allocation and appends it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] above the quota or the window, else as [`SessionChannel::push`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, ClientError> {
        let address = self
            .lock()
            .addresses
            .alloc(bytes)
            .map_err(ClientError::Refused)?;
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        Ok(address)
    }

    /// Frees the allocation that begins at `address`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where none begins there, else as [`SessionChannel::push`].
    pub fn free(&self, address: u64) -> Result<(), ClientError> {
        // Pushed before the range is given out again, so that its next allocation comes later.
        let begins = self.range(address).is_some_and(|(base, _)| base == address);
        if !begins || self.lock().addresses.is_mapped(address) {
            let detail = format!("no allocation begins at {address:#x}");
            return Err(refused(Code::BadAddress, detail));
        }
        self.push(&Op::Free { address }, 0, &[], KernelKey(0))?;
        self.lock()
            .addresses
            .free(address)
            .map_err(ClientError::Refused)?;
        Ok(())
    }

    /// Keeps a range of addresses free for [`SessionChannel::map`]: its first address, a multiple of `align`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where the window has no such range.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64, ClientError> {
        let mut inner = self.lock();
        let made = inner.addresses.reserve(bytes, align);
        made.map_err(ClientError::Refused)
    }

    /// Gives back what [`SessionChannel::reserve`] kept.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where none begins there or something is mapped in it.
    pub fn unreserve(&self, address: u64) -> Result<(), ClientError> {
        let mut inner = self.lock();
        let done = inner.addresses.unreserve(address);
        done.map_err(ClientError::Refused)
    }

    /// Appends an allocation at an address of a reserved range.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where that is not reserved and free, or above the quota; else as
    /// [`SessionChannel::push`].
    pub fn map(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let made = self.lock().addresses.map(address, bytes);
        made.map_err(ClientError::Refused)?;
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        Ok(())
    }

    /// Ends what [`SessionChannel::map`] made.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where nothing is mapped there, else as [`SessionChannel::push`].
    pub fn unmap(&self, address: u64) -> Result<(), ClientError> {
        // As [`SessionChannel::free`]: what is mapped there next comes later.
        if self.lock().addresses.is_mapped(address) {
            self.push(&Op::Free { address }, 0, &[], KernelKey(0))?;
        }
        let done = self.lock().addresses.unmap(address);
        done.map(|_| ()).map_err(ClientError::Refused)
    }

    /// Whether `bytes` bytes at `address` are the program's: within one allocation, or (where
    /// module variables lie) in the part of the window that is the worker's.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where they are not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let inner = self.lock();
        inner
            .addresses
            .check(address, bytes)
            .map_err(ClientError::Refused)
    }

    /// The allocation that holds `address`: where it begins and how many bytes were asked for.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().addresses.range(address)
    }

    /// Bytes allocated now, as they were asked for.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.lock().addresses.held()
    }
}
