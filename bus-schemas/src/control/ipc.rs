//! Memory of one session that another session of its tenant, on the same worker, may use as well: what CUDA
//! calls IPC memory. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::error::Failure;

/// What exported memory is known by: random, drawn by the client that exports it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ExportKey(pub [u64; 2]);

/// Client to worker: something about exported memory. Said again until an [`IpcAnswer`] has its number; one
/// at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcRequest {
    /// Wire version.
    pub v: u16,
    /// Its number among those of the session, from 1.
    pub number: u64,
    /// What is asked for.
    pub action: IpcAction,
}

impl Message for IpcRequest {
    const ARRAY: bool = false;
}

/// What a client asks for. What its ops did is there: it has waited for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpcAction {
    /// Other sessions of the tenant may use the allocation that begins at `address`, until it is freed.
    Export {
        /// What others know it by.
        key: ExportKey,
        /// Where it begins.
        address: u64,
    },
    /// What was exported by that key?
    Find {
        /// What it is known by.
        key: ExportKey,
    },
    /// The session uses it too: its first byte is to lie at `address`.
    Import {
        /// What it is known by.
        key: ExportKey,
        /// Where the client has kept room for it, as [`IpcAnswer`] said.
        address: u64,
    },
    /// The session does not use what lies at `address` any more.
    Drop {
        /// Where it was imported.
        address: u64,
    },
}

/// What whoever imports an allocation needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExportPlace {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes that room is kept for before its first byte.
    pub before: u64,
    /// Bytes that room is kept for in all, from a multiple of [`crate::limits::IPC_ALIGN`] on.
    pub span: u64,
}

/// Worker to client: the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcAnswer {
    /// Wire version.
    pub v: u16,
    /// The request that it answers.
    pub number: u64,
    /// What was exported or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<ExportPlace>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for IpcAnswer {
    const ARRAY: bool = false;
}
