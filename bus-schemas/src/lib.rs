//! Ids, subjects, messages, versions and limits of the Warploom bus: no I/O.
//!
//! `docs/reference/wire.md` describes the same for clients in other languages; the golden bytes
//! under `tests/` hold the two together. The hot four messages ([`Batch`], [`Intent`], [`GrantBatch`],
//! [`Done`]) are small MessagePack arrays around packed little-endian columns, so that decoding
//! borrows from the message and allocates nothing. All other messages are maps by field name.
//!
//! Decoding never panics on any input. It allocates nothing for the hot four but an order's opens
//! and a done's faults, and else no more than a small multiple of the message's own size.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod address;
mod allowance;
mod chain;
mod codec;
mod column;
mod control;
mod data;
mod descriptor;
mod done;
mod drain;
mod error;
mod fingerprint;
mod head;
mod hot;
mod id;
mod invariant;
mod kernel;
pub mod limits;
mod op;
mod opening;
mod ops;
mod owned;
mod parcel;
mod placement;
mod print;
mod profile;
mod properties;
mod seal;
mod settings;
mod status;
pub mod subject;
mod target;
mod texture;
mod unstored;
mod usage;

pub use address::Window;
pub use allowance::Allowance;
pub use chain::{Chain, ChainEntry, GpuTail, GrantKind, digest};
pub use codec::{Message, MessageError, WIRE_VERSION, decode, encode, encode_into};
pub use column::{Column, Row};
pub use control::{
    Alive, CloseReason, CloseRequest, Hold, LeaderBeat, LeaderNotice, Lost, Rejected, WorkerBeat,
};
pub use data::{
    ClientState, DataChunk, DeviceResult, EventTime, Prepared, RefusedImage, ResultKind, Staged,
    Symbol, WorkerAck,
};
pub use descriptor::{DESCRIPTOR_BYTES, write_descriptor};
pub use done::{Done, DoneReport, FaultRow, Outcome, Received, SessionFault, fold};
pub use drain::{Drain, Leave};
pub use error::{Code, Failure};
pub use fingerprint::FunctionFingerprint;
pub use head::Carrier;
pub use hot::{Batch, CostClass, CostRun, Grant, GrantBatch, Intent, OpenGrant};
pub use id::{
    Epoch, GlobalPosition, GpuId, GpuPosition, IdError, Incarnation, InputNumber, KernelKey,
    LeaderId, ModuleHash, ModuleId, OpNumber, SessionId, Tenant,
};
pub use invariant::Invariant;
pub use kernel::{KernelRecord, Spread};
pub use op::{Dim, Launch, Op, OpRef};
pub use opening::{OpenAnswer, OpenRequest, Opened};
pub use ops::{OpError, Ops};
pub use parcel::{Parcel, Spares};
pub use placement::{Groups, HeldImages, OtherDevice, PlaceStatus, WeightSample, Weights};
pub use print::Print;
pub use profile::ProfileHash;
pub use properties::DeviceProperties;
pub use seal::{
    Refusal, Seal, SealAnswer, SealPage, SealReply, SealedGrant, SealedName, SealedSession,
};
pub use settings::{
    ClusterSettings, Measured, MeasuredKernel, TenantLimits, TenantSettings, Usage, UsageRow,
};
pub use status::{ProfileStatus, Status, StatusRequest, StoreStatus, TenantStatus, WorkerStatus};
pub use target::{Admission, AdmissionAnswer, AdmissionRequest, Attainment, Feasibility};
pub use texture::{AddressMode, Channel, Shape, TEXTURE_BYTES, Texture};
pub use unstored::UnstoredCopy;
pub use usage::{
    ClusterUsage, Fold, Folded, KernelName, KernelUse, MemoryUse, UsageBlock, UsageEnd, UsageEnds,
    UseTotals, WorkerUsage, usage_day,
};
