//! The profile's versions in the state bucket, and the one that an administrator pins.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use async_nats::jetstream::kv::{Entry, Operation};
use bus_schemas::{Epoch, KernelKey, KernelRecord, ProfileHash, ProfileStatus, Status};
use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use storage::Stored;

use crate::administrator::{Administrator, Kept};
use crate::errors::{ErrorCode, UsageError};

/// The stored data that errors name.
const KERNELS: Kept = Kept {
    what: "what was measured of kernels",
    code: ErrorCode::Profile,
};
const VERSIONS: Kept = Kept {
    what: "profiles",
    code: ErrorCode::Profile,
};

/// A version as its leader published it, or as it was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileVersion {
    /// The epoch of the leader that learned it.
    #[serde(default)]
    pub epoch: Epoch,
    /// Its number.
    #[serde(default)]
    pub version: u64,
    /// The hash of its estimates.
    #[serde(default)]
    pub hash: ProfileHash,
    /// Estimated nanoseconds of one launch, by key.
    pub entries: Vec<(KernelKey, u64)>,
    /// Time of publication, milliseconds since 1970.
    #[serde(skip)]
    pub at_ms: u64,
}

impl ProfileVersion {
    /// A version with given estimates, to be pinned.
    #[must_use]
    pub fn of(entries: Vec<(KernelKey, u64)>) -> Self {
        Self {
            epoch: 0,
            version: 1,
            hash: ProfileHash::of(entries.iter().copied().collect::<BTreeMap<_, _>>()),
            entries,
            at_ms: 0,
        }
    }

    fn read(entry: &Entry) -> Result<Option<Self>> {
        if entry.operation != Operation::Put {
            return Ok(None);
        }
        let mut version: Self = serde_json::from_slice(&entry.value).with_context(|| {
            ErrorCode::Profile.failed(format!("entry {} of the state bucket", entry.key))
        })?;
        version.at_ms =
            u64::try_from(entry.created.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
        Ok(Some(version))
    }

    /// The estimate for a key.
    #[must_use]
    pub fn estimate(&self, key: KernelKey) -> Option<u64> {
        let at = self.entries.binary_search_by_key(&key, |(key, _)| *key);
        at.ok().map(|at| self.entries[at].1)
    }

    /// The changes since the version before.
    #[must_use]
    pub fn since(&self, before: &Self) -> Changes {
        let mut changes = Changes::default();
        let times = |(before, after): (u64, u64)| {
            before.max(after) as f64 / before.min(after).max(1) as f64
        };
        for (key, after) in &self.entries {
            match before.estimate(*key) {
                Some(known) if known == *after => {}
                Some(known) => {
                    changes.changed += 1;
                    let this = (known, *after);
                    let most = changes.most.map_or(0.0, |(_, most)| times(most));
                    if times(this) > most {
                        changes.most = Some((*key, this));
                    }
                }
                None => changes.new += 1,
            }
        }
        changes
    }

    /// True if `name` means this version: its number, or the beginning of its hash.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let number = name.parse() == Ok(self.version);
        number || (name.len() >= 8 && self.hash.to_string().starts_with(name))
    }
}

/// The differences between a version and the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Kernels without an estimate in the version before.
    pub new: u64,
    /// Kernels with another estimate in the version before.
    pub changed: u64,
    /// The changed kernel with the largest factor between the estimates: before and after.
    pub most: Option<(KernelKey, (u64, u64))>,
}

impl Administrator {
    /// Measurements of kernels that ran within 30 days, by key, as far as workers have reported
    /// them.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker does not answer.
    pub async fn kernel_records(&self) -> Result<BTreeMap<KernelKey, KernelRecord>> {
        let mut records = BTreeMap::new();
        let Some(store) = self.bucket_of(Stored::Kernels, KERNELS).await? else {
            // No kernel was ever measured.
            return Ok(records);
        };
        let status = store.status().await;
        if status.map_err(|error| KERNELS.failed(error))?.values() == 0 {
            return Ok(records);
        }
        let entries = store.watch_with_history(">").await;
        let mut entries = entries.map_err(|error| KERNELS.failed(error))?;
        loop {
            let next = tokio::time::timeout(self.stall(), entries.next()).await;
            let next = next.map_err(|_| KERNELS.silent("the bucket stalls"))?;
            let entry = next.ok_or_else(|| KERNELS.silent("the bucket ends early"))?;
            let entry = entry.map_err(|error| KERNELS.failed(error))?;
            // Records of another version of this program are skipped.
            let record = serde_json::from_slice(&entry.value);
            if let (Ok(key), Ok(record)) = (entry.key.parse(), record) {
                records.insert(key, record);
            }
            if entry.seen_current {
                return Ok(records);
            }
        }
    }

    /// The kept versions, the oldest first.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub async fn profile_versions(&self) -> Result<Vec<ProfileVersion>> {
        let store = self.bucket().await?;
        let entries = store.history("profile").await;
        let entries = entries.map_err(|error| VERSIONS.failed(error))?;
        let read = tokio::time::timeout(self.stall(), entries.try_collect::<Vec<Entry>>()).await;
        let read = read.map_err(|_| VERSIONS.silent("the bucket stalls"))?;
        let entries = read.map_err(|error| VERSIONS.failed(error))?;
        let versions = entries.iter().map(ProfileVersion::read);
        let versions: Vec<_> = versions.collect::<Result<_>>()?;
        Ok(versions.into_iter().flatten().collect())
    }

    /// The pinned profile.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub async fn pinned(&self) -> Result<Option<ProfileVersion>> {
        let entry = self.entry("pin").await.context("reading the pin")?;
        entry.as_ref().map_or(Ok(None), ProfileVersion::read)
    }

    /// A kept version, or the pinned one, by number or by the beginning of its hash; without a
    /// name, the newest.
    ///
    /// # Errors
    /// [`UsageError`] if there is no such version.
    pub async fn profile_version(&self, name: Option<&str>) -> Result<ProfileVersion> {
        let mut versions = self.profile_versions().await?;
        versions.extend(self.pinned().await?.filter(|_| name.is_some()));
        let called = |version: &&ProfileVersion| name.is_none_or(|name| version.is_called(name));
        match (versions.iter().rev().find(called), name) {
            (Some(version), _) => Ok(version.clone()),
            (None, None) => bail!(UsageError(
                "nothing was measured yet: there is no profile version".into()
            )),
            (None, Some(name)) => bail!(UsageError(format!(
                "no profile version {name} is kept; `warploom profile list` shows which are"
            ))),
        }
    }

    /// Makes leaders order by this version, regardless of measurements.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub async fn pin(&self, version: &ProfileVersion) -> Result<()> {
        let value = serde_json::to_vec(version)?;
        self.put("pin", value).await.context("writing the pin")
    }

    /// Lets leaders learn again.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub async fn unpin(&self) -> Result<()> {
        self.remove("pin").await.context("removing the pin")
    }
}

/// Waits until the leader reports the change; without a leader, the next one reads it.
///
/// # Errors
/// [`crate::errors::Unreachable`] if the leader does not.
pub async fn applied(
    administrator: &Administrator,
    done: impl Fn(&ProfileStatus) -> bool + Send + Sync,
) -> Result<()> {
    let unled = "no leader answers; the next one will read it";
    let late = "the leader orders by another profile";
    let done = |status: &Status| status.profile.as_ref().is_none_or(&done);
    administrator.obeyed(unled, late, done).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_most_is_told_by_its_factor() {
        let entries = |rows: &[(u64, u64)]| {
            let rows = rows.iter().map(|(key, ns)| (KernelKey(*key), *ns));
            ProfileVersion::of(rows.collect())
        };
        let before = entries(&[(1, 100), (2, 1_000), (3, 70), (4, 9)]);
        let after = entries(&[(1, 25), (2, 3_000), (3, 70), (5, 8), (6, 8)]);
        let changes = after.since(&before);
        assert_eq!((changes.new, changes.changed), (2, 2));
        assert_eq!(changes.most, Some((KernelKey(1), (100, 25))));
        assert_eq!(after.since(&after), Changes::default());
    }

    #[test]
    fn versions_are_called_by_number_or_hash() {
        let entries = vec![(KernelKey(1), 5)];
        let version = ProfileVersion {
            epoch: 1,
            version: 12,
            hash: ProfileHash::of(entries.iter().copied()),
            entries,
            at_ms: 0,
        };
        let hash = version.hash.to_string();
        assert!(version.is_called("12") && version.is_called(&hash[..8]));
        assert!(!version.is_called("1") && !version.is_called(&hash[..7]));
        assert!(!version.is_called("0123456789"));
    }
}
