//! The epochs that the record's stream has blocks of.

use async_nats::jetstream::stream::Stream;
use bus_schemas::Epoch;
use bus_schemas::subject::Subjects;
use futures_util::TryStreamExt;
use scheduler_leader_core::replay::Anchor;

/// Returns all epochs in ascending order. Blocks of an epoch may lie behind those of a later one,
/// because a deposed leader may still have been storing its last. So a replay goes by epoch, not by
/// place.
///
/// # Errors
/// The broker does not answer.
pub async fn epochs(stream: &Stream, subjects: &Subjects) -> Result<Vec<Epoch>, String> {
    // The list is available even if messages cannot be read.
    let listed = stream.info_with_subjects(subjects.record_all()).await;
    let listed = listed.map_err(|error| error.to_string())?;
    let listed: Vec<(String, usize)> = listed
        .try_collect()
        .await
        .map_err(|error| error.to_string())?;
    let named = listed.iter().filter_map(|(subject, _)| {
        let epoch = subject.rsplit('.').next()?.parse().ok()?;
        // Anchors are among the blocks, but belong to no epoch.
        (epoch != Anchor::EPOCH).then_some(epoch)
    });
    let mut epochs: Vec<Epoch> = named.collect();
    epochs.sort_unstable();
    Ok(epochs)
}
