//! Ids, subjects, messages, versions and limits of the Warploom bus: no I/O.
//!
//! `docs/reference/wire.md` describes the same for clients in other languages; the golden bytes
//! under `tests/` keep the two consistent. The four hot messages ([`Batch`], [`Intent`],
//! [`GrantBatch`], [`Done`]) are small MessagePack arrays around packed little-endian columns.
//! Decoding them borrows from the message and allocates nothing. All other messages are maps by
//! field name.
//!
//! Decoding never panics on any input. For the four hot messages it allocates only a grant batch's
//! opens and a done report's faults. For others it allocates at most a small multiple of the
//! message's own size.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod address;
mod broker_url;
mod call_error;
mod codec;
mod control;
mod error;
mod id;
mod invariant;
mod kernel_fault;
mod launch_path;
pub mod limits;
mod record;
pub mod subject;
mod trace;

pub use address::Window;
pub use broker_url::{BrokerUrl, without_logins};
pub use call_error::CallError;
pub use codec::chunked::{Parcel, Spares};
pub use codec::column::{Column, Row};
pub use codec::framing::Carrier;
pub use codec::message::{Message, MessageError, WIRE_VERSION, decode, encode, encode_into};
pub use codec::sample_hash::SampleHash;
pub use control::allowance::Allowance;
pub use control::devices::{Devices, DevicesRequest, TenantDevice};
pub use control::drain::{Drain, Leave};
pub use control::ipc::{ExportKey, ExportPlace, IpcAction, IpcAnswer, IpcRequest};
pub use control::liveness::{
    Alive, CloseReason, CloseRequest, Hold, LeaderBeat, LeaderNotice, Lost, Rejected, WorkerBeat,
};
pub use control::memory::{MemoryAnswer, MemoryRequest};
pub use control::memory_status::{
    MemoryStatus, MemoryStatusRequest, SessionMemoryStatus, TenantMemoryStatus,
};
pub use control::opening::{OpenAnswer, OpenRequest, Opened};
pub use control::placement::{Groups, HeldImages, OtherDevice, PlaceStatus, WeightSample, Weights};
pub use control::process::{ClientProcess, ShortText};
pub use control::properties::{CLUSTER_BLOCKS, CLUSTER_OCCUPANCY, DeviceProperties};
pub use control::quota::{Quotas, TenantQuota};
pub use control::residency::{Place, Residency, SessionResidency, SwapStatus};
pub use control::sessions::{SessionStatus, SessionWait, Sessions, SessionsRequest};
pub use control::settings::{
    ClusterSettings, Measured, MeasuredKernel, TenantLimits, TenantSettings, Usage, UsageRow,
};
pub use control::status::{
    LostWorker, ProfileStatus, Status, StatusRequest, StoreStatus, TenantStatus, WorkerStatus,
};
pub use control::target::{Admission, AdmissionAnswer, AdmissionRequest, Attainment, Feasibility};
pub use error::{Code, Failure};
pub use id::{
    ContentHash, Epoch, GlobalPosition, GpuId, GpuPosition, IdError, Incarnation, InputNumber,
    KernelKey, LeaderId, ModuleHash, ModuleId, OpNumber, SessionId, Tenant,
};
pub use invariant::Invariant;
pub use kernel_fault::{FaultAccess, FaultKind, KernelFault, KernelFaultError, SourceLine};
pub use launch_path::batch::Batch;
pub use launch_path::descriptor::{DESCRIPTOR_BYTES, write_descriptor};
pub use launch_path::done::{Done, DoneReport, FaultRow, Outcome, Received, SessionFault, fold};
pub use launch_path::fingerprint::FunctionFingerprint;
pub use launch_path::grant::{Grant, GrantBatch, OpenGrant};
pub use launch_path::intent::{CostClass, CostRun, Intent};
pub use launch_path::op::{Dim, Launch, LaunchAttributes, Op, OpRef};
pub use launch_path::ops::{OpError, Ops, OpsIter};
pub use launch_path::session_data::{
    ClientState, CopyOffer, DataChunk, DeviceResult, EventTime, HeldChunks, Prepared, RefusedImage,
    ResultKind, Staged, Symbol, WorkerAck,
};
pub use launch_path::tensor_map::{
    TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TENSOR_MAP_PARAMETER, TensorMap, TensorPart,
};
pub use launch_path::texture::{AddressMode, Channel, TEXTURE_BYTES, Texture, TextureShape};
pub use launch_path::times::{COMPILATIONS, Compilation, DoneTimes, ReportTimes};
pub use record::chain::{Chain, ChainEntry, GpuTail, GrantKind, digest};
pub use record::kernel::{KernelRecord, Spread};
pub use record::profile::ProfileHash;
pub use record::seal::{
    Refusal, Seal, SealAnswer, SealPage, SealReply, SealedGrant, SealedName, SealedSession,
};
pub use record::unstored::UnstoredCopy;
pub use record::usage::{
    ClusterUsage, Fold, Folded, KernelName, KernelUse, MemoryUse, MoveTotals, TenantMoves,
    UsageBlock, UsageEnd, UsageEnds, UseTotals, WorkerUsage, usage_day,
};
pub use trace::{
    RequestReport, RequestReports, RequestRun, SpanId, TraceContext, TraceContextError, TraceId,
};
