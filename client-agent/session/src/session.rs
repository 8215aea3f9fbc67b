//! One virtual device.

mod load;
mod slots;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus_schemas::{
    Code, Dim, Failure, KernelKey, LaunchAttributes, Op, OpNumber, Opened, SessionId,
    TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, limits,
};

use crate::channel::{Reading, SessionChannel};
use crate::error::{ClientError, Result, refused};
use crate::module::{Function, Images, LaunchOn};
use slots::Slots;

/// Copies to the device of at most this many bytes travel within batches, in parts.
const INLINE: usize = 4 * limits::INLINE_BYTES;
/// Larger copies travel in pieces of this many bytes.
const PIECE: usize = limits::PIECE_BYTES;
/// Maximum number of pieces of a copy to the host that are under way.
const PIECES: usize = 4;

/// A virtual device: memory, modules and a program order of its own. Any number of threads may use
/// it; ops run in the order of the calls. Dropping it requests its end and does not wait.
#[derive(Debug)]
pub struct Session {
    channel: Arc<SessionChannel>,
    images: Arc<Images>,
    slots: Mutex<Slots>,
    printed: Mutex<Vec<u8>>,
    /// The last op that is known to be done by a sync, or by a copy to the host if no kernel
    /// prints.
    synced: AtomicU64,
    /// True if a kernel may print: the output comes only with the answer to a sync.
    prints: AtomicBool,
    patience: Duration,
}

impl Session {
    /// Makes the device of a channel that is served. `patience` bounds the wait for its end.
    #[must_use]
    pub fn new(channel: Arc<SessionChannel>, images: Arc<Images>, patience: Duration) -> Self {
        Self {
            channel,
            images,
            slots: Mutex::default(),
            printed: Mutex::default(),
            synced: AtomicU64::new(0),
            prints: AtomicBool::new(false),
            patience,
        }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.channel.opened().session
    }

    /// The leader's answer when it was opened: worker, device, addresses, quota.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        self.channel.opened()
    }

    /// The channel of the session.
    #[must_use]
    pub fn channel(&self) -> &Arc<SessionChannel> {
        &self.channel
    }

    /// Same as [`Session::channel`], under its former name.
    #[deprecated(note = "renamed to `channel`")]
    #[must_use]
    pub fn line(&self) -> &Arc<SessionChannel> {
        self.channel()
    }

    /// The reason why the session can run no more, if it cannot.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.channel.failure()
    }

    /// Allocates device memory and returns its address, a multiple of 256.
    ///
    /// # Errors
    /// [`Code::Quota`] or [`Code::OutOfMemory`] at once if it is known; else the session's failure.
    pub fn alloc(&self, bytes: u64) -> Result<u64> {
        self.channel.alloc(bytes)
    }

    /// Frees an allocation of [`Session::alloc`].
    ///
    /// # Errors
    /// [`Code::BadAddress`] if no allocation begins there; else the session's failure.
    pub fn free(&self, address: u64) -> Result<()> {
        self.channel.free(address)
    }

    /// Bytes that the session's connection has sent to the broker so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.channel.bytes_sent()
    }

    /// Copies `bytes` to the device. They are read during the call.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for a range that is not within one allocation; else the session's failure.
    pub fn copy_in(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.channel.check(to, bytes.len() as u64)?;
        if bytes.len() > INLINE {
            return self.channel.copy_large(to, bytes);
        }
        for (index, piece) in bytes.chunks(limits::INLINE_BYTES).enumerate() {
            let op = Op::CopyIn {
                address: to + (index * limits::INLINE_BYTES) as u64,
                bytes: piece.len() as u64,
                transfer: 0,
            };
            self.channel.push(&op, 0, piece, KernelKey(0))?;
        }
        Ok(())
    }

    /// Copies device memory at `from` into `bytes`; blocks until all earlier ops have run.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for a range that is not within one allocation; else the session's failure.
    pub fn copy_out(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        self.channel.check(from, bytes.len() as u64)?;
        let (mut under_way, mut last) = (VecDeque::new(), OpNumber::default());
        for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
            if under_way.len() == PIECES {
                self.channel.block_on(settle(&mut under_way))?;
            }
            let (number, reading) = self.read(from + (index * PIECE) as u64, piece)?;
            under_way.push_back(reading);
            last = number;
        }
        while !under_way.is_empty() {
            self.channel.block_on(settle(&mut under_way))?;
        }
        // Ops run in order, so all ops through the last of these are done. A sync that follows
        // directly, as libraries do after each copy, need not ask again.
        if !self.prints.load(Ordering::Relaxed) {
            self.synced.fetch_max(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Same as [`Session::copy_out`], for any executor.
    ///
    /// # Errors
    /// Same as [`Session::copy_out`].
    pub async fn copy_out_async(&self, from: u64, bytes: &mut [u8]) -> Result<()> {
        self.channel.check(from, bytes.len() as u64)?;
        let mut under_way = VecDeque::new();
        for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
            if under_way.len() == PIECES {
                settle(&mut under_way).await?;
            }
            under_way.push_back(self.read(from + (index * PIECE) as u64, piece)?.1);
        }
        while !under_way.is_empty() {
            settle(&mut under_way).await?;
        }
        Ok(())
    }

    /// Copies within the device's memory.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for ranges that are not within one allocation; else the session's failure.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        self.channel.check(to, bytes)?;
        self.channel.check(from, bytes)?;
        self.append(&Op::Copy { to, from, bytes })
    }

    /// Sets `count` elements of `width` bytes (1, 2 or 4) to `value`.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for a range that is not within one allocation, or not aligned to the
    /// width; else the session's failure.
    pub fn set(&self, address: u64, count: u64, value: u32, width: u8) -> Result<()> {
        if !matches!(width, 1 | 2 | 4) || !address.is_multiple_of(u64::from(width)) {
            let detail = format!("elements of {width} bytes at {address:#x}");
            return Err(refused(Code::BadAddress, detail));
        }
        let bytes = count.saturating_mul(u64::from(width));
        self.channel.check(address, bytes)?;
        self.append(&Op::Set {
            address,
            count,
            value,
            width,
        })
    }

    /// Launches a kernel: `grid` blocks of `block` threads with `shared` bytes of dynamic shared
    /// memory. `params` are the parameters one after the other, each at its natural alignment,
    /// little-endian; they are read during the call. Returns at once.
    ///
    /// # Errors
    /// [`Code::BadLaunch`] or [`Code::LaunchResources`] for a shape or parameters that do not fit
    /// the kernel; the session goes on. Else the session's failure.
    #[inline]
    pub fn launch(
        &self,
        function: &Function,
        grid: Dim,
        block: Dim,
        shared: u32,
        params: &[u8],
    ) -> Result<()> {
        let on = LaunchOn {
            stream: 0,
            grid,
            block,
            shared,
            attributes: LaunchAttributes::default(),
        };
        self.launch_on(function, &on, params)
    }

    /// Same as [`Session::launch`], on a stream, with attributes.
    ///
    /// # Errors
    /// Same as [`Session::launch`].
    #[inline]
    pub fn launch_on(&self, function: &Function, on: &LaunchOn, params: &[u8]) -> Result<()> {
        function.check(on, params)?;
        let (launch, key) = function.launch(on);
        self.channel
            .push(&Op::Launch(launch), on.stream, params, key)?;
        Ok(())
    }

    /// Writes the tensor map of a recipe to device memory, as the device's driver encodes it. Only
    /// a device with `launch_attributes` supports this.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for a destination that is not within one allocation or not a multiple
    /// of 64; else the session's failure.
    pub fn put_tensor_map(&self, to: u64, recipe: &[u8; TENSOR_MAP_BYTES]) -> Result<()> {
        self.channel.check(to, TENSOR_MAP_BYTES as u64)?;
        if !to.is_multiple_of(TENSOR_MAP_ALIGNMENT as u64) {
            let detail = format!("{to:#x} is no multiple of {TENSOR_MAP_ALIGNMENT}");
            return Err(refused(Code::BadAddress, detail));
        }
        let op = Op::TensorMap { address: to };
        self.channel.push(&op, 0, recipe, KernelKey(0))?;
        Ok(())
    }

    /// Blocks until all earlier ops have run.
    ///
    /// # Errors
    /// The error of any earlier op.
    pub fn sync(&self) -> Result<()> {
        let op = self.channel.push(&Op::Sync, 0, &[], KernelKey(0))?;
        let printed = self.channel.block_on(self.channel.answer(op))?;
        self.keep_printed(printed);
        self.synced.fetch_max(op, Ordering::Relaxed);
        Ok(())
    }

    /// Same as [`Session::sync`], for the ops through `op`; returns at once if a later sync was
    /// already answered. Returns true if it had to wait.
    ///
    /// # Errors
    /// Same as [`Session::sync`].
    pub fn sync_through(&self, op: OpNumber) -> Result<bool> {
        if let Some(failure) = self.channel.failure() {
            return Err(ClientError::Session(failure));
        }
        if op <= self.synced.load(Ordering::Relaxed) {
            self.channel.settled(op);
            return Ok(false);
        }
        self.sync().map(|()| true)
    }

    /// True if the ops through `op` are done, as far as known without a request. A program that
    /// asks until they are waits thus.
    #[must_use]
    pub fn is_done(&self, op: OpNumber) -> bool {
        let is_done = op <= self.synced.load(Ordering::Relaxed) || op <= self.channel.done();
        if is_done {
            self.channel.settled(op);
        }
        is_done
    }

    /// Records event number `event` of this session, on a stream; if it is `timed`, its time comes
    /// with the next answer, and goes to the channel's observer.
    ///
    /// # Errors
    /// The session's failure.
    pub fn record(&self, event: u32, stream: u16, timed: bool) -> Result<OpNumber> {
        self.channel
            .push(&Op::Event { event, timed }, stream, &[], KernelKey(0))
    }

    /// Same as [`Session::sync`], for any executor.
    ///
    /// # Errors
    /// Same as [`Session::sync`].
    pub async fn sync_async(&self) -> Result<()> {
        let op = self.channel.push(&Op::Sync, 0, &[], KernelKey(0))?;
        let printed = self.channel.answer(op).await?;
        self.keep_printed(printed);
        Ok(())
    }

    /// Takes the output of kernels (`printf`) up to the last sync that returned; once the session
    /// has failed, the output before the failure too. The device keeps the last
    /// [`limits::PRINTED_BYTES`] between two syncs, and this session as many.
    #[must_use]
    pub fn take_printed(&self) -> Vec<u8> {
        self.keep_printed(self.channel.take_printed());
        std::mem::take(&mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep_printed(&self, text: Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        printed.extend_from_slice(&text);
        let surplus = printed.len().saturating_sub(limits::PRINTED_BYTES);
        printed.drain(..surplus);
    }

    /// Sends the ops so far without waiting for more; without this they are sent within a round
    /// trip.
    pub fn flush(&self) {
        self.channel.flush();
    }

    /// Sets the program's span that later requests are part of, as a W3C `traceparent`. A request is the work of
    /// a thread between two of its waits. A thread's own span counts first ([`crate::set_traceparent`]).
    pub fn set_trace(&self, traceparent: Option<&str>) {
        self.channel.set_trace(traceparent);
    }

    /// Ends the session after the calls so far and blocks until its memory is freed.
    ///
    /// # Errors
    /// The session's failure, if it failed; [`Code::NoLeader`] if no answer came in time (it is
    /// closed when its connection is).
    pub fn close(self) -> Result<()> {
        let failed = self.channel.failure();
        self.channel.close();
        if !self.channel.wait_ended(self.patience) {
            return Err(refused(
                Code::NoLeader,
                "the close was not answered in time",
            ));
        }
        failed.map_or(Ok(()), |failure| Err(ClientError::Session(failure)))
    }

    /// Same as [`Session::close`], for any executor, without a time limit.
    ///
    /// # Errors
    /// The session's failure, if it failed.
    pub async fn close_async(self) -> Result<()> {
        let failed = self.channel.failure();
        self.channel.close();
        self.channel.ended().await;
        failed.map_or(Ok(()), |failure| Err(ClientError::Session(failure)))
    }

    /// Requests one piece of a copy to the host; returns the op's number, and the answer to wait
    /// for.
    fn read<'p>(&'p self, from: u64, piece: &'p mut [u8]) -> Result<(OpNumber, Reading<'p>)> {
        let op = Op::CopyOut {
            address: from,
            bytes: piece.len() as u64,
        };
        let number = self.channel.push(&op, 0, &[], KernelKey(0))?;
        Ok((number, self.channel.reading(number, piece)))
    }

    fn append(&self, op: &Op) -> Result<()> {
        self.channel.push(op, 0, &[], KernelKey(0)).map(|_| ())
    }
}

/// Waits for the oldest piece.
async fn settle(under_way: &mut VecDeque<Reading<'_>>) -> Result<()> {
    match under_way.pop_front() {
        Some(piece) => piece.await,
        None => Ok(()),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.channel.is_ended() {
            self.channel.close();
        }
    }
}
