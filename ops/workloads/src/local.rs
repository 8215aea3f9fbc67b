//! A device in the program's own process: no bus, no worker, no leader.
//!
//! It runs the same [`Device`] that a worker owns, with the same packed ops. A workload that fails
//! here therefore fails because of its kernels or the device.

mod acceptance;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{Failure, Launch, ModuleHash, Op, SessionId, Window, limits, write_descriptor};
use bytes::Bytes;
use device::{Completion, CopyBytes, Device, OpSpan, PreparedModule, Slice};

use crate::{FunctionId, Gpu, ModuleId};

pub use acceptance::{Endless, SuiteFailure, suite};

/// Maximum time of one call into the device.
const POLL: Duration = Duration::from_millis(5);
/// The device's alignment of allocations, bytes.
const ALIGNMENT: u64 = 256;

/// Size of a session's device addresses, bytes.
const WINDOW: u64 = 16 << 30;

/// Error of a local device.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The device refused the op, or the session has failed before.
    #[error("{0}")]
    Device(Failure),
    /// The session's addresses are exhausted.
    #[error("an allocation of {0} bytes does not fit into the session's addresses")]
    Addresses(u64),
    /// The module has no such entry.
    #[error("no entry {0:?} in the module")]
    NoEntry(String),
    /// The device became idle, or returned too short a result, without an error.
    #[error("the device gave no whole answer to op {0}")]
    NoAnswer(u64),
    /// An op does not fit into a batch.
    #[error("op cannot be packed: {0}")]
    Op(#[from] bus_schemas::OpError),
}

/// A session on a device of its own.
pub struct Local<D: Device> {
    device: D,
    session: SessionId,
    window: Window,
    /// Address of the next allocation; addresses are never reused.
    free: u64,
    modules: Vec<(ModuleHash, PreparedModule)>,
    pending: Pending,
    next_op: u64,
    next_position: u64,
    next_transfer: u64,
    /// Results by op, until fetched.
    results: HashMap<u64, Option<Vec<u8>>>,
    fault: Option<Failure>,
    /// Device time, as reported by the device, in nanoseconds.
    device_ns: u64,
    launches: u64,
}

/// Ops not yet submitted.
#[derive(Default)]
struct Pending {
    descriptors: Vec<u8>,
    blob: Vec<u8>,
    count: u32,
    transfers: Vec<(u64, Arc<CopyBytes>)>,
}

impl<D: Device> Local<D> {
    /// Opens session number `session` on `device`. The windows of the first thousand session
    /// numbers do not overlap.
    ///
    /// # Errors
    /// If the device cannot reserve the session's addresses.
    pub fn open(mut device: D, session: u64) -> Result<Self, LocalError> {
        let window = Window {
            base: limits::ADDRESS_FIRST + session % 1_000 * WINDOW,
            size: WINDOW,
        };
        let session = SessionId(session);
        device
            .open(session, window, None)
            .map_err(LocalError::Device)?;
        Ok(Self {
            device,
            session,
            window,
            free: window.base,
            modules: Vec::new(),
            pending: Pending::default(),
            next_op: 1,
            next_position: 1,
            next_transfer: 1,
            results: HashMap::new(),
            fault: None,
            device_ns: 0,
            launches: 0,
        })
    }

    /// Number of launches that have run.
    pub const fn launches(&self) -> u64 {
        self.launches
    }

    /// Busy time in nanoseconds, as reported by the device.
    pub const fn device_ns(&self) -> u64 {
        self.device_ns
    }

    /// The session's failure, if any.
    pub const fn fault(&self) -> Option<&Failure> {
        self.fault.as_ref()
    }

    /// Closes the session and returns the device.
    pub fn close(mut self) -> D {
        self.device.close(self.session);
        self.device
    }

    /// Appends an op; returns its number.
    fn push(&mut self, op: &Op, payload: &[u8]) -> Result<u64, LocalError> {
        if let Some(fault) = &self.fault {
            return Err(LocalError::Device(fault.clone()));
        }
        let bytes = self.pending.descriptors.len() + self.pending.blob.len() + payload.len();
        if self.pending.count == limits::BATCH_OPS || bytes + 48 > limits::BATCH_BYTES {
            self.submit()?;
        }
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        write_descriptor(op, 0, length, &mut self.pending.descriptors);
        self.pending.blob.extend_from_slice(payload);
        self.pending.count += 1;
        self.next_op += 1;
        Ok(self.next_op - 1)
    }

    /// Submits the pending ops to the device as one slice.
    fn submit(&mut self) -> Result<(), LocalError> {
        let Pending {
            mut descriptors,
            blob,
            count,
            transfers,
        } = std::mem::take(&mut self.pending);
        if count == 0 {
            return Ok(());
        }
        let split = descriptors.len();
        descriptors.extend_from_slice(&blob);
        let end = descriptors.len();
        let span = OpSpan::new(Bytes::from(descriptors), 0..split, split..end, count)?;
        let position = self.next_position;
        self.next_position += 1;
        self.device.submit(Slice {
            position,
            session: self.session,
            priority: 0,
            first: self.next_op - u64::from(count),
            spans: vec![span],
            transfers,
            fail_at: None,
            launch_bytes: vec![(0, u64::MAX)],
        });
        Ok(())
    }

    /// Runs until op `op` has completed.
    fn wait(&mut self, op: u64) -> Result<Option<Vec<u8>>, LocalError> {
        self.submit()?;
        let mut completions = Vec::new();
        while self.device.is_busy() && !self.results.contains_key(&op) {
            self.device.poll(POLL, &mut completions);
            for completion in completions.drain(..) {
                self.take(completion);
            }
        }
        match (self.results.remove(&op), &self.fault) {
            (Some(bytes), _) => Ok(bytes),
            (None, Some(fault)) => Err(LocalError::Device(fault.clone())),
            (None, None) => Err(LocalError::NoAnswer(op)),
        }
    }

    fn take(&mut self, completion: Completion) {
        self.device_ns += completion.device_ns;
        self.launches += completion.launches;
        let results = completion.results.into_iter();
        self.results
            .extend(results.map(|result| (result.op, result.copied())));
        if let (None, Some((_, failure))) = (&self.fault, completion.fault) {
            self.fault = Some(failure);
        }
    }
}

impl<D: Device> Gpu for Local<D> {
    type Error = LocalError;

    fn load(&mut self, ptx: &[u8]) -> Result<ModuleId, LocalError> {
        let hash = ModuleHash::of(ptx);
        if let Some(slot) = self.modules.iter().position(|module| module.0 == hash) {
            return Ok(ModuleId(slot as u64));
        }
        let info = self.device.prepare(hash, ptx).map_err(LocalError::Device)?;
        let slot = self.modules.len() as u32;
        self.modules.push((hash, info));
        self.push(&Op::LoadModule { slot, hash }, &[])?;
        Ok(ModuleId(u64::from(slot)))
    }

    fn function(&mut self, module: ModuleId, entry: &str) -> Result<FunctionId, LocalError> {
        let unknown = || LocalError::NoEntry(entry.to_owned());
        let (_, info) = self.modules.get(module.0 as usize).ok_or_else(unknown)?;
        let named = |function: &device::FunctionInfo| function.name == entry;
        let index = info.functions.iter().position(named).ok_or_else(unknown)?;
        Ok(FunctionId(module.0 << 32 | index as u64))
    }

    fn alloc(&mut self, bytes: u64) -> Result<u64, LocalError> {
        let address = self.free;
        let end = bytes.max(1).checked_next_multiple_of(ALIGNMENT);
        let end = end.and_then(|size| address.checked_add(size));
        let last = self.window.base + self.window.size;
        self.free = end
            .filter(|end| *end <= last)
            .ok_or(LocalError::Addresses(bytes))?;
        self.push(&Op::Alloc { address, bytes }, &[])?;
        Ok(address)
    }

    fn free(&mut self, address: u64) -> Result<(), LocalError> {
        self.push(&Op::Free { address }, &[]).map(drop)
    }

    fn copy_in(&mut self, to: u64, bytes: &[u8]) -> Result<(), LocalError> {
        let (address, length) = (to, bytes.len() as u64);
        if bytes.len() <= limits::INLINE_BYTES {
            let op = Op::CopyIn {
                address,
                bytes: length,
                transfer: 0,
            };
            return self.push(&op, bytes).map(drop);
        }
        let transfer = self.next_transfer;
        self.next_transfer += 1;
        self.push(
            &Op::CopyIn {
                address,
                bytes: length,
                transfer,
            },
            &[],
        )?;
        let parcel = Arc::new(CopyBytes::from(bytes));
        self.pending.transfers.push((transfer, parcel));
        Ok(())
    }

    fn copy_out(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), LocalError> {
        if bytes.is_empty() {
            return self.sync();
        }
        let op = Op::CopyOut {
            address: from,
            bytes: bytes.len() as u64,
        };
        let op = self.push(&op, &[])?;
        let answer = self.wait(op)?.unwrap_or_default();
        if answer.len() != bytes.len() {
            return Err(LocalError::NoAnswer(op));
        }
        bytes.copy_from_slice(&answer);
        Ok(())
    }

    fn launch(
        &mut self,
        function: FunctionId,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        params: &[u8],
    ) -> Result<(), LocalError> {
        let (module, function) = ((function.0 >> 32) as u32, function.0 as u32);
        let launch = Launch {
            module,
            function,
            grid,
            block,
            shared,
            attributes: bus_schemas::LaunchAttributes::default(),
        };
        self.push(&Op::Launch(launch), params).map(drop)
    }

    fn sync(&mut self) -> Result<(), LocalError> {
        let op = self.push(&Op::Sync, &[])?;
        self.wait(op).map(drop)
    }
}
