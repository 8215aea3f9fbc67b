//! The epochs that the record's stream has blocks of.

use async_nats::jetstream::stream::Stream;
use bus_schemas::Epoch;
use bus_schemas::subject::Subjects;
use futures_util::TryStreamExt;
use scheduler_leader_core::replay::Anchor;

/// All of them, the first first. Blocks of an epoch may lie behind those of a later one: a leader that was
/// deposed may still have been storing its last. So whoever replays the record goes by epoch, not by place.
///
/// # Errors
/// Where the broker does not say.
pub async fn epochs(stream: &Stream, subjects: &Subjects) -> Result<Vec<Epoch>, String> {
    // By what is listed, which is known where messages cannot be read.
    let listed = stream.info_with_subjects(subjects.record_all()).await;
    let listed = listed.map_err(|error| error.to_string())?;
    let listed: Vec<(String, usize)> = listed
        .try_collect()
        .await
        .map_err(|error| error.to_string())?;
    let named = listed.iter().filter_map(|(subject, _)| {
        let epoch = subject.rsplit('.').next()?.parse().ok()?;
        // Anchors are among the blocks, and of no epoch.
        (epoch != Anchor::EPOCH).then_some(epoch)
    });
    let mut epochs: Vec<Epoch> = named.collect();
    epochs.sort_unstable();
    Ok(epochs)
}
