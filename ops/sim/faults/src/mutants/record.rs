//! Blocks of the record that name unrecorded positions, as a mutant of a leader writes them.

use std::fmt;

use bus_schemas::{Epoch, LeaderId};
use scheduler_leader_core::replay::Gap;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sim_cluster::wire::{pack, unpack};

use super::kind::Mutant;

/// The part of a record's block that a mutant changes.
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

/// Bytes, serialized as bytes.
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

/// Rewrites a block that names unrecorded positions, as a mutant of a leader does.
#[must_use]
pub(crate) fn bend_gaps(bytes: &[u8], mutant: Mutant) -> Vec<u8> {
    let Some(mut block) = unpack::<Block>(bytes).filter(|block| block.gap) else {
        return bytes.to_vec();
    };
    match mutant {
        Mutant::HidesGaps => block.gaps.clear(),
        Mutant::NamesTooLittle => block.gaps.iter_mut().for_each(|gap| gap.first += 1),
        _ => block.gaps.iter_mut().for_each(|gap| gap.reason.clear()),
    }
    pack(&block)
}
