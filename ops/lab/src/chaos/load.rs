//! A load on the machine of a run: threads that each keep a processor busy.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

/// Maximum number of threads of a load.
pub(super) const MOST: usize = 256;
/// Steps between two looks at whether the load is over.
const STEPS: u64 = 1 << 20;

/// Busy threads. They end when this is dropped, and with the process.
pub(super) struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Load {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn start(threads: usize) -> Result<Self> {
        let mut load = Self {
            over: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..threads {
            let over = Arc::clone(&load.over);
            let thread = std::thread::Builder::new().name("load".into());
            let thread = thread.spawn(move || work(&over));
            load.threads.push(thread.context("starting a busy thread")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Computes until the load is over.
fn work(over: &AtomicBool) -> u64 {
    let mut x = 1_u64;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..STEPS {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of threads of this process named "load", and the clock ticks for which they had a processor.
    fn used() -> (usize, u64) {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        let mut found = (0, 0);
        for stat in stats.filter(|stat| stat.contains("(load)")) {
            let behind = &stat[stat.rfind(')').unwrap() + 2..];
            let ticks = behind.split(' ').nth(11).unwrap();
            found = (found.0 + 1, found.1 + ticks.parse::<u64>().unwrap());
        }
        found
    }

    #[test]
    fn a_load_is_busy_until_it_is_dropped() {
        let load = Load::start(3).unwrap();
        while used().1 < 20 {
            std::thread::yield_now();
        }
        assert_eq!(used().0, 3);
        drop(load);
        assert_eq!(used().0, 0);
    }
}
