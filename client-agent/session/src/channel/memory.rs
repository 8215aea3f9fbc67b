//! A session's memory: its addresses, its commitment by the worker, and the ops that allocate and
//! free it.

use std::sync::MutexGuard;
use std::task::{Poll, Waker};

use bus_schemas::{Code, Failure, KernelKey, MemoryAnswer, Op, OpNumber};
use client_agent_core::{Asked, Commitment, KnownMemory, Nanos, Outbox, PushError};

use super::outbound::{SessionChannel, refusal};
use super::state::Inner;
use crate::changes::note_memory_change;
use crate::error::{ClientError, refused};

/// Maximum number of requests that a look at the tenant's memory waits for. Each but the last is a
/// memory request of another thread.
const LOOKS: usize = 8;

impl SessionChannel {
    /// Picks the addresses of an allocation and appends it. The worker is asked first if the
    /// session may not hold that much yet.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the tenant's quota, the device or the window has no room: the
    /// session goes on. Else as [`SessionChannel::push`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, ClientError> {
        let (inner, address) = self.having_room(bytes, |inner| inner.addresses.alloc(bytes))?;
        self.append(inner, &Op::Alloc { address, bytes })?;
        Ok(address)
    }

    /// Appends a memory op under the lock that its caller holds; waits while the outbox is full.
    fn append(&self, mut inner: MutexGuard<'_, Inner>, op: &Op) -> Result<(), ClientError> {
        let appended = match self.push_within(&mut inner, op, 0, &[], KernelKey(0)) {
            Ok(_) => Ok(()),
            Err(PushError::Full) => {
                drop(inner);
                self.push(op, 0, &[], KernelKey(0)).map(drop)
            }
            Err(other) => Err(refusal(other)),
        };
        note_memory_change();
        appended
    }

    /// Runs a function once the session may hold `bytes` more; returns its result, and the lock
    /// under which it ran. A refusal is noted for the traces.
    fn having_room<T>(
        &self,
        bytes: u64,
        take: impl FnOnce(&mut Inner) -> Result<T, Failure>,
    ) -> Result<(MutexGuard<'_, Inner>, T), ClientError> {
        let taken = self.take_room(bytes, take);
        taken.inspect_err(|error| self.note_error(error))
    }

    fn take_room<T>(
        &self,
        bytes: u64,
        take: impl FnOnce(&mut Inner) -> Result<T, Failure>,
    ) -> Result<(MutexGuard<'_, Inner>, T), ClientError> {
        let mut inner = self.lock();
        if inner.lacks(bytes) {
            inner = self.wait_for_room(inner, bytes)?;
        }
        let taken = take(&mut inner).map_err(ClientError::Refused)?;
        self.ask_ahead(&mut inner);
        Ok((inner, taken))
    }

    /// Waits until the session may hold `bytes` more.
    #[cold]
    fn wait_for_room<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        bytes: u64,
    ) -> Result<MutexGuard<'a, Inner>, ClientError> {
        if let Some(commitment) = &mut inner.commitment {
            commitment.needs(bytes);
        }
        let (mut inner, waited) = loop {
            let held = inner.addresses.held();
            let asked = self.ask(inner, |it, now, after| it.ask(now, held, after, bytes));
            inner = self.lock();
            if asked.is_err() || !inner.lacks(bytes) {
                break (inner, asked);
            }
        };
        if let Some(commitment) = &mut inner.commitment {
            commitment.needs_no_more(bytes);
        }
        waited.map(|()| inner)
    }

    /// Asks for more before it is needed, so that no call has to wait for it.
    #[inline]
    fn ask_ahead(&self, inner: &mut Inner) {
        let held = inner.addresses.held();
        if inner
            .commitment
            .as_ref()
            .is_some_and(|it| it.runs_low(held))
        {
            self.raise(inner);
        }
    }

    #[cold]
    fn raise(&self, inner: &mut Inner) {
        let (now, after) = (self.now(), inner.outbox.last());
        if let Some(commitment) = &mut inner.commitment {
            commitment.ask_ahead(now, after);
        }
        self.publish_memory(inner);
        self.driver.kick();
    }

    /// Asks the worker and waits for the answer.
    fn ask(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        ask: impl FnOnce(&mut Commitment, Nanos, OpNumber) -> Asked,
    ) -> Result<(), ClientError> {
        let (now, after) = (self.now(), inner.outbox.last());
        let Some(commitment) = &mut inner.commitment else {
            return Ok(());
        };
        let Asked { number, is_own } = ask(commitment, now, after);
        self.publish_memory(&mut inner);
        drop(inner);
        let deadline = Nanos::try_from(self.deadline.as_nanos()).unwrap_or(Nanos::MAX);
        self.driver.wait(std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(failure) = inner.over.clone() {
                return Poll::Ready(Err(ClientError::Session(failure)));
            }
            let Some(commitment) = &inner.commitment else {
                return Poll::Ready(Ok(()));
            };
            if commitment.is_answered(number) {
                let refusal = commitment.refusal(number).filter(|_| is_own).cloned();
                return Poll::Ready(refusal.map_or(Ok(()), |it| Err(ClientError::Refused(it))));
            }
            if commitment.waits(self.now()) >= deadline {
                let detail = "the worker did not answer a request for memory (client.deadline)";
                return Poll::Ready(Err(refused(Code::Unanswered, detail)));
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        }))
    }

    /// Handles the worker's answer about the commitment.
    pub(super) fn on_memory(&self, inner: &mut Inner, answer: &MemoryAnswer) {
        let (now, held, after) = (self.now(), inner.addresses.held(), inner.outbox.last());
        if let Some(commitment) = &mut inner.commitment {
            commitment.answered(now, held, after, answer);
        }
        self.publish_memory(inner);
        inner.waiting.drain(..).for_each(Waker::wake);
    }

    /// The tenant's share of the device's memory, as counted by the worker; `None` if the worker is
    /// of a build that does not report it.
    ///
    /// # Errors
    /// The session's failure, and [`Code::Unanswered`] if the worker does not answer.
    pub fn tenant_memory(&self) -> Result<Option<KnownMemory>, ClientError> {
        if self.lock().commitment.is_none() {
            return Ok(None);
        }
        self.wait_loaded()?;
        for _ in 0..LOOKS {
            let inner = self.lock();
            let held = inner.addresses.held();
            let mut is_current = true;
            self.ask(inner, |it, now, after| {
                let asked = it.look(now, held, after);
                is_current = it.tells(asked.number, held);
                asked
            })?;
            if is_current {
                break;
            }
        }
        Ok(self.lock().commitment.as_ref().map(Commitment::known))
    }

    /// Waits until modules on their way are loaded, because only the worker knows the size of their
    /// variables.
    fn wait_loaded(&self) -> Result<(), ClientError> {
        if self.lock().outbox.has_loaded() {
            return Ok(());
        }
        self.driver.kick();
        self.driver.wait(std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(failure) = inner.over.clone() {
                return Poll::Ready(Err(ClientError::Session(failure)));
            }
            if inner.outbox.has_loaded() {
                return Poll::Ready(Ok(()));
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        }))
    }

    /// Handles a free: unused memory may be given back.
    fn freed(&self, inner: &mut Inner) {
        note_memory_change();
        let held = inner.addresses.held();
        if inner
            .commitment
            .as_ref()
            .is_none_or(|it| !it.gives_back(held))
        {
            return;
        }
        let (now, after) = (self.now(), inner.outbox.last());
        if let Some(commitment) = &mut inner.commitment {
            commitment.freed(now, held, after);
        }
        self.publish_memory(inner);
    }

    /// Frees the allocation that begins at `address`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if none begins there, else as [`SessionChannel::push`].
    pub fn free(&self, address: u64) -> Result<(), ClientError> {
        loop {
            let mut inner = self.lock();
            let found = inner.addresses.allocation(address);
            let (_, bytes) = found.map_err(ClientError::Refused)?;
            let op = Op::Free { address };
            match self.push_within(&mut inner, &op, 0, &[], KernelKey(0)) {
                Ok(_) => {}
                Err(PushError::Full) => {
                    self.make_room(inner, Outbox::has_room);
                    continue;
                }
                Err(other) => return Err(refusal(other)),
            }
            // Under the op's lock, so that the range's next allocation comes after it; not if the
            // op was refused.
            let freed = inner.addresses.free(address);
            freed.map_err(ClientError::Refused)?;
            inner.places.forget(address..address + bytes);
            self.freed(&mut inner);
            return Ok(());
        }
    }

    /// Reserves a range of addresses for [`SessionChannel::map`]; returns its first address, a
    /// multiple of `align`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the window has no such range.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64, ClientError> {
        let mut inner = self.lock();
        let made = inner.addresses.reserve(bytes, align);
        made.map_err(ClientError::Refused)
    }

    /// Releases a range that [`SessionChannel::reserve`] made.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if none begins there or something is mapped in it.
    pub fn unreserve(&self, address: u64) -> Result<(), ClientError> {
        let mut inner = self.lock();
        let done = inner.addresses.unreserve(address);
        done.map_err(ClientError::Refused)
    }

    /// Keeps room for a later mapping of `bytes` bytes. [`SessionChannel::map_promised`] uses it,
    /// or [`SessionChannel::break_promise`] releases it.
    ///
    /// # Errors
    /// Same as [`SessionChannel::alloc`], except for the window.
    pub fn promise(&self, bytes: u64) -> Result<(), ClientError> {
        let kept = self.having_room(bytes, |inner| {
            if let Some(commitment) = &mut inner.commitment {
                commitment.promise(bytes);
            }
            Ok(())
        });
        kept.map(drop)
    }

    /// Releases room that [`SessionChannel::promise`] kept.
    pub fn break_promise(&self, bytes: u64) {
        let mut inner = self.lock();
        if let Some(commitment) = &mut inner.commitment {
            commitment.redeem(bytes);
        }
        self.freed(&mut inner);
    }

    /// Same as [`SessionChannel::map`], in the room that [`SessionChannel::promise`] kept. If it
    /// fails, the room is still kept.
    ///
    /// # Errors
    /// Same as [`SessionChannel::map`].
    pub fn map_promised(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let mut inner = self.lock();
        let mapped = inner.addresses.map(address, bytes);
        mapped.map_err(ClientError::Refused)?;
        if let Some(commitment) = &mut inner.commitment {
            commitment.redeem(bytes);
        }
        drop(inner);
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        note_memory_change();
        Ok(())
    }

    /// Appends an allocation at an address of a reserved range.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the range is not reserved and free, or above the quota; else as
    /// [`SessionChannel::push`].
    pub fn map(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let (inner, ()) = self.having_room(bytes, |inner| inner.addresses.map(address, bytes))?;
        self.append(inner, &Op::Alloc { address, bytes })
    }

    /// True if an object that begins at `address` is in a reserved range: mapped there, or imported
    /// from another session.
    #[must_use]
    pub fn is_mapped(&self, address: u64) -> bool {
        self.lock().addresses.is_mapped(address)
    }

    /// Unmaps an allocation made by [`SessionChannel::map`].
    ///
    /// # Errors
    /// [`ClientError::Refused`] if nothing is mapped there, else as [`SessionChannel::push`].
    pub fn unmap(&self, address: u64) -> Result<(), ClientError> {
        // As for [`SessionChannel::free`]: the next mapping there comes later.
        if self.lock().addresses.is_mapped(address) {
            self.push(&Op::Free { address }, 0, &[], KernelKey(0))?;
        }
        let mut inner = self.lock();
        let range = inner.addresses.range(address);
        let done = inner.addresses.unmap(address);
        done.map_err(ClientError::Refused)?;
        if let Some((base, bytes)) = range {
            inner.places.forget(base..base + bytes);
        }
        self.freed(&mut inner);
        Ok(())
    }

    /// Checks that `bytes` bytes at `address` are the program's: within one allocation, or in the
    /// worker's part of the window, where module variables are.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if they are not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let inner = self.lock();
        inner
            .addresses
            .check(address, bytes)
            .map_err(ClientError::Refused)
    }

    /// Notes the address of a variable of the module in this slot; returns true if it is outside
    /// the window.
    pub(crate) fn add_variable(&self, slot: u32, address: u64, bytes: u64) -> bool {
        self.lock().addresses.add_variable(slot, address, bytes)
    }

    /// Forgets the variables of the module in this slot.
    pub(crate) fn forget_variables(&self, slot: u32) {
        self.lock().addresses.forget_variables(slot);
    }

    /// The module variable that contains an address, if the program knows it: its begin and its
    /// bytes.
    #[must_use]
    pub fn variable(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().addresses.variable(address)
    }

    /// Says whether a module's variable may be at an address.
    #[must_use]
    pub fn may_be_variable(&self, address: u64) -> bool {
        self.lock().addresses.may_be_variable(address)
    }

    /// The allocation that contains `address`: its begin and the bytes asked for.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().addresses.range(address)
    }

    /// Bytes allocated now: each allocation counts as a multiple of 256.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.lock().addresses.held()
    }
}
