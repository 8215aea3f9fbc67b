//! A rate limit of requests per caller. The limiter itself has a bounded size.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of callers counted; beyond it, the caller with the oldest request is forgotten.
const MOST: usize = 4_096;

/// Requests allowed at once, and the refill per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    burst: f64,
    per_second: f64,
}

/// A token bucket for each caller.
#[derive(Debug)]
pub(crate) struct Limiter {
    rate: Rate,
    buckets: Mutex<HashMap<String, (f64, u64)>>,
}

impl Limiter {
    /// A limiter with a burst and a rate per second.
    pub(crate) fn new(burst: u32, per_second: u32) -> Self {
        Self {
            rate: Rate {
                burst: burst.into(),
                per_second: per_second.into(),
            },
            buckets: Mutex::default(),
        }
    }

    /// Takes one request at the given millisecond; else returns the seconds to wait.
    pub(crate) fn take(&self, who: &str, now_ms: u64) -> Result<(), u64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(who) {
            let oldest = buckets.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                buckets.remove(&oldest);
            }
        }
        let (tokens, at) = buckets
            .entry(who.to_owned())
            .or_insert((self.rate.burst, now_ms));
        let since = now_ms.saturating_sub(*at) as f64 / 1e3;
        *tokens = (*tokens + since * self.rate.per_second).min(self.rate.burst);
        *at = now_ms.max(*at);
        if *tokens >= 1.0 {
            *tokens -= 1.0;
            return Ok(());
        }
        Err(((1.0 - *tokens) / self.rate.per_second).ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_a_rate_and_others_are_not_concerned() {
        let limiter = Limiter::new(3, 2);
        assert!((0..3).all(|_| limiter.take("a", 0).is_ok()));
        assert_eq!(limiter.take("a", 0), Err(1));
        assert!(limiter.take("b", 0).is_ok());
        assert!(limiter.take("a", 500).is_ok());
        assert_eq!(limiter.take("a", 501), Err(1));
        assert!((0..3).all(|_| limiter.take("a", 1_000_000).is_ok()));
    }

    #[test]
    fn whoever_comes_it_stays_small() {
        let limiter = Limiter::new(1, 1);
        for who in 0..3 * MOST as u64 {
            assert!(limiter.take(&who.to_string(), who).is_ok());
        }
        assert!(limiter.buckets.lock().unwrap().len() <= MOST);
    }
}
