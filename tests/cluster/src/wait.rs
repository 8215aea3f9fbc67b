//! A bounded wait for a condition.

use std::time::{Duration, Instant};

/// Polls every few milliseconds until `look` returns a value; `None` after `patience`.
pub async fn within<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let asked = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if asked.elapsed() > patience {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
