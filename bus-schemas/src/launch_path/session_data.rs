//! A session's data beside its batches: staged transfers, acknowledgements, results.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Column, Fields, Row, put};
use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::error::Failure;
use crate::id::{ContentHash, Epoch, LeaderId, ModuleHash, OpNumber};
use crate::limits::{CONTENT_BYTES, OFFER_MOST};

/// Client to worker: a part of a staged transfer (a large copy or a module image). Transfers are
/// numbered 1, 2, 3 … by their session. Chunks may come again and in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataChunk<'a> {
    /// Wire version.
    pub v: u16,
    /// The transfer.
    pub transfer: u64,
    /// Bytes of the whole transfer.
    pub total: u64,
    /// Where these bytes lie in it.
    pub offset: u64,
    /// For a module image, 32 bytes: its hash, checked by the worker when the transfer is whole.
    /// Empty for a copy. An empty chunk with a hash is an offer: if the tenant gave this worker
    /// that image before, the acknowledgement says the transfer is whole at once. An offer of a
    /// transfer that is whole asks what the device says of the image.
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
    /// The module hash, where there is one.
    #[must_use]
    pub fn module(&self) -> Option<ModuleHash> {
        self.hash.try_into().ok().map(ModuleHash)
    }
}

/// Client to worker, before the bytes of a large copy: which of them does the worker hold already? Repeated
/// until an acknowledgement has a [`HeldChunks`] for each of its transfers, or says that it is whole.
///
/// The copy is divided into transfers of [`limits::PIECE_BYTES`](crate::limits::PIECE_BYTES), the last
/// may be shorter, with consecutive numbers; each transfer into chunks of
/// [`limits::CONTENT_BYTES`](crate::limits::CONTENT_BYTES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOffer<'a> {
    /// Wire version.
    pub v: u16,
    /// The first transfer.
    pub transfer: u64,
    /// Bytes of the copy, at most [`limits::OFFER_MOST`](crate::limits::OFFER_MOST).
    pub total: u64,
    /// The hashes of its chunks, 32 bytes each.
    #[serde(with = "serde_bytes")]
    pub hashes: &'a [u8],
}

impl Message for CopyOffer<'_> {
    const ARRAY: bool = true;
}

impl CopyOffer<'_> {
    /// The hashes of its chunks; none where they are not as many as the copy has, or it is empty or too
    /// large.
    pub fn chunks(&self) -> Option<impl Iterator<Item = ContentHash>> {
        let chunks = self.total.div_ceil(CONTENT_BYTES as u64);
        let sized = (1..=OFFER_MOST).contains(&self.total) && self.transfer > 0;
        let (hashes, rest) = self.hashes.as_chunks();
        let fits = sized && rest.is_empty() && hashes.len() as u64 == chunks;
        fits.then(|| hashes.iter().map(|hash| ContentHash(*hash)))
    }
}

/// Which chunks of an offered transfer the worker holds and has taken: a row of an acknowledgement, 16
/// bytes. The others are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldChunks {
    /// The transfer.
    pub transfer: u64,
    /// A bit for each chunk, the lowest for the first.
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

/// Client to worker, repeated while anything is outstanding: what was sent and what was received.
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
    /// Bytes received from its start without a gap; its total once whole.
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
    /// Why: the device's log.
    pub failure: Failure,
}

/// Worker to client, on every change (coalesced) and repeated while anything is outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerAck<'a> {
    /// Wire version.
    pub v: u16,
    /// The epoch the worker is sealed to: a client that knows a lower one looks for the leader.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
    /// Ops received without a gap.
    pub received: OpNumber,
    /// Ops done without a gap.
    pub done: OpNumber,
    /// The client may send ops through this number.
    pub send_through: OpNumber,
    /// The client may have this many staged bytes unacknowledged.
    pub staging: u64,
    /// Number of the session's last result.
    pub results: u64,
    /// Transfers in progress.
    #[serde(borrow)]
    pub staged: Column<'a, Staged>,
    /// The session's error, once it has one: nothing after the failed op runs.
    pub failure: Option<Failure>,
    /// The op that failed, 0 where it was none.
    pub failed_op: OpNumber,
    /// Module images that the device has found it can run since the last acknowledgement. Said
    /// once, and again for each offer of such an image under its transfer's number.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub prepared: Column<'a, Prepared>,
    /// As `prepared`: those that it cannot run. To load one fails the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "list")]
    pub refused: Vec<RefusedImage>,
    /// Answers to [`CopyOffer`]s since the last acknowledgement: each transfer once, and again for each
    /// offer of it.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub held: Column<'a, HeldChunks>,
}

impl Message for WorkerAck<'_> {
    const ARRAY: bool = false;
}

/// When an event was reached: a row of a result, 16 bytes (the event, 4 zero bytes, the time).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// The session's event number.
    pub event: u32,
    /// Nanoseconds of a clock of the device that only goes forward.
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

/// Where a module's variable lies in its session: a row of an answer, 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Its first device address; 0 where the device does not have it.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether kernels may write to it; copies may in any case.
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

/// What a result answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum ResultKind {
    /// A sync: every earlier op is done.
    Sync,
    /// A copy to the host: `bytes` lie at `offset` of `total`.
    CopyOut,
    /// Nothing: what kernels printed since the last sync until an op failed. The session's last.
    Printed,
    /// Symbols: a [`Symbol`] for each variable.
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

/// Worker to client: one result, or a part of a large one. Results are numbered 1, 2, 3 … by
/// their session, in op order; the worker keeps each until it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceResult<'a> {
    /// Wire version.
    pub v: u16,
    /// The result's number.
    pub number: u64,
    /// The op it answers, or that failed.
    pub op: OpNumber,
    /// What it answers.
    pub kind: ResultKind,
    /// Device nanoseconds of the session's ops since the previous result.
    pub device_ns: u64,
    /// Bytes of the whole result.
    pub total: u64,
    /// Where these bytes lie in it.
    pub offset: u64,
    /// The bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: &'a [u8],
    /// With the part at offset 0: of each timed event recorded since the previous result, when it
    /// was recorded last; at most [`limits::EVENT_TIMES`](crate::limits::EVENT_TIMES). Left out
    /// where there are none, as before there were any.
    #[serde(borrow, default, skip_serializing_if = "Column::is_empty")]
    pub events: Column<'a, EventTime>,
}

impl Message for DeviceResult<'_> {
    const ARRAY: bool = true;
}
