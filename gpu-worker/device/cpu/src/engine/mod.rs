//! Launches: programs, their instances in sessions, and running them.

mod allowance;
mod barrier;
pub(crate) mod block;
mod call;
mod clock;
pub(crate) mod code;
mod config;
pub(crate) mod context;
mod control;
mod gather;
pub(crate) mod launch;
mod printed;
mod program;
mod running;
pub(crate) mod runtime;
mod warp;
mod worker;

pub use config::{BlockOrder, EngineConfig};
pub use launch::Grid;
pub use program::{Instance, Program};
pub use running::{Progress, Running, Stats};

use crate::error::LaunchError;
use crate::memory::Memory;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Runs launches; keeps their scratch memory for the next ones.
pub struct Engine {
    config: EngineConfig,
    #[expect(
        clippy::vec_box,
        reason = "a launch is handed on from function to function, and is hundreds of bytes"
    )]
    idle: Mutex<Vec<Box<Running>>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Ended launches kept for their buffers.
const IDLE: usize = 8;

impl Engine {
    /// An engine.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Checks a launch and makes it ready; [`Running::step`] runs it.
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
        if entry >= instance.program.decoded.entries.len() {
            return Err(LaunchError::UnknownEntry(format!("number {entry}")));
        }
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let Some(mut running) = idle else {
            return Running::new(self.config, instance, entry, grid, params).map(Box::new);
        };
        running.renew(instance, entry, grid, params)?;
        Ok(running)
    }

    /// Takes a launch back: the next one uses its buffers.
    pub fn recycle(&self, running: Box<Running>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(running);
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
