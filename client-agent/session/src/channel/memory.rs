//! A session's memory: its addresses, the worker's word on how much of it there may be, and the ops
//! that take and free it.

use std::sync::MutexGuard;
use std::task::{Poll, Waker};

use bus_schemas::{Code, Failure, KernelKey, MemoryAnswer, Op, OpNumber};
use client_agent_core::{Asked, Commitment, KnownMemory, Nanos, Outbox, PushError};

use super::outbound::{SessionChannel, refusal};
use super::state::Inner;
use crate::error::{ClientError, refused};

/// Most requests that a look at the tenant's memory waits for: each but the last is another thread's, for memory.
const LOOKS: usize = 8;

impl SessionChannel {
    /// Picks the addresses of an allocation and appends it. The worker is asked first where the
    /// session may not hold so much yet.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where the tenant's quota, the device or the window has no room: the
    /// session goes on. Else as [`SessionChannel::push`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, ClientError> {
        let (inner, address) = self.having_room(bytes, |inner| inner.addresses.alloc(bytes))?;
        self.append(inner, &Op::Alloc { address, bytes })?;
        Ok(address)
    }

    /// Appends an op of the session's memory under the lock that its caller has; waits while the outbox is full.
    fn append(&self, mut inner: MutexGuard<'_, Inner>, op: &Op) -> Result<(), ClientError> {
        match self.push_within(&mut inner, op, 0, &[], KernelKey(0)) {
            Ok(_) => Ok(()),
            Err(PushError::Full) => {
                drop(inner);
                self.push(op, 0, &[], KernelKey(0)).map(drop)
            }
            Err(other) => Err(refusal(other)),
        }
    }

    /// Does something once the session may hold so much more: its result, and the lock under which that was done.
    fn having_room<T>(
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

    /// Waits until the session may hold so much more.
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

    /// The worker says what the session may hold.
    pub(super) fn on_memory(&self, inner: &mut Inner, answer: &MemoryAnswer) {
        let (now, held, after) = (self.now(), inner.addresses.held(), inner.outbox.last());
        if let Some(commitment) = &mut inner.commitment {
            commitment.answered(now, held, after, answer);
        }
        self.publish_memory(inner);
        inner.waiting.drain(..).for_each(Waker::wake);
    }

    /// What the session's tenant has of the device's memory, as the worker counts it; none where the
    /// worker is of a build that does not say it.
    ///
    /// # Errors
    /// The session's, and [`Code::Unanswered`] where the worker does not answer.
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

    /// Waits until modules on their way are loaded: how much their variables take, only the worker knows.
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

    /// Something was freed: what is not used may be given back.
    fn freed(&self, inner: &mut Inner) {
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
    /// [`ClientError::Refused`] where none begins there, else as [`SessionChannel::push`].
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
            // Under the op's lock, so that the range's next allocation comes behind it; not where it was refused.
            let freed = inner.addresses.free(address);
            freed.map_err(ClientError::Refused)?;
            inner.places.forget(address..address + bytes);
            self.freed(&mut inner);
            return Ok(());
        }
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

    /// Keeps room for a mapping of so many bytes, which [`SessionChannel::map_promised`] will make or
    /// [`SessionChannel::break_promise`] not need.
    ///
    /// # Errors
    /// As [`SessionChannel::alloc`], but for the window.
    pub fn promise(&self, bytes: u64) -> Result<(), ClientError> {
        let kept = self.having_room(bytes, |inner| {
            if let Some(commitment) = &mut inner.commitment {
                commitment.promise(bytes);
            }
            Ok(())
        });
        kept.map(drop)
    }

    /// The room that [`SessionChannel::promise`] kept is not needed.
    pub fn break_promise(&self, bytes: u64) {
        let mut inner = self.lock();
        if let Some(commitment) = &mut inner.commitment {
            commitment.redeem(bytes);
        }
        self.freed(&mut inner);
    }

    /// As [`SessionChannel::map`], in the room that [`SessionChannel::promise`] kept; where it fails, that is
    /// kept still.
    ///
    /// # Errors
    /// As [`SessionChannel::map`].
    pub fn map_promised(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let mut inner = self.lock();
        let mapped = inner.addresses.map(address, bytes);
        mapped.map_err(ClientError::Refused)?;
        if let Some(commitment) = &mut inner.commitment {
            commitment.redeem(bytes);
        }
        drop(inner);
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        Ok(())
    }

    /// Appends an allocation at an address of a reserved range.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where that is not reserved and free, or above the quota; else as
    /// [`SessionChannel::push`].
    pub fn map(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let (inner, ()) = self.having_room(bytes, |inner| inner.addresses.map(address, bytes))?;
        self.append(inner, &Op::Alloc { address, bytes })
    }

    /// Whether what begins at `address` lies in a reserved range: mapped there, or another session's.
    #[must_use]
    pub fn is_mapped(&self, address: u64) -> bool {
        self.lock().addresses.is_mapped(address)
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

    /// Notes where a variable of the module in this slot lies; gives whether that is outside of the window.
    pub(crate) fn add_variable(&self, slot: u32, address: u64, bytes: u64) -> bool {
        self.lock().addresses.add_variable(slot, address, bytes)
    }

    /// Forgets the variables of the module in this slot.
    pub(crate) fn forget_variables(&self, slot: u32) {
        self.lock().addresses.forget_variables(slot);
    }

    /// The module's variable that holds an address, if the program knows it: where it begins, and its bytes.
    #[must_use]
    pub fn variable(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().addresses.variable(address)
    }

    /// Says whether a module's variable may lie at an address.
    #[must_use]
    pub fn may_be_variable(&self, address: u64) -> bool {
        self.lock().addresses.may_be_variable(address)
    }

    /// The allocation that holds `address`: where it begins and how many bytes were asked for.
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
