//! Groups of workers, and the contents of a worker by which sessions are placed.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::address::Window;
use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::{rows, text};
use crate::id::{GpuId, Incarnation, SessionId, Tenant};
use crate::limits;

/// Names of groups of workers, with the rules of tenants' names: sorted, without duplicates. Small
/// if empty, because a status has one per tenant.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "a pointer is all that most tenants need"
)]
pub struct Groups(Option<Box<String>>);

impl Groups {
    /// Creates groups from names; `None` if there are more than [`limits::GROUPS`].
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = Tenant>) -> Option<Self> {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let texts: Vec<_> = names.iter().map(Tenant::as_str).collect();
        (texts.len() <= limits::GROUPS).then(|| Self::joined(texts.join(",")))
    }

    fn joined(names: String) -> Self {
        Self((!names.is_empty()).then(|| Box::new(names)))
    }

    fn text(&self) -> &str {
        self.0.as_deref().map_or("", String::as_str)
    }

    /// True if there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.text().split(',').filter(|name| !name.is_empty())
    }

    /// True if the group is among the names.
    #[must_use]
    pub fn contains(&self, group: &Tenant) -> bool {
        self.names().any(|name| name == group.as_str())
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Groups({self})")
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let joined = text::deserialize(deserializer)?;
        let mut last = "";
        for (index, name) in joined.split(',').enumerate() {
            if joined.is_empty() {
                break;
            }
            name.parse::<Tenant>().map_err(D::Error::custom)?;
            if name <= last || index >= limits::GROUPS {
                return Err(D::Error::custom("groups are sorted, each once, and few"));
            }
            last = name;
        }
        Ok(Self::joined(joined))
    }
}

/// Images that a worker has: the tenant that sent each, and the first 64 bits of its hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeldImages(#[serde(with = "rows")] pub Vec<(Tenant, u64)>);

/// A sample of the large copies from the host that a tenant's sessions hold on a worker, or held
/// there last: a row of 48 bytes, fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightSample {
    /// The tenant.
    pub tenant: Tenant,
    /// The copy's fingerprint; equal bytes have equal ones.
    pub fingerprint: u64,
    /// Resident bytes of the tenant that the sample represents; 0 if none are resident now.
    pub bytes: u64,
}

impl Row for WeightSample {
    const SIZE: usize = 48;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.fingerprint, self.bytes]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            fingerprint: fields.u64()?,
            bytes: fields.u64()?,
        })
    }
}

/// A worker's report on the weights of its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weights(#[serde(with = "rows")] pub Vec<WeightSample>);

/// A further device in an answer to an open request: a row of 56 bytes, fields in this order, `gpu`
/// as a number of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDevice {
    /// The session.
    pub session: SessionId,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// The worker that holds it.
    pub incarnation: Incarnation,
    /// The device of that worker.
    pub gpu: GpuId,
    /// The session's addresses.
    pub window: Window,
    /// Memory that the tenant may hold there, bytes.
    pub quota: u64,
}

impl Row for OtherDevice {
    const SIZE: usize = 56;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.session.0, self.ordinal, self.incarnation.0]);
        put(out, &[u64::from(self.gpu)]);
        put(out, &[self.window.base, self.window.size, self.quota]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            session: SessionId(fields.u64()?),
            ordinal: fields.u64()?,
            incarnation: Incarnation(fields.u64()?),
            gpu: GpuId::try_from(fields.u64()?).ok()?,
            window: fields.window()?,
            quota: fields.u64()?,
        })
    }
}

/// The state of one worker that placement is decided by: a row of a status, 64 bytes, fields in
/// this order, `exclusive` and `busy` as numbers of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceStatus {
    /// The worker's group.
    pub group: Tenant,
    /// True if the worker takes only tenants bound to its group, one at a time.
    pub exclusive: bool,
    /// Memory that sessions may have together, bytes.
    pub capacity: u64,
    /// Unallocated part of the capacity, bytes.
    pub free: u64,
    /// Percent of the device's time that was granted recently.
    pub busy: u8,
}

impl Row for PlaceStatus {
    const SIZE: usize = 64;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.group.padded());
        put(out, &[u64::from(self.exclusive), self.capacity]);
        put(out, &[self.free, u64::from(self.busy)]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            group: fields.tenant()?,
            exclusive: fields.u64()? != 0,
            capacity: fields.u64()?,
            free: fields.u64()?,
            busy: fields.u64()?.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Tenant {
        name.parse().expect("a name")
    }

    #[test]
    fn groups_are_a_set() {
        let groups = Groups::new(["b", "a", "b"].map(group)).expect("few");
        assert_eq!(groups.names().collect::<Vec<_>>(), ["a", "b"]);
        assert!(groups.contains(&group("a")) && !groups.contains(&group("ab")));
        let text = rmp_serde::to_vec(&groups).expect("text");
        assert_eq!(rmp_serde::from_slice::<Groups>(&text).ok(), Some(groups));
        let none = rmp_serde::to_vec(&Groups::default()).expect("text");
        assert_eq!(rmp_serde::from_slice(&none).ok(), Some(Groups::default()));
        let many = (0..=limits::GROUPS).map(|index| group(&format!("g{index}")));
        assert_eq!(Groups::new(many), None);
    }

    #[test]
    fn what_is_no_set_of_groups_is_refused() {
        for bad in ["b,a", "a,a", "a,", ",", "A", "a b"] {
            let text = rmp_serde::to_vec(bad).expect("text");
            assert!(rmp_serde::from_slice::<Groups>(&text).is_err(), "{bad}");
        }
    }
}
