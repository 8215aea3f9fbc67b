//! Bytes that are no message of the bus: values in the store, failures about unreadable messages.

use std::fmt;

use bus_schemas::{Epoch, LeaderId, Status};
use scheduler_leader_core::replay::Gap;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::flaw::Flaw;

/// A value as the store keeps it.
///
/// # Panics
/// Never: the values are plain data.
#[must_use]
pub(crate) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data encodes")
}

/// A value the store kept.
#[must_use]
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    rmp_serde::from_slice(bytes).ok()
}

/// A value the store kept, or what holds where there is none.
#[must_use]
pub(crate) fn unpack_or_default<T: DeserializeOwned + Default>(bytes: Option<&[u8]>) -> T {
    bytes.and_then(unpack).unwrap_or_default()
}

/// Whether a block of the record says that what follows goes unrecorded.
#[must_use]
pub(crate) fn names_gap(block: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Head {
        gap: bool,
    }
    unpack::<Head>(block).is_some_and(|head| head.gap)
}

/// A block of the record, as far as a flaw changes it.
#[derive(Serialize, Deserialize)]
struct Block {
    v: u16,
    order_version: u32,
    epoch: Epoch,
    leader: LeaderId,
    number: u64,
    through: u64,
    gap: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<Gap>,
    bytes: Stream,
}

/// Bytes, written as such.
struct Stream(Vec<u8>);

impl Serialize for Stream {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Stream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Stream;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Stream, E> {
                Ok(Stream(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A block that names what goes unrecorded, as a leader with a flaw writes it.
#[must_use]
pub(crate) fn bend_gaps(bytes: &[u8], flaw: Flaw) -> Vec<u8> {
    let Some(mut block) = unpack::<Block>(bytes).filter(|block| block.gap) else {
        return bytes.to_vec();
    };
    match flaw {
        Flaw::HidesGaps => block.gaps.clear(),
        Flaw::NamesTooLittle => block.gaps.iter_mut().for_each(|gap| gap.first += 1),
        _ => block.gaps.iter_mut().for_each(|gap| gap.reason.clear()),
    }
    pack(&block)
}

/// A message in words, for the trace.
#[must_use]
pub(crate) fn words(subject: &str, bytes: &[u8]) -> String {
    use bus_schemas::{
        Alive, Batch, ClientState, CloseRequest, DataChunk, DeviceResult, Done, Drain, GrantBatch,
        Intent, LeaderBeat, LeaderNotice, Leave, Lost, OpenAnswer, OpenRequest, Refusal, Rejected,
        Seal, SealReply, WorkerAck, WorkerBeat, decode,
    };
    macro_rules! shown {
        ($message:ty) => {
            decode::<$message>(bytes).map_or_else(|error| error.to_string(), |m| format!("{m:?}"))
        };
    }
    match subject.rsplit('.').next().unwrap_or_default() {
        "batch" => decode::<Batch<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |batch| {
                format!(
                    "batch {}+{} results {}",
                    batch.first, batch.count, batch.results
                )
            },
        ),
        "data" => decode::<DataChunk<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |part| {
                let (transfer, total, offset) = (part.transfer, part.total, part.offset);
                format!(
                    "transfer {transfer}: {offset}+{} of {total}",
                    part.bytes.len()
                )
            },
        ),
        "result" => decode::<DeviceResult<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |result| format!("result {} of op {}", result.number, result.op),
        ),
        "state" => shown!(ClientState),
        "order" => {
            decode::<GrantBatch<'_>>(bytes).map_or_else(|error| error.to_string(), |m| order(&m))
        }
        "error" => shown!(Rejected),
        "seal" => shown!(Seal),
        "lost" => shown!(Lost),
        "leave" => shown!(Leave),
        "drain" => shown!(Drain),
        "administrator" => {
            decode::<Status>(bytes).map_or_else(|error| error.to_string(), |it| status(&it))
        }
        "open" => shown!(OpenRequest),
        "close" => shown!(CloseRequest),
        "alive" => shown!(Alive),
        "leader" => shown!(LeaderNotice),
        "worker" => shown!(WorkerAck<'_>),
        "beat" | "reign" => shown!(LeaderBeat),
        _ if subject.contains(".intent.") => decode::<Intent<'_>>(bytes).map_or_else(
            |error| error.to_string(),
            |intent| format!("intent {}+{}", intent.first, intent.count),
        ),
        _ if subject.contains(".l.done.") => shown!(Done<'_>),
        _ if subject.contains(".l.worker.") => shown!(WorkerBeat),
        _ if subject.contains(".l.refusal.") => shown!(Refusal),
        _ if subject.contains(".s.inbox.") => shown!(SealReply),
        _ if subject.contains(".dn.inbox.") => shown!(OpenAnswer),
        _ => format!("{} bytes", bytes.len()),
    }
}

fn status(status: &Status) -> String {
    let drained = status.workers.iter().filter(|worker| worker.draining);
    let drained: Vec<_> = drained.map(|worker| worker.incarnation).collect();
    let (epoch, input, workers) = (status.epoch, status.input, status.workers.len());
    format!("status of epoch {epoch}, input {input}: {workers} workers, drained {drained:?}")
}

fn order(order: &bus_schemas::GrantBatch<'_>) -> String {
    use std::fmt::Write;
    let mut words = format!(
        "order of epoch {} from {} recorded {} reports {}:",
        order.epoch, order.first, order.recorded, order.reports
    );
    for grant in order.grants.iter() {
        let (kind, session) = (grant.kind, grant.session);
        // Writing to a string does not fail.
        let _ = write!(
            words,
            " {kind:?} {session} {}..{} cost {} priority {};",
            grant.first, grant.last, grant.cost, grant.priority
        );
    }
    words
}
