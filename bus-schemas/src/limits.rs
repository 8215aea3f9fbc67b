//! The numbers that both ends of the bus must agree on.

/// Lowest device address of any window.
pub const ADDRESS_FIRST: u64 = 0x1000_0000_0000;
/// First address above every window.
pub const ADDRESS_LAST: u64 = 0x5000_0000_0000;
/// Smallest window, bytes. Every window is a power of two, and begins at a multiple of its size.
pub const WINDOW_MIN_BYTES: u64 = 2 << 30;
/// Alignment of room for imported memory, bytes.
pub const IPC_ALIGN: u64 = 2 << 20;
/// Unit of the addresses and sizes of allocations that are moved or mapped, bytes.
pub const MAP_ALIGN: u64 = 2 << 20;
/// Maximum number of maps that one session has, made by [`crate::Op::Map`].
pub const MAPS: usize = 1_024;
/// Maximum number of allocations that one session exports, and of those that it imports.
pub const EXPORTS: usize = 4_096;
/// Maximum number of ops in one batch.
pub const BATCH_OPS: u32 = 1024;
/// Maximum bytes of descriptors and blob in one batch.
pub const BATCH_BYTES: usize = 192 << 10;
/// A host-to-device copy of at most this many bytes travels inside its batch; a larger one is
/// staged by [`crate::DataChunk`]s before its op is announced.
pub const INLINE_BYTES: usize = 16 << 10;
/// Maximum bytes of one data or result chunk.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Size of a content-addressed chunk of a copy in bytes. The first one begins at the start of the
/// copy; the last one may be shorter.
pub const CONTENT_BYTES: usize = 1 << 20;
/// Minimum bytes of a copy that is offered by its hashes before it is sent.
pub const OFFER_BYTES: u64 = 256 << 10;
/// Maximum bytes of one [`crate::CopyOffer`]'s copy; a larger copy needs several.
pub const OFFER_MOST: u64 = 512 << 20;
/// Bytes of the transfers that a client divides a large copy into; the last one may be shorter.
pub const PIECE_BYTES: usize = 2 << 20;
/// Maximum bytes of one staged transfer (a module image or one copy).
pub const TRANSFER_BYTES: u64 = 4 << 30;
/// Maximum bytes of printed text that come with one sync: the size of CUDA's buffer.
pub const PRINTED_BYTES: usize = 1 << 20;
/// Maximum number of event times that come with one result; beyond it the oldest are dropped.
pub const EVENT_TIMES: usize = 4_096;
/// Maximum number of module variables with addresses in a result; those beyond are left out.
pub const SYMBOLS: usize = 65_536;
/// Maximum bytes of a kernel's parameters, as in CUDA 12.
pub const PARAM_BYTES: usize = 32_764;
/// Maximum bytes of the concurrent blocks of one launch on a CPU worker, unless a single block
/// takes more.
pub const LAUNCH_BYTES: u64 = 256 << 20;
/// Number of entry functions of one module that a launch can name.
pub const FUNCTIONS: u32 = 65_536;
/// Maximum number of requests in one [`crate::RequestReports`].
pub const REQUESTS: usize = 256;
/// Maximum number of runs in one [`crate::RequestReports`].
pub const REQUEST_RUNS: usize = 2_048;
/// Maximum number of [`crate::CallError`]s of one request; the last one stands for all further failed calls.
pub const CALL_ERRORS: usize = 4;
/// Maximum bytes of the words of a [`crate::CallError`].
pub const CALL_ERROR_BYTES: usize = 256;
/// Maximum bytes of a failure's text in brief ([`crate::Failure::brief`]).
pub const BRIEF_FAILURE_BYTES: usize = 1_024;
/// Maximum bytes of a kernel's name in a [`crate::KernelFault`].
pub const FAULT_KERNEL_BYTES: usize = 256;
/// Maximum bytes of a source file's path in a [`crate::KernelFault`].
pub const FAULT_FILE_BYTES: usize = 256;
/// Maximum bytes of the explanation in a [`crate::KernelFault`].
pub const FAULT_DETAIL_BYTES: usize = 2_048;
/// Maximum number of devices in one request.
pub const DEVICES: u32 = 16;
/// Maximum number of devices in an answer to a [`crate::DevicesRequest`].
pub const DEVICES_NAMED: usize = 64;
/// Maximum number of tenants in one [`crate::MemoryStatus`].
pub const STATUS_TENANTS: usize = 1_000;
/// Maximum number of sessions in one [`crate::MemoryStatus`].
pub const STATUS_SESSIONS: usize = 2_000;
/// Maximum number of sessions in one [`crate::Sessions`].
pub const SESSION_ROWS: usize = 512;
/// Maximum number of sessions in one [`crate::Residency`].
pub const RESIDENCY_ROWS: usize = 1_024;
/// Maximum bytes of a [`crate::ShortText`].
pub const SHORT_TEXT: usize = 64;
/// Maximum number of worker groups that a tenant is bound to.
pub const GROUPS: usize = 64;
/// Maximum number of images that a worker names.
pub const IMAGES: usize = 64;
/// Maximum number of samples of its sessions' weights that a worker names.
pub const WEIGHTS: usize = 128;
/// Maximum number of modules that one session has loaded.
pub const MODULES: u32 = 4_096;
/// Maximum number of grants in one grant batch.
pub const BATCH_GRANTS: usize = 512;
/// Maximum number of reports in one done message.
pub const DONE_REPORTS: usize = 1_024;
/// Number of values kept of each entry of the state bucket, including the latest, so that versions
/// of the profile can be inspected and pinned. It is the maximum of a bucket.
pub const STATE_HISTORY: i64 = 64;
/// Maximum bytes of one record block.
pub const RECORD_BLOCK_BYTES: usize = 64 << 10;
/// Maximum payload of our messages; the broker must allow it.
pub const MESSAGE_BYTES: usize = 1 << 20;
/// Number of ops that a session may send to its worker, and announce to its leader, before it has
/// the first credit of either.
pub const FIRST_OPS: u64 = 1024;
/// Staged bytes that a session may have unacknowledged before the first credit of its worker.
pub const FIRST_STAGING: u64 = 1 << 20;
