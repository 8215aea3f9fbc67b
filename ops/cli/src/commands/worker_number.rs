//! The number of a worker that is started by hand. Live workers of a cluster have different
//! numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::Administrator;
use admin::errors::ErrorCode;
use admin::output;
use anyhow::Result;
use broker::Credentials;
use bus_schemas::{GpuId, Incarnation};

/// Time that broker and leader have to list the workers.
const PATIENCE: Duration = Duration::from_secs(1);

/// A requested number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Set by a flag, the environment or the file.
    Given(GpuId),
    /// By default.
    Usual(GpuId),
}

impl Wanted {
    /// The number.
    pub(super) fn number(self) -> GpuId {
        match self {
            Self::Given(gpu) | Self::Usual(gpu) => gpu,
        }
    }

    /// True if no other number will do.
    pub(super) fn is_given(self) -> bool {
        matches!(self, Self::Given(_))
    }
}

/// The error of a worker with a number that a live worker has, the named one if it is known.
pub(super) fn taken(gpu: GpuId, owner: Option<Incarnation>) -> anyhow::Error {
    let owner = owner.map(|owner| format!(", {owner}")).unwrap_or_default();
    let error = ErrorCode::WorkerNumber.failed(format!(
        "gpu {gpu} has a live worker{owner}: name another number, or leave --gpu and worker.gpu \
         out to get the next free one"
    ));
    error.into()
}

/// The number that a worker gets beside the live workers. A given number that is taken is an error,
/// with its owner.
fn number(
    wanted: Wanted,
    live: &BTreeMap<GpuId, Incarnation>,
) -> Result<GpuId, (GpuId, Incarnation)> {
    match wanted {
        Wanted::Given(gpu) => live.get(&gpu).map_or(Ok(gpu), |other| Err((gpu, *other))),
        Wanted::Usual(gpu) => Ok((gpu..).find(|gpu| !live.contains_key(gpu)).unwrap_or(gpu)),
    }
}

/// Chooses the number, and prints it if it is not the default. Only workers that answer themselves
/// count: one that has just died does not block its successor. If no broker or leader answers, the
/// worker gets the requested number.
///
/// # Errors
/// `E-WORKER-NUMBER` if the number was given and a live worker has it.
pub(super) async fn choose(wanted: Wanted, credentials: &Credentials) -> Result<GpuId> {
    let live = live(credentials).await.unwrap_or_default();
    match (number(wanted, &live), wanted) {
        (Ok(gpu), Wanted::Usual(usual)) if gpu != usual => {
            output::note(format_args!(
                "gpu {usual} has a worker: this one is gpu {gpu} (`--gpu` names another number)"
            ));
            Ok(gpu)
        }
        (Ok(gpu), _) => Ok(gpu),
        (Err((gpu, owner)), _) => Err(taken(gpu, Some(owner))),
    }
}

async fn live(credentials: &Credentials) -> Result<BTreeMap<GpuId, Incarnation>> {
    let administrator = Administrator::patient(credentials, PATIENCE).await?;
    let status = administrator.status(PATIENCE).await?;
    let answers = administrator.memory(&status).await.into_iter();
    let live = answers.filter(|device| device.said.is_some());
    Ok(live
        .map(|device| (device.gpu, device.incarnation))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_live_workers_have_one_number() {
        let live = [
            (0, Incarnation(1)),
            (1, Incarnation(2)),
            (3, Incarnation(3)),
        ];
        let live = BTreeMap::from(live);
        for (wanted, gets) in [
            (Wanted::Usual(0), Ok(2)),
            (Wanted::Usual(3), Ok(4)),
            (Wanted::Given(2), Ok(2)),
            (Wanted::Given(3), Err((3, Incarnation(3)))),
        ] {
            assert_eq!(number(wanted, &live), gets, "{wanted:?}");
        }
        assert_eq!(number(Wanted::Usual(0), &BTreeMap::new()), Ok(0));
    }
}
