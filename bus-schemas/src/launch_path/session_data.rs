//! A session's data beside its batches: staged transfers, acknowledgements, results.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Column, Fields, Row, put};
use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::error::Failure;
use crate::id::{ContentHash, Epoch, LeaderId, ModuleHash, OpNumber};
use crate::limits::{CONTENT_BYTES, OFFER_MOST};

/// Client to worker: a part of a staged transfer (a large copy or a module image). The session
/// numbers its transfers 1, 2, 3 … Chunks may be repeated and come in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataChunk<'a> {
    /// Wire version.
    pub v: u16,
    /// The transfer.
    pub transfer: u64,
    /// Bytes of the whole transfer.
    pub total: u64,
    /// Offset of these bytes in the transfer.
    pub offset: u64,
    /// For a module image, its hash of 32 bytes, which the worker checks when the transfer is
    /// complete. Empty for a copy. An empty chunk with a hash is an offer: if the tenant sent this
    /// image to the worker before, the acknowledgement reports the transfer complete at once. An
    /// offer of a complete transfer asks for the device's verdict on the image.
    #[serde(with = "serde_bytes")]
    pub hash: &'a [u8],
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: &'a [u8],
}

impl Message for DataChunk<'_> {
    const ARRAY: bool = true;
}

impl DataChunk<'_> {
    /// Returns the module hash, if there is one.
    #[must_use]
    pub fn module(&self) -> Option<ModuleHash> {
        self.hash.try_into().ok().map(ModuleHash)
    }
}

/// Client to worker, before the bytes of a large copy: a request for the chunks that the worker
/// already holds. Repeated until an acknowledgement has a [`HeldChunks`] for each of its transfers,
/// or reports it complete.
///
/// The copy is divided into transfers of [`limits::PIECE_BYTES`](crate::limits::PIECE_BYTES) with
/// consecutive numbers; the last one may be shorter. Each transfer is divided into chunks of
/// [`limits::CONTENT_BYTES`](crate::limits::CONTENT_BYTES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOffer<'a> {
    /// Wire version.
    pub v: u16,
    /// The first transfer.
    pub transfer: u64,
    /// Bytes of the copy, at most [`limits::OFFER_MOST`](crate::limits::OFFER_MOST).
    pub total: u64,
    /// Hashes of the copy's chunks, 32 bytes each.
    #[serde(with = "serde_bytes")]
    pub hashes: &'a [u8],
}

impl Message for CopyOffer<'_> {
    const ARRAY: bool = true;
}

impl CopyOffer<'_> {
    /// Returns the hashes of the chunks; `None` if their number does not match the copy, or if the
    /// copy is empty or too large.
    pub fn chunks(&self) -> Option<impl Iterator<Item = ContentHash>> {
        let chunks = self.total.div_ceil(CONTENT_BYTES as u64);
        let sized = (1..=OFFER_MOST).contains(&self.total) && self.transfer > 0;
        let (hashes, rest) = self.hashes.as_chunks();
        let fits = sized && rest.is_empty() && hashes.len() as u64 == chunks;
        fits.then(|| hashes.iter().map(|hash| ContentHash(*hash)))
    }
}

/// The chunks of an offered transfer that the worker holds and has taken: a row of an
/// acknowledgement, 16 bytes. The client must send the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldChunks {
    /// The transfer.
    pub transfer: u64,
    /// One bit per chunk, the lowest for the first.
    pub chunks: u64,
}

impl Row for HeldChunks {
    const SIZE: usize = 16;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.transfer, self.chunks]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            transfer: fields.u64()?,
            chunks: fields.u64()?,
        })
    }
}

/// Client to worker, repeated while anything is outstanding: the ops sent and the results received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientState {
    /// Wire version.
    pub v: u16,
    /// Ops sent through this number.
    pub sent: OpNumber,
    /// Results received without a gap.
    pub results: u64,
}

impl Message for ClientState {
    const ARRAY: bool = true;
}

/// Progress of one transfer: a row, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// The transfer.
    pub transfer: u64,
    /// Bytes received from its start without a gap; the total once it is complete.
    pub received: u64,
}

impl Row for Staged {
    const SIZE: usize = 16;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.transfer.to_le_bytes());
        out.extend_from_slice(&self.received.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            transfer: fields.u64()?,
            received: fields.u64()?,
        })
    }
}

/// The transfer of a module image that the device can run: a row of an acknowledgement, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared(pub u64);

impl Row for Prepared {
    const SIZE: usize = 8;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Fields(bytes).u64().map(Self)
    }
}

/// A module image that the device cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedImage {
    /// Its transfer.
    pub transfer: u64,
    /// The reason: the device's log.
    pub failure: Failure,
}

/// Worker to client, on every change (coalesced) and repeated while anything is outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerAck<'a> {
    /// Wire version.
    pub v: u16,
    /// The epoch to which the worker is sealed; a client that knows a lower one looks for the
    /// leader.
    pub epoch: Epoch,
    /// The leader of that epoch.
    pub leader: LeaderId,
    /// Ops received without a gap.
    pub received: OpNumber,
    /// Ops done without a gap.
    pub done: OpNumber,
    /// Last op that the client may send.
    pub send_through: OpNumber,
    /// Maximum staged bytes that the client may have unacknowledged.
    pub staging: u64,
    /// Number of the session's last result.
    pub results: u64,
    /// Transfers in progress.
    #[serde(borrow)]
    pub staged: Column<'a, Staged>,
    /// The session's error, once it has failed: nothing after the failed op runs.
    pub failure: Option<Failure>,
    /// The op that failed; 0 if none did.
    pub failed_op: OpNumber,
    /// Module images that the device was found able to run since the last acknowledgement. Each is
    /// reported once, and again for each offer of such an image under its transfer's number.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub prepared: Column<'a, Prepared>,
    /// The same for images that it cannot run. Loading one fails the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "list")]
    pub refused: Vec<RefusedImage>,
    /// Answers to [`CopyOffer`]s since the last acknowledgement: each transfer once, and again for
    /// each offer of it.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub held: Column<'a, HeldChunks>,
}

impl Message for WorkerAck<'_> {
    const ARRAY: bool = false;
}

/// The time of an event: a row of a result, 16 bytes (the event, 4 zero bytes, the time).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// The session's event number.
    pub event: u32,
    /// Nanoseconds of a monotonic clock of the device.
    pub ns: u64,
}

impl Row for EventTime {
    const SIZE: usize = 16;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[u64::from(self.event), self.ns]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (event, _) = (fields.u32()?, fields.u32()?);
        Some(Self {
            event,
            ns: fields.u64()?,
        })
    }
}

/// The place of a module's variable in its session: a row of an answer, 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// First device address; 0 if the device does not have the variable.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// True if kernels may write to it; copies may in any case.
    pub writable: bool,
}

impl Row for Symbol {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.address, self.bytes, u64::from(self.writable)]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            address: fields.u64()?,
            bytes: fields.u64()?,
            writable: fields.u64()? != 0,
        })
    }
}

/// The kind of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum ResultKind {
    /// Answers a sync: every earlier op is done.
    Sync,
    /// Answers a copy to the host: `bytes` are at `offset` of `total`.
    CopyOut,
    /// Answers no op: text that kernels printed between the last sync and the failure of an op. The
    /// session's last result.
    Printed,
    /// Answers symbols: a [`Symbol`] for each variable.
    Symbols,
}

impl From<ResultKind> for u8 {
    fn from(kind: ResultKind) -> Self {
        match kind {
            ResultKind::Sync => 0,
            ResultKind::CopyOut => 1,
            ResultKind::Printed => 2,
            ResultKind::Symbols => 3,
        }
    }
}

impl TryFrom<u8> for ResultKind {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            0 => Ok(Self::Sync),
            1 => Ok(Self::CopyOut),
            2 => Ok(Self::Printed),
            3 => Ok(Self::Symbols),
            _ => Err(format!("no result kind {number}")),
        }
    }
}

/// Worker to client: one result, or a part of a large one. The session's results are numbered 1, 2,
/// 3 … in op order; the worker keeps each until it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceResult<'a> {
    /// Wire version.
    pub v: u16,
    /// The result's number.
    pub number: u64,
    /// The op that it answers, or that failed.
    pub op: OpNumber,
    /// The kind.
    pub kind: ResultKind,
    /// Device nanoseconds of the session's ops since the previous result.
    pub device_ns: u64,
    /// Bytes of the whole result.
    pub total: u64,
    /// Offset of these bytes in the result.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: &'a [u8],
    /// With the part at offset 0: the last time of each timed event recorded since the previous
    /// result, at most [`limits::EVENT_TIMES`](crate::limits::EVENT_TIMES). Left out if there are
    /// none, as before this field existed.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub events: Column<'a, EventTime>,
}

impl Message for DeviceResult<'_> {
    const ARRAY: bool = true;
}
