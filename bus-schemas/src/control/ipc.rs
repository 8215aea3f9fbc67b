//! Memory of one session that another session of its tenant on the same worker may use too, which
//! CUDA calls IPC memory. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::error::Failure;

/// The key of exported memory: random, drawn by the exporting client.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ExportKey(pub [u64; 2]);

/// Client to worker: an action on exported memory. Repeated until an [`IpcAnswer`] has its number;
/// one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcRequest {
    /// Wire version.
    pub v: u16,
    /// The request's number within the session, from 1.
    pub number: u64,
    /// The requested action.
    pub action: IpcAction,
}

impl Message for IpcRequest {
    const ARRAY: bool = false;
}

/// A requested action. The client has waited for the ops that affect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpcAction {
    /// Lets other sessions of the tenant use the allocation at `address`, until it is freed.
    Export {
        /// The key for other sessions.
        key: ExportKey,
        /// First address of the allocation.
        address: u64,
    },
    /// Asks for the memory that was exported under a key.
    Find {
        /// The key.
        key: ExportKey,
    },
    /// Maps the memory into the session, with its first byte at `address`.
    Import {
        /// The key.
        key: ExportKey,
        /// An address where the client has reserved room, as sized in the [`IpcAnswer`].
        address: u64,
    },
    /// Ends the session's use of the memory at `address`.
    Drop {
        /// The address of the import.
        address: u64,
    },
}

/// The layout that a session needs to import an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExportPlace {
    /// Size of the allocation in bytes.
    pub bytes: u64,
    /// Bytes of room to reserve before its first byte.
    pub before: u64,
    /// Bytes of room to reserve in total, from a multiple of [`crate::limits::IPC_ALIGN`] on.
    pub span: u64,
}

/// Worker to client: the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcAnswer {
    /// Wire version.
    pub v: u16,
    /// Number of the request.
    pub number: u64,
    /// The memory that was exported or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ExportPlace>,
    /// The failure, if the action failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for IpcAnswer {
    const ARRAY: bool = false;
}
