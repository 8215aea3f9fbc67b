//! Launches: programs, their instances in sessions, and running them.

mod barrier;
pub(crate) mod block;
mod block_runner;
mod call;
mod clock;
pub(crate) mod code;
mod config;
pub(crate) mod context;
mod control;
mod gather;
pub(crate) mod instance;
pub(crate) mod launch;
mod layout;
mod order;
mod printed;
mod program;
mod running;
pub(crate) mod runtime;
mod warp;
mod warp_budget;

pub use config::{BlockOrder, EngineConfig};
pub use instance::Instance;
pub use launch::Grid;
pub use program::Program;
pub use running::{Progress, Running, Stats};

use crate::error::LaunchError;
use crate::memory::Memory;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Runs launches, and keeps their scratch memory for later ones.
pub struct Engine {
    config: EngineConfig,
    idle: Mutex<Vec<(Box<Running>, u64)>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Maximum number of ended launches that are kept for their buffers, and maximum bytes of those
/// together.
const IDLE: usize = 8;
const IDLE_BYTES: u64 = 64 << 20;
/// Bytes of buffers that any launch may have.
const SMALL: u64 = 1 << 20;
/// Returning more than this to the system takes long, so a separate thread does it.
const LARGE: u64 = 32 << 20;

impl Engine {
    /// Creates an engine.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Checks and prepares a launch; [`Running::step`] runs it.
    ///
    /// # Errors
    /// If the dimensions, the shared memory or the parameters do not fit the entry.
    pub fn start(
        &self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
    ) -> Result<Box<Running>, LaunchError> {
        self.start_within(instance, entry, grid, params, u64::MAX)
    }

    /// As [`Engine::start`], for a launch with blocks in progress that take at most `room` bytes
    /// together.
    ///
    /// # Errors
    /// As [`Engine::start`], and if `room` is not sufficient for one block.
    pub fn start_within(
        &self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        room: u64,
    ) -> Result<Box<Running>, LaunchError> {
        if entry >= instance.program.decoded.entries.len() {
            return Err(LaunchError::UnknownEntry(format!("number {entry}")));
        }
        let Some(mut running) = self.idle(room) else {
            return Running::new(self.config, instance, entry, grid, params, room).map(Box::new);
        };
        running.renew(instance, entry, grid, params, room)?;
        Ok(running)
    }

    /// An ended launch with buffers that do not exceed `room`.
    fn idle(&self, room: u64) -> Option<Box<Running>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(_, bytes): &(_, u64)| *bytes <= room.max(SMALL);
        let at = idle.iter().rposition(fits)?;
        Some(idle.swap_remove(at).0)
    }

    /// Takes a launch back; the next one reuses its buffers, unless they are large.
    pub fn recycle(&self, running: Box<Running>) {
        let bytes = running.bytes();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: u64 = idle.iter().map(|(_, bytes)| bytes).sum();
        if idle.len() < IDLE && kept.saturating_add(bytes) <= IDLE_BYTES {
            return idle.push((running, bytes));
        }
        drop(idle);
        Self::forget(running);
    }

    /// Returns a launch's buffers to the system.
    pub fn forget(running: Box<Running>) {
        if running.bytes() > LARGE {
            let thread = std::thread::Builder::new().name("buffers".into());
            // If no thread can be started, they are dropped here.
            drop(thread.spawn(move || drop(running)));
        }
    }

    /// Runs a launch to its end.
    ///
    /// # Errors
    /// As [`Engine::start`], and the kernel's own fault.
    pub fn launch(
        &self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        memory: &mut Memory,
    ) -> Result<Stats, LaunchError> {
        let mut running = self.start(instance, entry, grid, params)?;
        let kill = AtomicBool::new(false);
        let result = loop {
            match running.step(memory, u64::MAX, &kill) {
                Ok(Progress::Running) => {}
                Ok(Progress::Done(stats)) => break Ok(stats),
                Err(fault) => break Err(LaunchError::Fault(fault)),
            }
        };
        self.recycle(running);
        result
    }
}
