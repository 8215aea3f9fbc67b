//! The worker's interface: its events, its actions, and the bytes that its shell keeps.

use std::sync::Arc;

use bus_schemas::subject::{ToClient, WorkerSubject};
use bus_schemas::{
    Batch, Compilation, EventTime, ExportPlace, Failure, GpuPosition, KernelName, Launch,
    MessageError, ModuleHash, Op, OpNumber, Ops, SessionId, Tenant,
};
use bytes::Bytes;
use device::{KernelTime, Moved, OpResult, Recharged, SharingDomain, SwapUse};

use crate::Nanos;
use crate::content::{Audience, ChunkId, CopyChunks, PublishedTensor};
use crate::dispatch::{LaunchNeeds, ModuleBytes, Submission};
use crate::exports::DeviceAction;
use crate::sequencer::{ExitReason, OpenAction, Settled, StartAction};
use crate::sharing_domains::Owner;

/// The bytes of sessions: ops, staged transfers and module images. The worker decides about them; its shell
/// keeps them. The worker calls these methods in the order of its decisions.
pub trait Buffers {
    /// A message's payload.
    type Payload: AsRef<[u8]> + Clone + PartialEq;
    /// The ops of a slice.
    type Ops;
    /// A module that the device has prepared; cheap to clone.
    type Module: Clone;
    /// The bytes of an image, for the device.
    type Image;
    /// The bytes of a whole transfer, for the device.
    type Staged;
    /// A chunk of a copy; cheap to clone.
    type Chunk: Clone;
    /// False for the model of a device that runs ops without a scan: its ops use no module, no transfer and
    /// no memory, and their declared costs are not checked.
    const SCANS: bool = true;

    /// Keeps ops of a batch.
    fn keep(&mut self, session: SessionId, batch: BatchPart<'_, Self::Payload>);
    /// Takes the ops `first..=last`, which are the next kept ones.
    fn take(&mut self, session: SessionId, first: OpNumber, last: OpNumber) -> Self::Ops;
    /// Drops ops through this number.
    fn forget(&mut self, session: SessionId, through: OpNumber);
    /// Stores a part of a transfer of `total` bytes.
    fn store(&mut self, session: SessionId, transfer: u64, total: u64, offset: u64, bytes: &[u8]);
    /// Stores all chunks of a transfer, in place of the bytes received for it.
    fn place(&mut self, session: SessionId, transfer: u64, chunks: Vec<Self::Chunk>);
    /// True if a transfer or a session's memory uses the chunk, beside the worker's own copy.
    fn is_used(chunk: &Self::Chunk) -> bool;
    /// Checks an image with all of its bytes received against its hash. Returns the result, unless that takes
    /// long: then [`Event::Image`] follows.
    fn check(&mut self, sent: SentImage) -> Option<CheckedImage<Self::Image>>;
    /// Takes the bytes of a whole transfer.
    fn take_staged(&mut self, session: SessionId, transfer: u64) -> Option<Self::Staged>;
    /// Returns the fingerprint of a whole transfer: see [`crate::weights::Touch::Copied`].
    fn fingerprint(&self, session: SessionId, transfer: u64) -> Option<u64>;
    /// Drops all transfers of a session.
    fn drop_transfers(&mut self, session: SessionId);
    /// Takes back the memory of a message that is not sent again.
    fn recycle(&mut self, message: Bytes);
    /// Drops everything of a session.
    fn close(&mut self, session: SessionId);

    /// Returns the ops of a slice, in order.
    fn ops(&self, ops: &Self::Ops) -> impl Iterator<Item = Op>;
    /// Returns the bytes that a module takes of its session's memory.
    fn module_bytes(&self, module: &Self::Module) -> ModuleBytes;
    /// Returns the needs of a launch of a module; `None` if the module has no such function.
    fn kernel(&self, module: &Self::Module, launch: &Launch) -> Option<LaunchNeeds>;
}

/// Ops of one batch: `count` of them from index `skip` on.
#[derive(Debug, Clone, Copy)]
pub struct BatchPart<'a, P> {
    /// The payload of the message.
    pub payload: &'a P,
    /// The message. Its columns are borrowed from the payload.
    pub batch: &'a Batch<'a>,
    /// Its ops.
    pub ops: &'a Ops<'a>,
    /// The first op kept.
    pub first: OpNumber,
    /// Index of that op in the batch.
    pub skip: u32,
    /// Number of ops kept.
    pub count: u32,
}

/// A transfer of an offered copy, of which all bytes that the worker lacked have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivedChunks<C> {
    /// The session that sent them.
    pub session: SessionId,
    /// The transfer.
    pub transfer: u64,
    /// Its chunks, and those that the worker had before. The bytes of the others must match their ids.
    pub chunks: CopyChunks<C>,
    /// For each chunk, a kept one with the same id, maybe of another tenant, for comparison.
    pub candidates: Vec<Option<C>>,
    /// The domain in which the session shares memory.
    pub domain: Option<SharingDomain>,
}

/// A transfer with checked chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedChunks<C> {
    /// The session that sent them.
    pub session: SessionId,
    /// The transfer.
    pub transfer: u64,
    /// All of its chunks; `None` if the bytes do not match their ids.
    pub chunks: Option<Vec<C>>,
    /// The chunks that were sent. Only these prove that the tenant has the bytes.
    pub sent: Vec<(ChunkId, C)>,
}

/// Weights that were published under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNews {
    /// The tenants that may have them.
    pub audience: Audience,
    /// The tensors.
    pub tensors: Vec<PublishedTensor>,
}

/// An image with all of its bytes received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentImage {
    /// The session that sent it.
    pub session: SessionId,
    /// The transfer that brought it.
    pub transfer: u64,
    /// The hash that it should have.
    pub hash: ModuleHash,
}

/// A checked image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedImage<I> {
    /// The image.
    pub sent: SentImage,
    /// True if the bytes have that hash.
    pub is_genuine: bool,
    /// Number of bytes.
    pub len: u64,
    /// The bytes.
    pub bytes: I,
}

/// The end of a submitted slice on the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletedSlice {
    /// Its position.
    pub position: GpuPosition,
    /// Its session.
    pub session: SessionId,
    /// Start of its first op, if the device knows.
    pub began: Option<Nanos>,
    /// Device nanoseconds it took.
    pub device_ns: u64,
    /// Number of launches run.
    pub launches: u64,
    /// SM-nanoseconds of its launches.
    pub sm_ns: u64,
    /// Times by kernel key.
    pub kernels: Vec<KernelTime>,
    /// Names behind kernel keys that were not passed before.
    pub names: Vec<KernelName>,
    /// Bytes that its session is charged now.
    pub resident: u64,
    /// Answers in op order.
    pub results: Vec<OpResult>,
    /// Times of the timed events it recorded, by op, in op order.
    pub events: Vec<(OpNumber, EventTime)>,
    /// Output of kernels since the last sync, if the slice failed.
    pub printed: Vec<u8>,
    /// The op that failed, with the failure; nothing after it ran.
    pub fault: Option<(OpNumber, Failure)>,
    /// Sum of the costs that its ops declare, if no scan found it: see [`Buffers::SCANS`].
    pub declared: Option<u64>,
}

/// An event of the worker.
pub enum Event<'a, B: Buffers> {
    /// A message came from the bus.
    Message(&'a WorkerSubject, &'a B::Payload),
    /// The device carried out [`Command::Open`], or failed to.
    Opened(SessionId, Option<Failure>),
    /// The device carried out [`Command::Close`].
    Closed(SessionId),
    /// The device has completed a slice.
    Completed(CompletedSlice),
    /// An image was checked: see [`Buffers::check`].
    Image(CheckedImage<B::Image>),
    /// The device has answered [`Command::Prepare`], with the bytes that the module takes of the host. The last
    /// is the compilation, if there was one.
    Prepared(
        ModuleHash,
        Result<(B::Module, u64), Failure>,
        Option<Compilation>,
    ),
    /// Preparing an image of a tenant took this much processor time, nanoseconds.
    Compiled(&'a Tenant, u64),
    /// The chunks of an offered transfer were checked: see [`Action::Check`].
    Chunks(CheckedChunks<B::Chunk>),
    /// Weights were published under a name, or withdrawn.
    Published(&'a str, Option<PublishedNews>),
    /// The chunks of a tensor, under hashes that the shell computed; `None` if it could not be fetched.
    Tensor(&'a Arc<str>, Option<Vec<(ChunkId, B::Chunk)>>),
    /// Moves of sessions' memory have ended; and the use of the swap space, if the device reports it.
    Moved(Vec<Moved>, Option<SwapUse>),
    /// Charges of sessions that other sessions changed, and the bytes saved by sharing.
    Recharged(&'a [Recharged], u64),
    /// The result of [`Command::Exchange`]; an export has a place.
    Exchanged(SessionId, Result<Option<ExportPlace>, Failure>),
    /// Exports that are gone, by number.
    ExportsGone(Vec<u64>),
    /// A time returned by [`super::Worker::next_wakeup`] has come.
    Timer,
    /// The worker drains: finish accepted grants, accept no more, then leave.
    Drain,
}

/// An action of the worker; actions are carried out in their order.
pub enum Action<B: Buffers> {
    /// Publish a message.
    Publish(To, Bytes),
    /// Send a command to the device.
    Device(Command<B>),
    /// Check the chunks of an offered transfer; answer with [`Event::Chunks`].
    Check(Box<ArrivedChunks<B::Chunk>>),
    /// Drop chunks. Their memory may take a while to return to the host.
    Drop(Vec<B::Chunk>),
    /// Fetch a published tensor; answer with [`Event::Tensor`].
    Fetch(Arc<str>),
    /// More is published under this name than the worker keeps track of.
    Untracked(String),
    /// A slice has started and waits for what it needs.
    Started(StartAction),
    /// An allocation of a started slice was refused.
    Denied(SessionId, OpNumber),
    /// Log for the evidence that a position has ended.
    Settled(Settled),
    /// A session has ended; everything of it is forgotten.
    Ended(SessionId),
    /// The leader names the tenants that this worker serves.
    Tenants(Vec<Tenant>),
    /// A message that belongs to no session could not be read.
    Malformed(MessageError),
    /// Leave the cluster.
    Exit(ExitReason),
}

/// The addressee of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// Leaders: [`bus_schemas::Done`].
    Done,
    /// Leaders: [`bus_schemas::Refusal`].
    Refusal,
    /// Leaders: [`bus_schemas::WorkerBeat`].
    Beat,
    /// The sender of the current message, which is a request.
    Reply,
    /// A session's client.
    Client(Tenant, SessionId, ToClient),
}

/// A command to the device.
pub enum Command<B: Buffers> {
    /// Begin a session; answer with [`Event::Opened`].
    Open(OpenAction, Owner),
    /// End the work of a session soon: its slices complete with this failure.
    Stop(SessionId, Failure),
    /// End a session without slices; answer with [`Event::Closed`].
    Close(SessionId),
    /// Prepare an image for a tenant; answer with [`Event::Prepared`].
    Prepare(Tenant, ModuleHash, B::Image),
    /// Give up an image that is not prepared yet.
    Cancel(ModuleHash),
    /// Drop a prepared module.
    Forget(ModuleHash),
    /// Run a slice; answer with [`Event::Completed`].
    Submit(Box<SubmittedSlice<B>>),
    /// Move a session's memory to the swap space; answer with [`Event::Moved`].
    SwapOut(SessionId),
    /// Move a session's memory back to the device; answer with [`Event::Moved`].
    SwapIn(SessionId),
    /// Act on memory shared between sessions; answer with [`Event::Exchanged`].
    Exchange(SessionId, DeviceAction),
    /// A command is likely to come soon.
    Wake,
}

/// A slice for the device.
pub struct SubmittedSlice<B: Buffers> {
    /// The submission of the dispatch.
    pub submission: Submission<B::Ops>,
    /// The staged bytes that its ops use up, by transfer, in op order.
    pub staged: Vec<(u64, B::Staged)>,
}
