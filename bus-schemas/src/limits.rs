//! The numbers both ends of the bus must agree on.

/// Lowest device address of any window.
pub const ADDRESS_FIRST: u64 = 0x1000_0000_0000;
/// First address above every window.
pub const ADDRESS_LAST: u64 = 0x5000_0000_0000;
/// Smallest window, bytes. Every window is a power of two, and begins at a multiple of its size.
pub const WINDOW_MIN_BYTES: u64 = 2 << 30;
/// What room for imported memory begins at a multiple of, bytes.
pub const IPC_ALIGN: u64 = 2 << 20;
/// Unit of the addresses and sizes of allocations that are moved or mapped, bytes.
pub const MAP_ALIGN: u64 = 2 << 20;
/// Maps that one session has at a time, made by [`crate::Op::Map`].
pub const MAPS: usize = 1_024;
/// Allocations that one session exports at a time, and those that it imports.
pub const EXPORTS: usize = 4_096;
/// Ops in one batch at most.
pub const BATCH_OPS: u32 = 1024;
/// Bytes of descriptors and blob in one batch at most.
pub const BATCH_BYTES: usize = 192 << 10;
/// A host-to-device copy of at most this many bytes travels inside its batch; a larger one is
/// staged by [`crate::DataChunk`]s before its op is announced.
pub const INLINE_BYTES: usize = 16 << 10;
/// Bytes of one data or result chunk at most.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a content-addressed chunk of a copy. The first begins where the copy begins; the last may be
/// shorter.
pub const CONTENT_BYTES: usize = 1 << 20;
/// Bytes of the smallest copy that is offered by its hashes before it is sent.
pub const OFFER_BYTES: u64 = 256 << 10;
/// Bytes of one [`crate::CopyOffer`]'s copy at most: a larger copy is several.
pub const OFFER_MOST: u64 = 512 << 20;
/// Bytes of the transfers that a client divides a large copy into, the last may be shorter.
pub const PIECE_BYTES: usize = 2 << 20;
/// Bytes of one staged transfer at most (a module image or one copy).
pub const TRANSFER_BYTES: u64 = 4 << 30;
/// Bytes of what kernels printed that come with one sync at most: the size of CUDA's buffer.
pub const PRINTED_BYTES: usize = 1 << 20;
/// Times of events that come with one result at most: of more, the oldest are forgotten.
pub const EVENT_TIMES: usize = 4_096;
/// Module variables whose addresses a result tells at most: those beyond are left out.
pub const SYMBOLS: usize = 65_536;
/// Bytes of a kernel's parameters at most, as in CUDA 12.
pub const PARAM_BYTES: usize = 32_764;
/// Bytes that the blocks in progress of one launch take on a CPU worker at most, where one block does not
/// take more.
pub const LAUNCH_BYTES: u64 = 256 << 20;
/// Entry functions of one module that can be named by a launch.
pub const FUNCTIONS: u32 = 65_536;
/// Devices that one request asks for at most.
pub const DEVICES: u32 = 16;
/// Devices that an answer to a [`crate::DevicesRequest`] names at most.
pub const DEVICES_NAMED: usize = 64;
/// Tenants that one [`crate::MemoryStatus`] names at most.
pub const STATUS_TENANTS: usize = 1_000;
/// Sessions that one [`crate::MemoryStatus`] names at most.
pub const STATUS_SESSIONS: usize = 2_000;
/// Sessions that one [`crate::Sessions`] names at most.
pub const SESSION_ROWS: usize = 512;
/// Sessions that one [`crate::Residency`] names at most.
pub const RESIDENCY_ROWS: usize = 1_024;
/// Bytes of a [`crate::ShortText`] at most.
pub const SHORT_TEXT: usize = 64;
/// Groups of workers that a tenant is bound to at most.
pub const GROUPS: usize = 64;
/// Images that a worker names at most.
pub const IMAGES: usize = 64;
/// Samples of its sessions' weights that a worker names at most.
pub const WEIGHTS: usize = 128;
/// Modules loaded by one session at a time.
pub const MODULES: u32 = 4_096;
/// Grants in one grant batch at most.
pub const BATCH_GRANTS: usize = 512;
/// Reports in one done message at most.
pub const DONE_REPORTS: usize = 1_024;
/// Values of each entry of the state bucket that are kept, the latest among them: the profile's
/// versions can be looked at and pinned. As many as a bucket can keep.
pub const STATE_HISTORY: i64 = 64;
/// Bytes of one record block at most.
pub const RECORD_BLOCK_BYTES: usize = 64 << 10;
/// Largest payload any message of ours has; the broker must allow it.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Ops a session may send to its worker, and announce to its leader, before the first credit of
/// either reaches it.
pub const FIRST_OPS: u64 = 1024;
/// Staged bytes a session may have unacknowledged before the first credit of its worker.
pub const FIRST_STAGING: u64 = 1 << 20;
