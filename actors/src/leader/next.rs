//! The next item of a stream: what every task of the leader waits for.

use futures_util::StreamExt as _;

/// The next item of a stream, or none when it ends: a short name for what every task here does.
pub(super) async fn next<S: futures_util::Stream + Unpin>(source: &mut S) -> Option<S::Item> {
    source.next().await
}
